/* gate.c - what calls.c asks libc for, now and then, amid a call of the job's: errno is kept, no
 * cancellation is acted upon, and the registers of vectors are (entry.S). Compiled, as calls.c,
 * without these. */
#include <cpuid.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "calls.h"
#include "threads.h"

#define LOOK_TICKS (1ULL << 31) /* a second or so */

static bool has_xsave(void)
{
	static int known; /* 1: no, 2: yes */
	unsigned a, b, c = 0, d;
	if (!known)
		known = __get_cpuid(1, &a, &b, &c, &d) && c & bit_OSXSAVE ? 2 : 1;
	return known == 2;
}

static void call_apart(void (*function)(void *), void *argument)
{
	int error = errno, cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	calls_apart(function, argument, has_xsave());
	pthread_setcancelstate(cancel, &cancel);
	errno = error;
}

bool calls_on_signal_stack(void)
{
	stack_t s = {0};
	int error = errno;
	bool on = !sigaltstack(NULL, &s) && s.ss_flags & SS_ONSTACK;
	errno = error;
	return on;
}

/* A handler of a signal amid this, or amid what it calls for us, is not recorded. */
struct call_thread *calls_begin_thread(void)
{
	static __thread bool beginning;
	struct call_thread *t = NULL;
	if (beginning || calls_on_signal_stack())
		return NULL;
	beginning = true;
	call_apart(threads_begin, &t);
	calls_own = t;
	beginning = false;
	return t;
}

void calls_count_slotless(void)
{
	if (eacgm_call_header)
		__atomic_fetch_add(&eacgm_call_header->no_slot, 1, __ATOMIC_RELAXED);
}

bool calls_more_hists(struct call_thread *t, uint32_t first, uint32_t n)
{
	struct more_hists more = {.thread = t, .first = first, .n = n};
	if (!t->hists_full)
		call_apart(threads_more_hists, &more);
	return more.done;
}

void calls_look_for_eacgm(struct call_thread *t, uint64_t now)
{
	static uint64_t looked;
	uint64_t before = __atomic_load_n(&looked, __ATOMIC_RELAXED);
	if (now - before < LOOK_TICKS ||
	    !__atomic_compare_exchange_n(&looked, &before, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	call_apart(threads_look, t);
}
