/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * stack_tables.h - what a walk goes by: the tables of rules that user space compiled
 * (wire/unwind.h), the mappings of processes, the frames that were found so far. Looks things up;
 * walks nowhere. */
#pragma once

#include "state.h"
#include "vma.h"

#define FRAME_BYTES_MAX	 (16u << 20) /* of stack between two frames found by frame pointer */
#define ASK_NS		 100000000ULL
#define ASK_FORGET_NS	 60000000000ULL
#define TRAMPOLINE_BYTES 4096
#define STACKS_SEEN	 65536

const volatile bool takes_stacks; /* else nothing below is reached */
/* Tests: what is sampled is stopped at that very instruction, and Python is as any program. */
const volatile bool stops_at_samples;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, UNWIND_SEGMENTS_MAX);
	__uint(key_size, 4);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(max_entries, UNWIND_SEGMENT_WORDS / UNWIND_WORDS);
			__uint(map_flags, BPF_F_MMAPABLE);
			__uint(key_size, 4);
			__uint(value_size, sizeof(struct unwind_words));
		});
} unwind_pool SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, UNWIND_TABLES_MAX);
	__type(key, __u32);
	__type(value, struct unwind_table_ref);
} unwind_tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UNWIND_PROCESSES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32); /* tgid */
	__type(value, struct unwind_process);
} unwind_processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UNWIND_BLOCKS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct unwind_block_key);
	__type(value, struct unwind_block);
} unwind_blocks SEC(".maps");

/* Stacks whose record was written. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STACKS_SEEN);
	__type(key, __u64);
	__type(value, __u8);
} stacks_seen SEC(".maps");

/* What is kept of a thread for its samples. */
struct thread_profile {
	__u64 py_thread; /* its PyThreadState, once found */
	__u64 off_ns;	 /* since when it does not run, 0 = it does */
	__u64 off_stack; /* rec_stack.id */
	__u64 refill_ns; /* of the allowance for stacks at switches */
	__u64 context;	 /* of the program that sees it woken: in_interrupt() */
	__u64 short_ns;	 /* in waits too short for a record of their own */
	__u32 allowance;
	__s32 syscall;
	__u32 waker_tid;
	__u8 preempted;
	__u8 reason; /* enum wait_reason, as far as no stack is needed */
	__u8 pad[2];
	char waker[16];
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_profile);
} profiles SEC(".maps");

/* ---- look-ups ---- */

static __always_inline struct unwind_words *pool_element(__u32 at)
{
	__u32 segment = at / UNWIND_SEGMENT_WORDS;
	__u32 element = at / UNWIND_WORDS % (UNWIND_SEGMENT_WORDS / UNWIND_WORDS);
	void *words = bpf_map_lookup_elem(&unwind_pool, &segment);
	return words ? bpf_map_lookup_elem(words, &element) : NULL;
}

static __always_inline __u32 *pool_word(__u32 at)
{
	struct unwind_words *e = pool_element(at);
	return e ? &e->w[at % UNWIND_WORDS] : NULL;
}

/* Rules are aligned, so none lies across two elements. */
static __always_inline struct unwind_rule *pool_rule(__u32 at)
{
	struct unwind_words *e = pool_element(at);
	return e ? (void *)&e->w[at % UNWIND_WORDS & ~(UNWIND_RULE_WORDS - 1)] : NULL;
}

struct search {
	__u64 wanted;
	__u32 low, high; /* the last one not above wanted is in [low, high) */
	__u32 base;
	struct rec_stack *r;
	bool failed;
};

static long search_row(__u32 i, struct search *s)
{
	if (s->high - s->low <= 1)
		return 1;
	__u32 middle = s->low + (s->high - s->low) / 2;
	__u32 *row = pool_word(s->base + middle);
	if (!row) {
		s->failed = true;
		return 1;
	}
	if ((*row & 0xffff) <= s->wanted)
		s->low = middle;
	else
		s->high = middle;
	return 0;
}

/* Where stacks are of jobs alone, most processes are published on purpose never. One that was, or
 * that makes traced calls, is to be. */
static __always_inline bool is_job(const struct rec_stack *r)
{
	__u32 tgid = r->tgid;
	if (!stacks_of_jobs || r->state.process.owner || bpf_map_lookup_elem(&callers, &tgid))
		return true;
	__u8 *target = bpf_map_lookup_elem(&targets, &tgid);
	return target && *target & TARGET_TELLS_INSIDE;
}

/* ---- what was found before ---- */

#define PLACES_BITS 11 /* of their number on a CPU: a training goes through some hundred */

const volatile __u32 places_bits = PLACES_BITS; /* fewer on hosts of many CPUs */

