/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * args_wide.h - arguments that are more than one slot, or not a value at all: launch
 * dimensions, tensors' shapes, unique ids, long texts, sequence numbers. All but shapes are read
 * when the call begins. */
#pragma once

#include "args_value.h"
#include "wire/nccl_hash.h"
#include "wire/shape.h"

/* Sequence numbers: how many calls there were with this value. */
struct count_key {
	__u64 value;
	__u32 tgid;
	__u32 group;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct count_key);
	__type(value, __u64);
} counts SEC(".maps");

static __always_inline __u64 dim3_pack(__u32 x, __u32 y, __u32 z)
{
	return (__u64)(x & 0x7fffffff) | (__u64)(y & 0xffff) << 31 | (__u64)(z & 0xffff) << 47;
}

/* Follows all pointers but the last, and says where that one leads. */
static __always_inline int address_of(const struct arg_desc *a, __u64 v, __u64 *ret)
{
	for (int i = 0; i < 2; i++) {
		if (i + 1 >= a->nderef)
			break;
		if (bpf_probe_read_user(&v, 8, (void *)(v + (__s64)a->deref[i])))
			return -1;
	}
	__u32 last = a->nderef - 1;
	*ret = v + (last < 3 ? (__s64)a->deref[last] : 0);
	return 0;
}

__noinline __u64 fetch_dimensions(struct raw_args *raw, const struct arg_desc *a, __u64 v,
				  __u8 *flags)
{
	if (!raw || !a || !flags)
		return 0;
	__u32 xyz[3] = {};
	__u64 address;
	__u32 position = position_of(a);
	if (a->fetch == FETCH_XYZ)
		return dim3_pack(v, raw_at(raw, position + 1), raw_at(raw, position + 2));
	if (!a->nderef)
		return dim3_pack(v, v >> 32, raw_at(raw, position + 1));
	if (address_of(a, v, &address) || bpf_probe_read_user(xyz, sizeof(xyz), (void *)address)) {
		*flags |= CALL_ARG_FAULT;
		count_loss(LOSS_ARG_FAULT);
		return 0;
	}
	return dim3_pack(xyz[0], xyz[1], xyz[2]);
}

/* The shape of a tensor. It is believed only where the product of the sizes is the number of
 * elements that the tensor tells: what is no tensor, or of another version, has no shape. One
 * of more dimensions has its sizes elsewhere. */
__noinline __u64 fetch_shape(const struct arg_desc *a, __u64 v, __u8 *flags)
{
	struct tensor_sizes t;
	__u64 address, numel = 1;
	if (!a || !flags)
		return SHAPE_UNKNOWN;
	if (address_of(a, v, &address) || bpf_probe_read_user(&t, sizeof(t), (void *)address)) {
		*flags |= CALL_ARG_FAULT;
		count_loss(LOSS_ARG_FAULT);
		return SHAPE_UNKNOWN;
	}
	if (t.dims > SHAPE_DIMS)
		return SHAPE_UNKNOWN;
	for (int i = 0; i < SHAPE_DIMS; i++)
		if (i < t.dims)
			numel *= t.sizes[i];
	return numel == t.numel ? shape_pack(t.sizes, t.dims) : SHAPE_UNKNOWN;
}

static __always_inline __u64 hash_uid(const __u8 *bytes)
{
	struct nccl_hash h = NCCL_HASH_INIT;
	nccl_hash_size(&h, UID_BYTES);
	for (int i = 0; i < UID_BYTES / 8; i++) {
		__u64 word;
		__builtin_memcpy(&word, bytes + 8 * i, 8);
		nccl_hash_word(&h, word);
	}
	return nccl_hash_end(&h);
}

/* A struct that is passed by value lies on the stack: its slot is its beginning. */
__noinline __u64 fetch_uid(struct raw_args *raw, const struct arg_desc *a, __u64 v,
			   struct open_call *c)
{
	if (!raw || !a || !c)
		return 0;
	__u64 address = stack_slot(raw, a->index), hash = 0;
	int rc = a->nderef ? address_of(a, v, &address) : 0;
	struct scratch *s = rc ? NULL : scratch_claim();
	_Static_assert(sizeof(s->key.bytes) >= UID_BYTES, "room for an id");
	if (s && !bpf_probe_read_user(s->key.bytes, UID_BYTES, (void *)address)) {
		hash = hash_uid(s->key.bytes);
	} else {
		c->flags |= CALL_ARG_FAULT;
		count_loss(LOSS_ARG_FAULT);
	}
	if (s)
		scratch_release(s);
	return hash;
}

static __noinline __u64 fetch_count(const struct arg_desc *a, __u64 v)
{
	struct count_key key = {
		.value = v, .tgid = bpf_get_current_pid_tgid() >> 32, .group = a->layout};
	__u64 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&counts, &key);
	if (!n) {
		bpf_map_update_elem(&counts, &key, &zero, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&counts, &key);
	}
	return n ? __sync_fetch_and_add(n, 1) : 0;
}

#define COUNT_GROUPS 64 /* roles of the catalog */

/* A new thing at the place of an old one: what was counted of that is void. */
static __noinline int begin_counts(__u64 value)
{
	struct count_key key = {.value = value, .tgid = bpf_get_current_pid_tgid() >> 32};
	for (int i = 0; i < COUNT_GROUPS; i++) {
		key.group = i;
		bpf_map_delete_elem(&counts, &key);
	}
	return 0;
}

#define TEXT_LATER (1ULL << 63) /* with the argument itself: to be read at return */

/* Rare and long: a record of its own each time, no table of those that were seen. A text in
 * a page that nobody has read yet cannot be read here; the function itself will have. */
__noinline __u64 fetch_text(const struct arg_desc *a, __u64 v, struct open_call *c, bool last)
{
	if (!a || !c)
		return 0;
	__u64 address = v, id = 0;
	if (a->nderef && address_of(a, v, &address) == 0)
		bpf_probe_read_user(&address, 8, (void *)address);
	void *ring = ring_here();
	struct rec_text *r = ring ? bpf_ringbuf_reserve(ring, sizeof(*r), 0) : NULL;
	if (!r) {
		count_loss(LOSS_STRING_FULL);
		return 0;
	}
	long n = bpf_probe_read_user_str(r->bytes, TEXT_BYTES, (void *)address);
	if (n <= 0) {
		bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
		if (!last)
			return v | TEXT_LATER;
		c->flags |= CALL_ARG_FAULT;
		count_loss(LOSS_ARG_FAULT);
		return 0;
	}
	id = __sync_fetch_and_add(&next_id, 1);
	r->kind = REC_TEXT;
	r->cut = n == TEXT_BYTES;
	if (r->cut) {
		c->flags |= CALL_ARG_CUT;
		count_loss(LOSS_ARG_CUT);
	}
	r->pad[0] = r->pad[1] = 0;
	r->len = (__u32)n - 1;
	r->id = id;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return id;
}

static __noinline __u64 fetch_wide(struct raw_args *raw, const struct arg_desc *a, __u64 v,
				   struct open_call *c)
{
	switch (a->fetch) {
	case FETCH_TEXT:
		return fetch_text(a, v, c, false);
	case FETCH_COUNT:
		return fetch_count(a, v);
	case FETCH_UID:
		return fetch_uid(raw, a, v, c);
	case FETCH_SHAPE:
		return a->at_return ? v : fetch_shape(a, v, &c->flags);
	default:
		return fetch_dimensions(raw, a, v, &c->flags);
	}
}
