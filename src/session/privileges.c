/* privileges.c - the tables of what the tracer may do. The guard's, which may less, is in
 * probe/guard.c.
 *
 * The capabilities were found by taking away each and running the tests (docs/security.md). The
 * calls are those that a tracer never makes and that lead out of it: other programs, other file
 * systems, other code in the kernel, other users. */
#include "session/privileges.h"

#include <linux/capability.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "base/buffer.h"
#include "base/oom.h"

#define LEN(x)	     (sizeof(x) / sizeof((x)[0]))
#define POKING_CALLS 7 /* the last ones that are forbidden */

static const struct sandbox_capability always[] = {
	{CAP_BPF, "loads programs, makes maps"},
	{CAP_PERFMON, "attaches probes and clocks, reads what programs see"},
	{CAP_SYS_PTRACE, "reads maps, environment and memory of other users' processes"},
	{CAP_CHECKPOINT_RESTORE, "opens mapped files by /proc/PID/map_files"},
	{CAP_DAC_OVERRIDE, "opens libraries in closed folders, writes into the caller's folder"},
	{CAP_CHOWN, "gives the recording to the caller"},
	{CAP_FOWNER, "renames and removes what belongs to the caller in folders such as /tmp"},
	{CAP_SYS_NICE, "answers held tasks before anything else runs"},
	{CAP_SYSLOG, "names the kernel's functions"},
};

/* Where a library is brought into processes that run. */
static const struct sandbox_capability attaching[] = {
	{CAP_SETUID, "makes files for a process with that process's own rights"},
	{CAP_SETGID, "likewise"},
};

/* Where the kernel takes no probe from who has less: single links. */
static const struct sandbox_capability admin[] = {
	{CAP_SYS_ADMIN, "attaches probes one by one"},
};

static const struct sandbox_call forbidden[] = {
	/* other programs */
	{.number = SYS_execve},
	{.number = SYS_execveat},
	/* other file systems, and files by handles */
	{.number = SYS_mount},
	{.number = SYS_umount2},
	{.number = SYS_move_mount},
	{.number = SYS_open_tree},
	{.number = SYS_fsopen},
	{.number = SYS_fsconfig},
	{.number = SYS_fsmount},
	{.number = SYS_fspick},
	{.number = SYS_mount_setattr},
	{.number = SYS_pivot_root},
	{.number = SYS_chroot},
	{.number = SYS_mknod},
	{.number = SYS_mknodat},
	{.number = SYS_swapon},
	{.number = SYS_swapoff},
	{.number = SYS_quotactl},
	{.number = SYS_open_by_handle_at},
	/* other namespaces */
	{.number = SYS_setns},
	{.number = SYS_unshare},
	/* the kernel, the machine, its clock */
	{.number = SYS_init_module},
	{.number = SYS_finit_module},
	{.number = SYS_delete_module},
	{.number = SYS_kexec_load},
	{.number = SYS_kexec_file_load},
	{.number = SYS_reboot},
	{.number = SYS_iopl},
	{.number = SYS_ioperm},
	{.number = SYS_settimeofday},
	{.number = SYS_clock_settime},
	{.number = SYS_adjtimex},
	{.number = SYS_clock_adjtime},
	{.number = SYS_sethostname},
	{.number = SYS_setdomainname},
	{.number = SYS_acct},
	/* keys; calls that no filter sees */
	{.number = SYS_add_key},
	{.number = SYS_request_key},
	{.number = SYS_keyctl},
	{.number = SYS_io_uring_setup},
	{.number = SYS_userfaultfd},
	/* other processes; not where the CUPTI shim is brought into them */
	{.number = SYS_ptrace, .arg = 0, .mask = ~0ULL, .value = PTRACE_POKETEXT},
	{.number = SYS_ptrace, .arg = 0, .mask = ~0ULL, .value = PTRACE_POKEDATA},
	{.number = SYS_ptrace, .arg = 0, .mask = ~0ULL, .value = PTRACE_POKEUSER},
	{.number = SYS_ptrace, .arg = 0, .mask = ~0ULL, .value = PTRACE_SETREGS},
	{.number = SYS_ptrace, .arg = 0, .mask = ~0ULL, .value = PTRACE_SETFPREGS},
	{.number = SYS_ptrace, .arg = 0, .mask = ~0ULL, .value = PTRACE_SETREGSET},
	{.number = SYS_ptrace, .arg = 0, .mask = ~0ULL, .value = PTRACE_SEIZE},
};

static void add(struct privileges *p, const struct sandbox_capability *more, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p->capabilities[p->sandbox.capabilities_len++] = more[i];
}

/* Whether the kernel refuses to attach by that method without CAP_SYS_ADMIN, by trying. */
static bool needs_admin(enum attach_method method)
{
	struct err e;
	if (sandbox_lower(CAP_SYS_ADMIN, true))
		return false; /* it is not there */
	bool works = method == ATTACH_AUTO ? attach_try_methods(&e) != ATTACH_AUTO
					   : !attach_try_method(method, &e);
	sandbox_lower(CAP_SYS_ADMIN, false);
	return !works;
}

void privileges_choose(struct privileges *ret, bool attaches, enum attach_method method)
{
	*ret = (struct privileges){.sandbox = {.rule = SANDBOX_ALL_BUT,
					       .calls = forbidden,
					       .calls_len = LEN(forbidden)}};
	ret->sandbox.capabilities = ret->capabilities;
	add(ret, always, LEN(always));
	if (attaches) {
		add(ret, attaching, LEN(attaching));
		ret->sandbox.calls_len -= POKING_CALLS;
	}
	if (needs_admin(method))
		add(ret, admin, LEN(admin));
}

int privileges_give_up(bool attaches, enum attach_method method, struct err *e)
{
	struct privileges kept;
	privileges_choose(&kept, attaches, method);
	int before = oom_allow_begin(); /* for the guard */
	int rc = sandbox_enter(&kept.sandbox, e);
	oom_allow_end(before);
	return rc;
}
