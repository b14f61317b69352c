/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * xid.h - Xid errors, from the tracepoint of NVIDIA's kernel module. Where its fields are is
 * read from the tracepoint's format before loading: it is not the kernel's own. */
#pragma once

#include "state.h"

const volatile __u32 xid_code_at; /* u32 error_code */
const volatile __u32 xid_bus_at;  /* __data_loc char[] dev */
const volatile __u32 xid_text_at; /* __data_loc char[] msg */

/* __data_loc: 16 bits of offset, 16 bits of length (Documentation/trace/events.rst). */
static __always_inline void read_located(void *ctx, __u32 at, char *ret, __u32 size)
{
	__u32 location = 0;
	bpf_probe_read_kernel(&location, sizeof(location), ctx + at);
	bpf_probe_read_kernel_str(ret, size, ctx + (location & 0xffff));
}

SEC("tracepoint")
int on_xid(void *ctx)
{
	struct rec_xid *r = bpf_ringbuf_reserve(&control, sizeof(*r), 0);
	if (!r) {
		count_loss(LOSS_TASK_FULL);
		return 0;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = REC_XID;
	r->time_ns = bpf_ktime_get_ns();
	bpf_probe_read_kernel(&r->code, sizeof(r->code), ctx + xid_code_at);
	read_located(ctx, xid_bus_at, r->bus, sizeof(r->bus));
	read_located(ctx, xid_text_at, r->text, sizeof(r->text));
	control_submit(r, true);
	return 0;
}