/* The mapping and the rule of a place in code. To look for them takes some twenty steps in memory
 * that nothing else uses, for each frame of each stack, and most stacks of a job go through the
 * same places. Of mappings that user space published alone: these have a number that is never used
 * again (generation), so that what was found stays true. */
struct found_place {
	__u64 address;
	__u32 generation; /* 0: it is none */
	/* A program may be interrupted by one that walks too: */
	__u32 busy;	/* somebody writes it */
	__u32 sequence; /* odd meanwhile */
	__u32 pad;
	struct unwind_mapping mapping;
	struct unwind_rule rule;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1u << PLACES_BITS);
	__type(key, __u32);
	__type(value, struct found_place);
} places_found SEC(".maps");

static __always_inline struct found_place *place_of(const struct rec_stack *r, __u64 address)
{
	__u64 hash = (address ^ (__u64)r->state.process.generation << 40) * 0x9e3779b97f4a7c15ULL;
	__u32 place = hash >> 32 >> ((32 - places_bits) & 31);
	return bpf_map_lookup_elem(&places_found, &place);
}

/* Sets mapping and rule of the state to those of the address, where they are known. */
__noinline int recall_place(struct rec_stack *r, __u64 address)
{
	if (!r || !r->state.process.generation)
		return 0;
	struct found_place *f = place_of(r, address);
	__u32 sequence = f ? *(volatile __u32 *)&f->sequence : 1;
	barrier();
	if (!f || sequence & 1 || f->address != address ||
	    f->generation != r->state.process.generation)
		return 0;
	r->state.mapping = f->mapping;
	r->state.rule = f->rule;
	r->state.published = 1;
	barrier();
	if (*(volatile __u32 *)&f->sequence == sequence)
		return 1;
	r->state.mapping.start = r->state.mapping.end = 0;
	return 0;
}

__noinline int keep_place(struct rec_stack *r, __u64 address)
{
	if (!r || !r->state.published)
		return 0;
	struct found_place *f = place_of(r, address);
	if (!f || __sync_lock_test_and_set(&f->busy, 1))
		return 0;
	__u32 sequence = f->sequence;
	*(volatile __u32 *)&f->sequence = sequence + 1;
	barrier();
	f->address = address;
	f->generation = r->state.process.generation;
	f->mapping = r->state.mapping;
	f->rule = r->state.rule;
	barrier();
	*(volatile __u32 *)&f->sequence = sequence + 2;
	*(volatile __u32 *)&f->busy = 0;
	return 0;
}

/* When rows of a page were last asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64); /* table << 32 | page */
	__type(value, __u64);
} pages_asked_for SEC(".maps");

/* Has the rows of a page loaded, and those of who called the frame at hand. */
static __always_inline void ask_for_page(const struct rec_stack *of, __u32 table, __u32 page)
{
	__u64 key = (__u64)table << 32 | page, now_ns = bpf_ktime_get_ns();
	__u64 *asked_ns = bpf_map_lookup_elem(&pages_asked_for, &key);
	if ((asked_ns && now_ns - *asked_ns < ASK_NS) || !is_job(of))
		return;
	struct rec_rules *r = bpf_ringbuf_reserve(&control, sizeof(*r), 0);
	if (!r)
		return;
	bpf_map_update_elem(&pages_asked_for, &key, &now_ns, BPF_ANY);
	*r = (struct rec_rules){.kind = REC_RULES,
				.tgid = of->tgid,
				.table = table,
				.page = page,
				.sp = of->state.regs[UNWIND_RSP]};
	control_submit(r, true);
}

/* Copies the rule for a virtual address into the state; 0, or the stack's end. */
__noinline int find_rule(struct rec_stack *r, __u64 address, __u32 table)
{
	if (!r)
		return STACK_NO_TABLE;
	struct unwind_table_ref *t = bpf_map_lookup_elem(&unwind_tables, &table);
	if (!t || !t->npages) /* not there yet, or there are none */
		return t && t->nrules ? STACK_NO_RULES : STACK_NO_TABLE;
	__u64 page = (address - t->text_start) >> UNWIND_PAGE_SHIFT;
	if (page >= t->npages)
		return STACK_NO_RULES;
	__u32 entry = t->pages_at + (__u32)page * UNWIND_PAGE_WORDS;
	volatile __u32 *at = pool_word(entry), *rows = pool_word(entry + 1);
	if (!at || !rows)
		return STACK_NO_TABLE;
	struct search s = {
		.wanted = address & ((1u << UNWIND_PAGE_SHIFT) - 1),
		.base = *at, /* it is written last */
	};
	if (s.base == UNWIND_PAGE_ABSENT) {
		ask_for_page(r, table, page);
		return STACK_NO_TABLE;
	}
	s.high = *rows;
	if (s.low >= s.high)
		return STACK_NO_RULES;
	bpf_loop(UNWIND_PAGE_SHIFT + 1, search_row, &s, 0);
	__u32 *row = pool_word(s.base + s.low);
	if (!row || s.failed)
		return STACK_NO_TABLE;
	struct unwind_rule *rule =
		pool_rule(t->rules_at + (*row >> UNWIND_PAGE_SHIFT) * UNWIND_RULE_WORDS);
	if (!rule)
		return STACK_NO_TABLE;
	r->state.rule = *rule;
	return rule->cfa == CFA_NONE ? STACK_NO_RULES : 0;
}

