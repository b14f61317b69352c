/* own_frames.c - probes at work: what the kernel runs for them on the stacks of those who are
 * traced, the traps, the programs, what these call, is one frame. By the names of the kernel's
 * functions (kernel/events/uprobes.c, kernel/trace, arch/x86/entry); probes of another tracer look
 * the same. So is what libeacgm_calls.so does; where it only called the probed function it is none.
 */
#include <string.h>

#include "pipeline/stacks.h"
#include "wire/call_ring.h"

static bool is_one_of(const char *name, const char *const *list, size_t n, bool whole)
{
	for (size_t i = 0; i < n; i++)
		if (whole ? !strcmp(name, list[i]) : !strncmp(name, list[i], strlen(list[i])))
			return true;
	return false;
}
#define IS_ONE_OF(name, list, whole) is_one_of(name, list, sizeof(list) / sizeof(*(list)), whole)

/* Whether a function runs probes, and nothing else. */
static bool runs_probes(const char *name)
{
	static const char *const starts[] = {"uprobe_",
					     "uretprobe_",
					     "__do_sys_uretprobe",
					     "__x64_sys_uretprobe",
					     "__x64_sys_uprobe",
					     "arch_uprobe_",
					     "arch_uretprobe_",
					     "handle_swbp",
					     "handle_uretprobe_chain",
					     "bpf_prog_",
					     "bpf_trace_run",
					     "__bpf_trace_",
					     "bpf_trampoline_",
					     "__bpf_prog_"};
	return IS_ONE_OF(name, starts, false);
}

/* Ways into the kernel that a probe may have taken; others take them too. */
static bool is_entry(const char *name)
{
	static const char *const names[] = {
		"asm_exc_int3",		  "exc_int3",
		"do_int3_user",		  "irqentry_exit_to_user_mode",
		"exit_to_user_mode_loop", "exit_to_user_mode_prepare",
		"asm_exc_debug",	  "exc_debug",
		"exc_debug_user",	  "entry_SYSCALL_64_after_hwframe",
		"do_syscall_64",	  "x64_sys_call"};
	return IS_ONE_OF(name, names, true);
}

/* The trap of a breakpoint, or of the one step of the instruction that it stands on. */
static bool is_trap(const char *name)
{
	return !strcmp(name, "asm_exc_int3") || !strcmp(name, "asm_exc_debug");
}

size_t own_frames_fold(struct pipeline *p, bool all, uint32_t *frames, size_t n)
{
	size_t outermost = n, begin;
	all = n && (all || is_trap(frames_name(p, frames[n - 1])));
	while (outermost > 0 && !runs_probes(frames_name(p, frames[outermost - 1])))
		outermost--;
	if (!outermost && !all)
		return n;
	for (begin = n; begin > outermost; begin--)
		if (!is_entry(frames_name(p, frames[begin - 1])))
			break;
	/* entered for something else: that is the job's */
	size_t last = all || begin == outermost ? n : outermost;
	frames[0] = frames_own(p);
	memmove(frames + 1, frames + last, (n - last) * sizeof(*frames));
	return n - last + 1;
}

static bool is_inside(struct pipeline *p, uint32_t frame)
{
	const char *path = rec_string_get(p->writer, frames_get(p, frame)->row.library);
	const char *slash = strrchr(path, '/');
	return !strcmp(slash ? slash + 1 : path, CALL_SHIM);
}

size_t own_frames_fold_inside(struct pipeline *p, uint32_t *frames, size_t n)
{
	size_t own = 0, kept = 0, kernel = 0;
	while (kernel < n && frames_get(p, frames[kernel])->row.kind == FRAME_KERNEL)
		kernel++;
	for (size_t i = kernel; i < n && is_inside(p, frames[i]); i++)
		own = i + 1; /* it works itself, or the kernel for it */
	if (own)
		frames[kept++] = frames_own(p);
	for (size_t i = own; i < n; i++)
		if (i < kernel || !is_inside(p, frames[i]))
			frames[kept++] = frames[i];
	return kept;
}
