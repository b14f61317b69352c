/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hits.h - how often traced tasks came by each probe, for a budget (src/session/budget.h): also
 * where nothing is recorded of it. CPUs share a few counters of a probe, so that they seldom write
 * to the same one. */
#pragma once

#include "state.h"

/* Of one entry where nobody counts. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} hits SEC(".maps");

static __always_inline void count_hit(__u64 cookie)
{
	if (!counts_hits)
		return;
	__u32 key = HITS_KEY(bpf_get_smp_processor_id(), COOKIE_PROBE(cookie));
	__u64 *n = bpf_map_lookup_elem(&hits, &key);
	if (n)
		__sync_fetch_and_add(n, 1);
}
