/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * args_value.h - fetches one value: registers, stack slots, pointers to follow, strings of C, C++
 * and CPython, code objects. Strings and code objects are interned: the call holds a number, and a
 * record of its own gives the bytes once. */
#pragma once

#include "state.h"

struct string_key {
	__u8 bytes[STRING_BYTES];
	__u32 len;
	__u8 fetch;
	__u8 pystate;
	__u8 cut;
	__u8 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STRINGS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct string_key);
	__type(value, __u64);
} strings SEC(".maps");

struct code_key {
	__u64 code; /* address of the code object */
	__u64 name; /* addresses of its name and file: they tell a new object at an old address */
	__u64 file;
	__u64 tgid;
};

/* Those of processes that have ended, and of code that is made and thrown away, go when others
 * come; one that goes and is called again after all is told again, by another number. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CODES_MAX);
	__type(key, struct code_key);
	__type(value, __u64);
} codes SEC(".maps");

/* Room for what does not fit on the BPF stack. Programs may be preempted by another
 * that uses the same CPU's slot, so a slot is claimed before use. */
struct scratch {
	__u32 busy;
	__u32 pad;
	struct string_key key;
	struct rec_pycode code;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

static __always_inline struct scratch *scratch_claim(void)
{
	__u32 i = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratches, &i);
	if (s && !__sync_lock_test_and_set(&s->busy, 1))
		return s;
	i = 1;
	s = bpf_map_lookup_elem(&scratches, &i);
	if (s && !__sync_lock_test_and_set(&s->busy, 1))
		return s;
	return NULL;
}

static __always_inline void scratch_release(struct scratch *s)
{
	s->busy = 0;
}

/* Copies the characters of the str object at address. Offsets: struct py_layout. */
static __always_inline int read_pystring(const struct py_layout *l, __u64 address, __u8 *bytes,
					 __u32 size, __u32 *ret_len, __u8 *ret_width, __u8 *ret_cut)
{
	__u64 length = 0;
	__u32 state = 0;
	if (bpf_probe_read_user(&length, 8, (void *)(address + l->str_length)) ||
	    bpf_probe_read_user(&state, 4, (void *)(address + l->str_state)))
		return -1;
	__u32 width = (state >> (l->state_kind_shift & 31)) & 7;
	bool ascii = (state >> (l->state_ascii_shift & 31)) & 1;
	if (width != 1 && width != 2 && width != 4)
		return -1;
	__u64 data = address + (ascii ? l->str_ascii_data : l->str_compact_data);
	__u64 n = length * width;
	if (n > size) {
		n = size;
		*ret_cut = 1;
	}
	__u32 len = (__u32)n;
	if (len > size)
		len = size;
	if (len && bpf_probe_read_user(bytes, len, (void *)data))
		return -1;
	*ret_len = len;
	*ret_width = ascii ? 0x80 : (__u8)width;
	return 0;
}

static __always_inline void emit_string(const struct string_key *key, __u64 id)
{
	void *ring = ring_here();
	struct rec_string *r = ring ? bpf_ringbuf_reserve(ring, sizeof(*r), 0) : NULL;
	if (!r) {
		bpf_map_delete_elem(&strings, key); /* the next call tries again */
		count_loss(LOSS_STRING_FULL);
		return;
	}
	r->kind = REC_STRING;
	r->fetch = key->fetch;
	r->pystate = key->pystate;
	r->cut = key->cut;
	r->len = key->len;
	r->id = id;
	__builtin_memcpy(r->bytes, key->bytes, STRING_BYTES);
	ring_submit(ring, r);
}

/* The number of the string in key; 0 when the table is full. */
static __always_inline __u64 intern_string(const struct string_key *key)
{
	__u64 *known = bpf_map_lookup_elem(&strings, key);
	if (known)
		return *known;
	__u64 id = __sync_fetch_and_add(&next_id, 1);
	int rc = bpf_map_update_elem(&strings, key, &id, BPF_NOEXIST);
	if (rc) {
		known = bpf_map_lookup_elem(&strings, key); /* another CPU was first */
		if (known)
			return *known;
		count_loss(LOSS_STRING_FULL);
		return 0;
	}
	emit_string(key, id);
	return id;
}

/* libstdc++'s std::string: { char *data; size_t length; ... } (bits/basic_string.h). */
static __always_inline int read_cxxstring(__u64 address, struct string_key *key)
{
	__u64 head[2] = {};
	if (bpf_probe_read_user(head, sizeof(head), (void *)address))
		return -1;
	__u64 n = head[1];
	if (n > STRING_BYTES) {
		n = STRING_BYTES;
		key->cut = 1;
	}
	__u32 len = (__u32)n;
	if (len > STRING_BYTES)
		len = STRING_BYTES;
	if (len && bpf_probe_read_user(key->bytes, len, (void *)head[0]))
		return -1;
	key->len = len;
	return 0;
}