static long search_mapping(__u32 i, struct search *s)
{
	struct rec_stack *r = s->r;
	if (s->low >= s->high)
		return 1;
	__u32 middle = s->low + (s->high - s->low) / 2;
	struct unwind_block_key key = {
		.owner = r->state.process.owner,
		.generation = r->state.process.generation,
		.block = middle / UNWIND_BLOCK_MAPPINGS,
	};
	struct unwind_block *b = bpf_map_lookup_elem(&unwind_blocks, &key);
	if (!b) {
		s->failed = true;
		return 1;
	}
	struct unwind_mapping *m = &b->m[middle % UNWIND_BLOCK_MAPPINGS];
	if (s->wanted < m->start) {
		s->high = middle;
		return 0;
	}
	if (s->wanted >= m->end) {
		s->low = middle + 1;
		return 0;
	}
	r->state.mapping = *m;
	r->state.published = 1;
	return 1;
}

/* When a process was last asked for again, and how often lately. */
struct asked {
	__u64 time_ns;
	__u32 times;
	__u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32); /* tgid */
	__type(value, struct asked);
} asked_for SEC(".maps");

/* Has a process's mappings read again: less and less often where that does not help, as with code
 * that is made and thrown away. */
static __always_inline void ask_for_mappings(const struct rec_stack *of)
{
	__u32 tgid = of->tgid;
	if (!is_job(of))
		return;
	struct asked *known = bpf_map_lookup_elem(&asked_for, &tgid);
	struct asked now = {.time_ns = bpf_ktime_get_ns()};
	if (known) {
		__u64 since_ns = now.time_ns - known->time_ns;
		if (since_ns < ASK_NS << (known->times & 7))
			return;
		now.times = since_ns > ASK_FORGET_NS ? 0 : known->times < 6 ? known->times + 1 : 6;
	}
	bpf_map_update_elem(&asked_for, &tgid, &now, BPF_ANY);
	struct rec_task *r = bpf_ringbuf_reserve(&control, sizeof(*r), 0);
	if (!r)
		return;
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = REC_STALE;
	r->tgid = tgid;
	control_submit(r, false);
}

static __always_inline bool in_mapping(const struct rec_stack *r, __u64 address)
{
	return address >= r->state.mapping.start && address < r->state.mapping.end;
}

/* Sets state.mapping to the one of the address; 0, or the stack's end. What was published comes
 * first; the kernel's own list knows the first instructions of a program, and libraries that were
 * loaded since. */
__noinline int find_mapping(struct rec_stack *r, __u64 address)
{
	if (!r)
		return STACK_NO_MAPPING;
	if (in_mapping(r, address))
		return 0;
	struct search s = {.wanted = address, .high = r->state.process.mappings, .r = r};
	bpf_loop(16, search_mapping, &s, 0);
	if (!s.failed && in_mapping(r, address))
		return 0;
	r->state.published = 0;
	if (find_vma(r, address))
		return 0;
	return s.failed ? STACK_MAPS_CHANGED : STACK_NO_MAPPING;
}

/* ---- frames ---- */

/* Appends a frame; 1 when there is no room. */
static __always_inline int push_frame(struct rec_stack *r, __u64 frame)
{
	__u32 n = r->frames;
	if (n >= STACK_FRAMES)
		return 1;
	r->frame[n & (STACK_FRAMES - 1)] = frame;
	r->frames = n + 1;
	__u64 h = (r->id ^ frame) * 0x9e3779b97f4a7c15ULL;
	r->id = h ^ h >> 29;
	return 0;
}

/* A native frame: its place in the file of state.mapping, else its address. */
static __always_inline int push_native(struct rec_stack *r, __u64 address)
{
	const struct unwind_mapping *m = &r->state.mapping;
	__u64 in_file = address - m->bias;
	__u64 guessed = r->state.by_guess ? GUESSED_FRAME_BIT : 0;
	if (!in_mapping(r, address) || m->table >= UNWIND_TABLES_MAX || in_file >> FILE_FRAME_BITS)
		return push_frame(r, address | guessed);
	return push_frame(r, FILE_FRAME(m->table, in_file) | guessed);
}
