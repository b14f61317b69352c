/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * spending.h - how often programs ran on behalf of traced tasks, and how long that took them: what
 * the kernel does to call them is not in it. Where they run often, the clock is read for one run in
 * so many. Runs for others are not counted. */
#pragma once

#include "state.h"

#define LOOKS_EVERY 7	    /* no divisor of how calls and returns alternate */
#define INTERRUPTED 1000000 /* ns: others had the CPU meanwhile */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SPENT_KINDS);
	__type(key, __u32);
	__type(value, struct spending);
} spendings SEC(".maps");

/* Not 0 where the run is to be timed. */
static __always_inline __u64 spending_begin(__u32 kind)
{
	struct spending *s = bpf_map_lookup_elem(&spendings, &kind);
	return s && !s->skip ? bpf_ktime_get_ns() : 0;
}

/* The run was for a traced task. */
static __always_inline void spending_end(__u32 kind, __u64 began_ns)
{
	struct spending *s = bpf_map_lookup_elem(&spendings, &kind);
	if (!s)
		return;
	s->runs++;
	if (s->skip) {
		s->skip--;
		return;
	}
	__u64 took_ns = bpf_ktime_get_ns() - began_ns;
	if (!began_ns || took_ns > INTERRUPTED)
		return;
	s->skip = LOOKS_EVERY - 1;
	s->timed++;
	s->timed_ns += took_ns;
}

/* A run of those that are all timed. */
static __always_inline void spend(__u32 kind, __u64 began_ns)
{
	struct spending *s = bpf_map_lookup_elem(&spendings, &kind);
	__u64 took_ns = bpf_ktime_get_ns() - began_ns;
	if (!s)
		return;
	s->runs++;
	if (took_ns > INTERRUPTED)
		return;
	s->timed++;
	s->timed_ns += took_ns;
}