static __always_inline int read_cstring(__u64 address, struct string_key *key)
{
	long n = bpf_probe_read_user_str(key->bytes, STRING_BYTES, (void *)address);
	if (n <= 0)
		return -1;
	key->len = (__u32)n - 1;
	if (n == STRING_BYTES) {
		__u8 next = 0;
		if (!bpf_probe_read_user(&next, 1, (void *)(address + STRING_BYTES - 1)) && next)
			key->cut = 1;
	}
	return 0;
}

#define NO_OBJECT 4096 /* below: the first page, which is never mapped */

/* The number of a string that lies in a page which is not in memory: a name in a program's
 * read-only data that nobody has read yet, as types' names often are. 0: nobody can be asked. */
static __always_inline __u64 leave_to_reader(__u64 address)
{
	void *ring = address < NO_OBJECT ? NULL : ring_here();
	struct rec_unread *r = ring ? bpf_ringbuf_reserve(ring, sizeof(*r), 0) : NULL;
	if (!r)
		return 0;
	r->kind = REC_UNREAD;
	r->pad[0] = r->pad[1] = r->pad[2] = 0;
	r->tgid = bpf_get_current_pid_tgid() >> 32;
	r->address = address;
	__u64 id = __sync_fetch_and_add(&next_id, 1);
	r->id = id;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return id;
}

__noinline __u64 fetch_string(const struct arg_desc *a, __u64 value, __u8 *flags)
{
	if (!a || !flags)
		return 0;
	struct scratch *s = scratch_claim();
	if (!s) {
		*flags |= CALL_ARG_FAULT;
		return 0;
	}
	struct string_key *key = &s->key;
	__builtin_memset(key, 0, sizeof(*key));
	key->fetch = a->fetch;
	int rc = -1;
	if (a->fetch == FETCH_CSTRING) {
		rc = read_cstring(value, key);
	} else if (a->fetch == FETCH_CXXSTRING) {
		rc = read_cxxstring(value, key);
	} else {
		__u32 i = a->layout;
		struct py_layout *l = bpf_map_lookup_elem(&py_layouts, &i);
		if (l)
			rc = read_pystring(l, value, key->bytes, STRING_BYTES, &key->len,
					   &key->pystate, &key->cut);
	}
	__u64 id = 0;
	if (rc) {
		id = a->fetch == FETCH_CSTRING ? leave_to_reader(value) : 0;
		if (!id) {
			*flags |= CALL_ARG_FAULT;
			count_loss(LOSS_ARG_FAULT);
		}
	} else {
		if (key->cut) {
			*flags |= CALL_ARG_CUT;
			count_loss(LOSS_ARG_CUT);
		}
		id = intern_string(key);
	}
	scratch_release(s);
	return id;
}

static __always_inline void emit_code(const struct py_layout *l, const struct code_key *key,
				      __u64 id)
{
	struct scratch *s = scratch_claim();
	void *ring = ring_here();
	if (!s || !ring) {
		if (s)
			scratch_release(s);
		bpf_map_delete_elem(&codes, key);
		return;
	}
	struct rec_pycode *r = &s->code;
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = REC_PYCODE;
	r->id = id;
	r->code = key->code;
	r->tgid = (__u32)key->tgid;
	if (bpf_probe_read_user(&r->firstlineno, 4, (void *)(key->code + l->code_firstlineno)) ||
	    read_pystring(l, key->name, r->name, sizeof(r->name), &r->name_len, &r->name_state,
			  &r->cut) ||
	    read_pystring(l, key->file, r->file, sizeof(r->file), &r->file_len, &r->file_state,
			  &r->cut)) {
		bpf_map_delete_elem(&codes,
				    key); /* a page was not there: the next call tries again */
		count_loss(LOSS_ARG_FAULT);
	}
	if (bpf_ringbuf_output(ring, r, sizeof(*r), BPF_RB_NO_WAKEUP)) {
		bpf_map_delete_elem(&codes, key);
		count_loss(LOSS_STRING_FULL);
	}
	scratch_release(s);
}

/* The number of the code object at an address, for one of the layouts; 0 when unreadable. */
__noinline __u64 intern_code(__u32 layout, __u64 code)
{
	struct py_layout *l = bpf_map_lookup_elem(&py_layouts, &layout);
	if (!l)
		return 0;
	struct code_key key = {.tgid = bpf_get_current_pid_tgid() >> 32, .code = code};
	__u16 name_at = l->code_qualname ? l->code_qualname : l->code_name;
	if (bpf_probe_read_user(&key.name, 8, (void *)(key.code + name_at)) ||
	    bpf_probe_read_user(&key.file, 8, (void *)(key.code + l->code_filename)))
		return 0;
	__u64 *known = bpf_map_lookup_elem(&codes, &key);
	if (known)
		return *known;
	__u64 id = __sync_fetch_and_add(&next_id, 1);
	if (bpf_map_update_elem(&codes, &key, &id, BPF_NOEXIST)) {
		known = bpf_map_lookup_elem(&codes, &key);
		if (known)
			return *known;
		count_loss(LOSS_STRING_FULL);
		return 0;
	}
	emit_code(l, &key, id);
	return id;
}

