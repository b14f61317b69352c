/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * fixed_work.h - how fast a CPU is while it runs a traced process: at ticks of the CPU clock the
 * same few thousand instructions are run, and timed. Where another virtual machine, or another
 * program, has the other hyperthread of the core, or the clock is held down, these take longer, and
 * so does all code of the process, though no time is stolen. Hardware counters, which would tell
 * the same, are what virtual machines lack. User space reads the sums. */
#pragma once

#include "state.h"

#include "wire/fixed_work.h"

/* In all some two microseconds at each of a hundred ticks a second, of which the quickest of three
 * pieces is told: far more than reading the clock takes. */
#define WORK_ROUNDS  75
#define WORK_PIECES  3
#define WORK_MOST_NS 20000
#define WORKERS_MOST 1024 /* user space takes them out each half second */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WORKERS_MOST);
	__type(key, __u32); /* tgid */
	__type(value, struct fixed_work);
} fixed_works SEC(".maps");

/* Whoever changes this gives the counter another name: models know how long it takes.
 *
 * Six sums that do not wait for each other: they need the core's units, of which its hyperthreads
 * share one set. A chain of which each instruction waits for the one before leaves them free, and
 * takes as long beside another hyperthread as without it. */
__noinline __u64 do_fixed_work(void)
{
	__u64 a = 1, b = a + 1, c = a + 2, d = a + 3, e = a + 4, f = a + 5;
	for (int i = 0; i < WORK_ROUNDS; i++) {
		a += b ^ i;
		b = b * 3 + 1;
		c += d ^ i;
		d = d * 5 + 1;
		e += f ^ i;
		f = (f << 1) + c;
		asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	}
	return a + b + c + d + e + f;
}

static __always_inline void time_fixed_work(__u32 tgid)
{
	struct fixed_work *w = bpf_map_lookup_elem(&fixed_works, &tgid);
	if (!w) {
		struct fixed_work first = {.since_ns = bpf_ktime_get_ns()};
		bpf_map_update_elem(&fixed_works, &tgid, &first, BPF_NOEXIST);
		w = bpf_map_lookup_elem(&fixed_works, &tgid);
	}
	if (!w)
		return;
	/* Once for the caches, which a thread that comes back from a wait finds cold; then in
	 * pieces, of which the quickest counts: the hypervisor may come between. */
	__u64 sum = do_fixed_work(), ns = WORK_MOST_NS;
	for (int i = 0; i < WORK_PIECES; i++) {
		__u64 began_ns = bpf_ktime_get_ns();
		sum |= do_fixed_work() | do_fixed_work() | do_fixed_work();
		__u64 took_ns = bpf_ktime_get_ns() - began_ns;
		ns = took_ns < ns ? took_ns : ns;
	}
	if (!sum) /* it is asked for, or the work would not be done */
		return;
	__sync_fetch_and_add(&w->n, 1);
	__sync_fetch_and_add(&w->ns, ns);
}
