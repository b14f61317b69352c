/* stalls.h - what the kernel takes of a thread's time on the CPU for something that its program did
 * not ask for: the kinds of it, and the records. Shared by the BPF programs and user space; kinds
 * and numbers are those of files: append only. */
#pragma once

#include <linux/types.h>

enum stall_kind {
	STALL_INTERRUPT, /* of a device, or of the CPU itself: its timer, a call by another CPU */
	STALL_SOFTIRQ, /* what the kernel put off in an interrupt, on the thread that had the CPU */
	STALL_RECLAIM, /* memory is short: the thread has to free some before it gets any */
	STALL_COMPACTION, /* memory is in pieces: the thread has to move some to get a large one */
	STALL_KINDS,
};
#define STALL_KIND_NAMES                                                                           \
	{                                                                                          \
		"interrupt", "softirq", "reclaim", "compaction"                                    \
	}

/* Numbers of softirqs (include/linux/interrupt.h), by which they are called. */
#define STALL_SOFTIRQS 10
#define SOFTIRQ_NET_RX 3
#define STALL_SOFTIRQ_NAMES                                                                        \
	{                                                                                          \
		"HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED",        \
			"HRTIMER", "RCU"                                                           \
	}

/* Numbers of reclaims: whose memory is short. */
enum stall_reclaim {
	RECLAIM_HOST,
	RECLAIM_CGROUP, /* its limit is reached */
	STALL_RECLAIMS,
};
#define STALL_RECLAIM_NAMES                                                                        \
	{                                                                                          \
		"host", "cgroup"                                                                   \
	}

/* Numbers of interrupts: the line, as in /proc/interrupts. Those of the CPU itself have none: their
 * number is below 0, and the vector without its sign (arch/x86/include/asm/irq_vectors.h). */
#define STALL_VECTOR_NAMES                                                                         \
	{                                                                                          \
		{0xec, "local_timer"}, {0xf6, "irq_work"}, {0xfa, "thermal"},                      \
			{0xfb, "call_function_single"}, {0xfc, "call_function"},                   \
		{                                                                                  \
			0xfd, "reschedule"                                                         \
		}                                                                                  \
	}

#define STALL_NAME 16

/* One of some length. */
struct rec_stall {
	__u8 kind;  /* REC_STALL */
	__u8 stall; /* enum stall_kind */
	__u8 pad[2];
	__s32 number; /* of softirqs, reclaims, interrupts: above */
	__u32 tgid;
	__u32 tid;
	__u64 start_ns;
	__u64 duration_ns;
	__u64 own_ns; /* of that: on the CPU, and in no other stall, which interrupted this one */
	__u32 cpu;
	__u32 sender_tgid;     /* of NET_RX: whose packets it was about; 0 = not known */
	char name[STALL_NAME]; /* of interrupts: who handles them; else "" */
	char comm[16];	       /* the thread's own */
	char sender[16];       /* what that process calls itself */
};

/* All of one thread, kind and number. */
struct stall_sum {
	__u8 stall; /* enum stall_kind */
	__u8 used;
	__u8 pad[2];
	__s32 number;
	char name[STALL_NAME]; /* as above */
	__u64 count;
	__u64 own_ns;
	__u64 longest_ns; /* own_ns of one */
	__u64 left_out;	  /* that were long enough for a record, and have none */
};

/* Where sums are in a record: softirqs by number, reclaims by number, compaction, interrupts as
 * they came, and the rest of the interrupts. */
#define SUM_RECLAIMS	  STALL_SOFTIRQS
#define SUM_COMPACTION	  (SUM_RECLAIMS + STALL_RECLAIMS)
#define SUM_INTERRUPTS	  (SUM_COMPACTION + 1)
#define STALL_INTERRUPTS  10
#define SUM_OTHERS	  (SUM_INTERRUPTS + STALL_INTERRUPTS)
#define STALL_SUMS	  (SUM_OTHERS + 1)
#define STALL_OTHER_LINES 0x7fffffff /* the number of that rest */

struct rec_stall_sums {
	__u8 kind; /* REC_STALL_SUMS */
	__u8 last; /* the thread, or tracing, ends */
	__u8 pad[2];
	__u32 tgid;
	__u32 tid;
	__u32 pad2;
	__u64 since_ns; /* all between these is in the sums */
	__u64 until_ns;
	char comm[16];
	struct stall_sum sums[STALL_SUMS];
};

#ifndef __cplusplus
_Static_assert(sizeof(struct rec_stall) == 96, "shared by BPF and user space");
_Static_assert(sizeof(struct stall_sum) == 56, "likewise");
_Static_assert(sizeof(struct rec_stall_sums) == 48 + 56 * STALL_SUMS, "likewise");
#endif