/* The number of the code object that the frame at address runs; 0 when unreadable. */
static __always_inline __u64 fetch_pycode(const struct arg_desc *a, __u64 frame, __u8 *flags)
{
	__u32 i = a->layout;
	struct py_layout *l = bpf_map_lookup_elem(&py_layouts, &i);
	__u64 code = 0, id = 0;
	if (l && !bpf_probe_read_user(&code, 8, (void *)(frame + l->frame_code)))
		id = intern_code(i, l->frame_code_tagged ? code & ~7ULL : code);
	if (!id) {
		*flags |= CALL_ARG_FAULT;
		count_loss(LOSS_ARG_FAULT);
	}
	return id;
}

static __always_inline __u64 resize(__u64 v, __u8 size, __u8 is_signed)
{
	__u32 drop = 64 - 8 * (size & 15);
	drop &= 63;
	return is_signed ? (__u64)((__s64)(v << drop) >> drop) : v << drop >> drop;
}

/* From the raw register or slot to what the call holds. */
__noinline __u64 fetch_value(const struct arg_desc *a, __u64 v, __u8 *flags)
{
	if (!a || !flags)
		return 0;
	for (int i = 0; i < 3; i++) {
		if (i >= a->nderef)
			break;
		__u64 next = 0;
		if (bpf_probe_read_user(&next, 8, (void *)(v + (__s64)a->deref[i]))) {
			/* the last read may be of fewer bytes at the end of a page */
			if (i + 1 != a->nderef || a->size == 8 ||
			    bpf_probe_read_user(&next, a->size & 7,
						(void *)(v + (__s64)a->deref[i]))) {
				*flags |= CALL_ARG_FAULT;
				count_loss(LOSS_ARG_FAULT);
				return 0;
			}
		}
		v = next;
	}
	if (a->fetch == FETCH_VALUE)
		return resize(v, a->size, a->is_signed);
	if (a->fetch == FETCH_PYCODE)
		return fetch_pycode(a, v, flags);
	return fetch_string(a, v, flags);
}

/* Reads a register at a constant offset of the context: the verifier refuses the address
 * arithmetic that the compiler would make of a switch. */
#define READ_REGISTER(ctx, reg)                                                                    \
	({                                                                                         \
		__u64 value_;                                                                      \
		asm volatile("%0 = *(u64 *)(%1 + %2)"                                              \
			     : "=r"(value_)                                                        \
			     : "r"(ctx), "i"(__builtin_offsetof(struct pt_regs, reg)));            \
		value_;                                                                            \
	})

#define REGISTER_ARGS 6

/* What a function was entered with. A copy: functions that are verified by themselves cannot have
 * the context on all kernels. */
struct raw_args {
	__u64 registers[REGISTER_ARGS]; /* the System V AMD64 ABI's order */
	__u64 sp;
};

static __always_inline void take_raw_args(struct raw_args *ret, struct pt_regs *ctx)
{
	ret->registers[0] = READ_REGISTER(ctx, rdi);
	ret->registers[1] = READ_REGISTER(ctx, rsi);
	ret->registers[2] = READ_REGISTER(ctx, rdx);
	ret->registers[3] = READ_REGISTER(ctx, rcx);
	ret->registers[4] = READ_REGISTER(ctx, r8);
	ret->registers[5] = READ_REGISTER(ctx, r9);
	ret->sp = READ_REGISTER(ctx, rsp);
}

/* Of ARG_CALLER the one before the first. */
static __always_inline __u64 stack_slot(const struct raw_args *raw, __u32 index)
{
	return raw->sp + 8 * (__u64)(__u8)(index + 1);
}

/* The argument at a position: registers first, then the stack. */
static __always_inline __u64 raw_at(const struct raw_args *raw, __u32 position)
{
	__u64 v = 0;
	barrier_var(position); /* the verifier is to see the very number that was compared */
	if (position < REGISTER_ARGS)
		return raw->registers[position];
	bpf_probe_read_user(&v, 8, (void *)stack_slot(raw, position - REGISTER_ARGS));
	return v;
}

static __always_inline __u32 position_of(const struct arg_desc *a)
{
	return a->index + (a->source == ARG_STACK ? REGISTER_ARGS : 0);
}
