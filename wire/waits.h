/* waits.h - why threads do not run: the reasons, which of them each system call stands for, and the
 * records of waits. Shared by the BPF programs and user space; the reasons' numbers are those of
 * files: append only. */
#pragma once

#include <linux/types.h>

enum wait_reason {
	WAIT_OTHER,
	WAIT_PREEMPTED, /* it could have run */
	WAIT_FUTEX,	/* a lock or a condition variable */
	WAIT_GIL,
	WAIT_DISK,
	WAIT_PAGE_FAULT,
	WAIT_NETWORK,
	WAIT_POLL, /* poll, select, epoll: several files at once */
	WAIT_PIPE,
	WAIT_SLEEP,
	WAIT_CHILD,   /* another process to end, or to begin its program */
	WAIT_GPU,     /* the GPU or its driver */
	WAIT_HELD,    /* eacgm held it until its libraries were probed, whether on the CPU or not */
	WAIT_STOPPED, /* by a signal or a debugger */
	WAIT_SIGNAL,  /* until a signal comes: sigsuspend, pause */
	WAIT_REASONS,
};
#define WAIT_REASON_NAMES                                                                          \
	{                                                                                          \
		"other", "preempted", "futex", "gil", "disk", "page_fault", "network", "poll",     \
			"pipe", "sleep", "child", "gpu", "held", "stopped", "signal"               \
	}

/* In the place of a reason: what the call's first argument has open decides. */
#define WAIT_BY_FILE 255

#define WAIT_SYSCALLS 512 /* numbers are smaller */

/* System calls of x86-64 (arch/x86/entry/syscalls/syscall_64.tbl); those left out are
 * WAIT_OTHER. */
static const unsigned char wait_of_syscall[WAIT_SYSCALLS] = {
	[0] = WAIT_BY_FILE,   /* read */
	[1] = WAIT_BY_FILE,   /* write */
	[7] = WAIT_POLL,      /* poll */
	[16] = WAIT_BY_FILE,  /* ioctl */
	[17] = WAIT_DISK,     /* pread64 */
	[18] = WAIT_DISK,     /* pwrite64 */
	[19] = WAIT_BY_FILE,  /* readv */
	[20] = WAIT_BY_FILE,  /* writev */
	[23] = WAIT_POLL,     /* select */
	[26] = WAIT_DISK,     /* msync */
	[34] = WAIT_SIGNAL,   /* pause */
	[35] = WAIT_SLEEP,    /* nanosleep */
	[40] = WAIT_BY_FILE,  /* sendfile */
	[42] = WAIT_NETWORK,  /* connect */
	[43] = WAIT_NETWORK,  /* accept */
	[44] = WAIT_NETWORK,  /* sendto */
	[45] = WAIT_NETWORK,  /* recvfrom */
	[46] = WAIT_NETWORK,  /* sendmsg */
	[47] = WAIT_NETWORK,  /* recvmsg */
	[56] = WAIT_CHILD,    /* clone, of vfork */
	[58] = WAIT_CHILD,    /* vfork */
	[61] = WAIT_CHILD,    /* wait4 */
	[65] = WAIT_FUTEX,    /* semop */
	[73] = WAIT_FUTEX,    /* flock */
	[74] = WAIT_DISK,     /* fsync */
	[75] = WAIT_DISK,     /* fdatasync */
	[128] = WAIT_SIGNAL,  /* rt_sigtimedwait */
	[130] = WAIT_SIGNAL,  /* rt_sigsuspend */
	[162] = WAIT_DISK,    /* sync */
	[202] = WAIT_FUTEX,   /* futex */
	[220] = WAIT_FUTEX,   /* semtimedop */
	[230] = WAIT_SLEEP,   /* clock_nanosleep */
	[232] = WAIT_POLL,    /* epoll_wait */
	[247] = WAIT_CHILD,   /* waitid */
	[270] = WAIT_POLL,    /* pselect6 */
	[271] = WAIT_POLL,    /* ppoll */
	[275] = WAIT_BY_FILE, /* splice */
	[277] = WAIT_DISK,    /* sync_file_range */
	[281] = WAIT_POLL,    /* epoll_pwait */
	[288] = WAIT_NETWORK, /* accept4 */
	[295] = WAIT_DISK,    /* preadv */
	[296] = WAIT_DISK,    /* pwritev */
	[299] = WAIT_NETWORK, /* recvmmsg */
	[306] = WAIT_DISK,    /* syncfs */
	[307] = WAIT_NETWORK, /* sendmmsg */
	[327] = WAIT_DISK,    /* preadv2 */
	[328] = WAIT_DISK,    /* pwritev2 */
	[426] = WAIT_POLL,    /* io_uring_enter */
	[435] = WAIT_CHILD,   /* clone3, of vfork */
	[441] = WAIT_POLL,    /* epoll_pwait2 */
	[449] = WAIT_FUTEX,   /* futex_waitv */
	[455] = WAIT_FUTEX,   /* futex_wait */
};

/* One wait: from when the thread left its CPU until it had one again. */
struct rec_wait {
	__u8 kind;     /* REC_WAIT */
	__u8 reason;   /* enum wait_reason */
	__u8 rival_v1; /* whose cgroup's number is one of version 1 */
	__u8 pad;
	__s32 syscall; /* number, -1 = none */
	__u32 tgid;
	__u32 tid;
	__u64 start_ns;
	__u64 duration_ns;
	__u64 runnable_ns; /* the end of it: it could run, and there was no CPU */
	__u32 waker_tgid;  /* 0: an interrupt, or not known */
	__u32 waker_tid;
	__u32 rival_tgid;   /* who had the CPU while it could run, 0 = not known */
	__u32 rival_leader; /* of its process group; where that is the thread's own, the ancestor
			       that started it; 0 = not known */
	__u64 rival_cgroup; /* number of a cgroup, 0 = not known; in version 1 of the controller cpu
			     */
	char comm[16];	    /* the thread's own */
	char rival[16];	    /* of who had the CPU */
};

/* All waits of a thread for one reason. */
struct wait_sum {
	__u64 count;
	__u64 waited_ns;   /* until it was woken */
	__u64 runnable_ns; /* from then on, or since it was preempted, until it ran */
	__u64 longest_ns;  /* both, of one wait */
	__u64 left_out; /* waits that were long enough for a record of their own, and have none */
	__u64 uninterruptible_ns; /* of waited_ns: in state D of proc_pid_stat(5) */
};

struct rec_wait_sums {
	__u8 kind;	  /* REC_WAIT_SUMS */
	__u8 last;	  /* the thread, or tracing, ends */
	__u16 migrations; /* how often it came to another CPU, since that was told last */
	__u32 tgid;
	__u32 tid;
	__u32 cpus;	/* that the thread may run on; 0 = not known */
	__u64 since_ns; /* all of the thread's time between these is either in a sum or was run */
	__u64 until_ns;
	__u64 uninterruptible_ns; /* since that was told last */
	char comm[16];
	struct wait_sum sums[WAIT_REASONS];
};

#ifndef __cplusplus
_Static_assert(sizeof(struct rec_wait) == 96, "shared by BPF and user space");
_Static_assert(sizeof(struct rec_wait_sums) == 56 + 48 * WAIT_REASONS, "likewise");
#endif
