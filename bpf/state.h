/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * state.h - what the programs share: configuration, target set, per-thread state,
 * rings, counters. Holds no logic beyond finding the state of the current thread. */
#pragma once

#include "kernel.h"
#include "wire/event.h"

#define PID_TARGETS_MAX 65536
#define STRINGS_MAX	16384
#define CODES_MAX	65536
#define CPUS_MAX	1024
#define PY_LAYOUTS_MAX	(2 * PY_FRAMES_MAX) /* those of probes, and those of stacks */
#define ANSWER_SLOTS	1024
#define KNOWN_FILES_MAX 16384
#define CALLERS_MAX	16384

/* ---- set before load; dead branches vanish at verification ---- */
const volatile bool target_all;	    /* every process */
const volatile __u64 target_cgroup; /* cgroup v2 id, 0 = none */
const volatile __u32 target_cgroup_level;
const volatile __u32 own_tgid;	      /* eacgm itself is never a target */
const volatile bool walks_mappings;   /* the kernel lists mappings to programs (6.7) */
const volatile bool yields_on_guard;  /* programs may keep a task (6.3) */
const volatile __u32 patience = 1;    /* bounds of what tasks are held are so many times as long */
const volatile __u64 granted_most_ns; /* while user space works on a file of the task's own */
const volatile bool tells_inside;     /* targets may tell their calls themselves */
const volatile bool counts_hits;      /* how often each probe is come by: hits.h */
const volatile bool wakes_reader;     /* who empties the rings rests until one is half full */
const volatile bool stacks_of_jobs;   /* who can make no traced call is not unwound for */
const volatile bool leaves_layers;    /* some processes are traced by some layers alone */

/* ---- written by user space while running ---- */
__u32 mode_of_layer[LAYERS_MAX];   /* enum trace_mode */
__u32 epoch;			   /* raised when probes go off: open calls are then void */
__u32 exclusions;		   /* how often excluded, or a value of targets, changed */
__u64 guard_failures;		   /* exceptions that could not be prepared for */
__u32 stack_shift;		   /* calls' chances of a stack are halved so often */
bool frozen;			   /* record nothing, leave open calls as they are */
bool calls_closed;		   /* no call is begun or ended: bursts are off, or not all is on */
bool replacing;			   /* places may have two links for a moment */
bool bursts_closed;		   /* places that are on in bursts begin no call any more */
__u64 times_left_ns[TIMES_LEFT];   /* when a budget took places off, the last such times */
__u64 first_left_ns[MAX_PROBES];   /* of a probe's places, since it is in bursts; */
__u64 last_left_ns[MAX_PROBES];	   /* the same is told of it when it is in them no more */
bool in_bursts[MAX_PROBES];	   /* what bursts_closed is of */
bool closing;			   /* nobody answers the loader hook any more */
__u64 closing_ns;		   /* since then; 0 before */
__u64 answered_maps[ANSWER_SLOTS]; /* numbers of holds that were dealt with: loader hook */
__u64 answered_unwind[ANSWER_SLOTS]; /* and exception guard */
__u64 granted_ns[ANSWER_SLOTS];	     /* loader hook: until when user space works on that one */
__u64 heartbeat_ns;		     /* when user space last ran */
__u64 yield_address;		     /* readable in the guard: yield.h */
bool pressed;			     /* somebody keeps user space busy: others wait less */
__u64 held_ns;			     /* the programs': how long tasks were held, in sum */
__u64 held_cpu_ns;		     /* and used their CPU meanwhile */
__u64 holds;			     /* and how often */

static __u64 next_id = 1;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PID_TARGETS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32); /* tgid */
	__type(value, __u8);
} targets SEC(".maps");

/* Processes that return probes would harm: never traced, whatever the target is; and those that
 * rules leave alone, or some layers of. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PID_TARGETS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);   /* tgid */
	__type(value, __u64); /* EXCLUDED_... */
} excluded SEC(".maps");

/* Files whose code was looked into: whoever maps them waits for nothing. User space keeps each
 * open, or has probes in it, as long as it is here: its number goes to no other file. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, KNOWN_FILES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct known_file);
	__type(value, __u8);
} known_files SEC(".maps");

/* One ring per CPU (fewer where user space says so); slot = CPU number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, CPUS_MAX);
	__uint(key_size, 4);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_RINGBUF);
			__uint(max_entries, 4096);
		});
} rings SEC(".maps");

/* Forks, execs, exits and loader events: few, and user space is woken for each. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} control SEC(".maps");

/* User space looks again so long after it found something (scan.c, TICK_NS). */
#define LOOKS_AGAIN_NS 3000000ULL

/* When user space was woken last. */
static __u64 woken_ns;

/* Hands a record of the ring control over. A wake-up interrupts this CPU, which costs a guest of a
 * virtual machine 20 us: where nobody waits for the record, one that comes soon after another is
 * found with it. */
static __always_inline void control_submit(void *record, bool is_awaited)
{
	__u64 now_ns = bpf_ktime_get_ns();
	if (!is_awaited && now_ns - woken_ns < LOOKS_AGAIN_NS) {
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
		return;
	}
	woken_ns = now_ns;
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOSS_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} losses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PROBES);
	__type(key, __u32);
	__type(value, struct probe_desc);
} probes SEC(".maps");

/* Tail mode: calls at least this long are recorded (0 until learned: all of them). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PROBES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} thresholds_ns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PY_LAYOUTS_MAX);
	__type(key, __u32);
	__type(value, struct py_layout);
} py_layouts SEC(".maps");

/* A call that has not returned. */
struct open_call {
	__u64 start_ns;
	__u64 sp; /* of the return address: names the frame, grows towards callers */
	__u32 probe;
	__u8 layer;
	__u8 flags;
	__u8 nargs;
	bool outlasts; /* a call in it ended when its place had been taken off */
	__u64 stack;   /* rec_stack.id, 0 = not taken */
	__u64 args[MAX_ARGS];
};

struct thread_state {
	__u32 epoch;
	__u32 depth;
	__u32 exclusions; /* as of when is_excluded was looked up */
	bool is_excluded;
	bool tells_inside;     /* likewise: TARGET_TELLS_INSIDE */
	bool called;	       /* its process is in callers */
	__u32 layers_left_out; /* likewise: a bit for each */
	__u8 layer_open[LAYERS_MAX];
	struct open_call open[MAX_OPEN_CALLS];
};
_Static_assert((LAYERS_MAX & (LAYERS_MAX - 1)) == 0, "used as a mask");
_Static_assert((MAX_OPEN_CALLS & (MAX_OPEN_CALLS - 1)) == 0, "used as a mask");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} threads SEC(".maps");

/* Where stacks are of jobs alone: processes that made a traced call since they executed their
 * program, whatever user space knows of them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CALLERS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32); /* tgid */
	__type(value, __u8);
} callers SEC(".maps");

static __always_inline void count_loss(__u32 cause)
{
	__u64 *n = bpf_map_lookup_elem(&losses, &cause);
	if (n)
		(*n)++;
}

static __always_inline bool in_target_cgroup(void)
{
	return target_cgroup &&
	       bpf_get_current_ancestor_cgroup_id(target_cgroup_level) == target_cgroup;
}

static __always_inline bool is_excluded(__u32 tgid)
{
	__u64 *left_out = exclusions ? bpf_map_lookup_elem(&excluded, &tgid) : NULL;
	return left_out && *left_out >= EXCLUDED_LAYERS;
}

static __always_inline bool is_target(__u32 tgid)
{
	if (tgid == own_tgid || is_excluded(tgid))
		return false;
	return target_all || bpf_map_lookup_elem(&targets, &tgid) || in_target_cgroup();
}

/* Named as a target, whether it may be traced or not. */
static __always_inline bool is_followed(__u32 tgid)
{
	return tgid != own_tgid &&
	       (target_all || bpf_map_lookup_elem(&targets, &tgid) || in_target_cgroup());
}

/* What a map has of a task, made if need be. Another CPU may give the task its very first state, of
 * any map, at the same moment: then the first try fails (kernel/bpf/bpf_local_storage.c,
 * bpf_local_storage_alloc: -EAGAIN), and the second finds that there. */
#define task_state(map, task)                                                                      \
	({                                                                                         \
		void *state_ = bpf_task_storage_get(map, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE); \
		state_ ? state_                                                                    \
		       : bpf_task_storage_get(map, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);       \
	})

static __always_inline void note_caller(struct thread_state *st)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u8 yes = 1;
	bpf_map_update_elem(&callers, &tgid, &yes, BPF_ANY);
	st->called = true;
}

static __always_inline void forget_caller(__u32 tgid)
{
	if (stacks_of_jobs)
		bpf_map_delete_elem(&callers, &tgid);
}

/* The state of the current thread; NULL when it is not a target. Made on first use. */
static __always_inline struct thread_state *thread_enter(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct thread_state *st = bpf_task_storage_get(&threads, task, 0, 0);
	if (!st) {
		if (!is_target(bpf_get_current_pid_tgid() >> 32))
			return NULL;
		st = task_state(&threads, task);
		if (!st) {
			count_loss(LOSS_NO_STATE);
			return NULL;
		}
	}
	if (st->exclusions != exclusions) {
		__u32 tgid = bpf_get_current_pid_tgid() >> 32;
		st->exclusions = exclusions;
		__u64 *left_out = bpf_map_lookup_elem(&excluded, &tgid);
		st->is_excluded = left_out && *left_out >= EXCLUDED_LAYERS;
		st->layers_left_out = left_out ? (__u32)*left_out : 0;
		__u8 *target = bpf_map_lookup_elem(&targets, &tgid);
		st->tells_inside = target && *target & TARGET_TELLS_INSIDE;
	}
	if (st->is_excluded)
		return NULL;
	if (st->epoch != epoch) {
		st->epoch = epoch;
		st->depth = 0;
		__builtin_memset(st->layer_open, 0, sizeof(st->layer_open));
	}
	if (stacks_of_jobs && !st->called)
		note_caller(st);
	return st;
}

/* The ring of this CPU. */
static __always_inline void *ring_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&rings, &cpu);
}

/* Written by user space: 0 before it rests. */
__u32 reader_woken;

/* To a ring of a CPU. Nobody is woken for it, but where the reader rests for long and half of the
 * ring is full, once. */
static __always_inline void ring_submit(void *ring, void *record)
{
	__u64 flags = BPF_RB_NO_WAKEUP;
	if (wakes_reader && !*(volatile __u32 *)&reader_woken &&
	    bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) >
		    bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) / 2) {
		reader_woken = 1;
		flags = BPF_RB_FORCE_WAKEUP;
	}
	bpf_ringbuf_submit(record, flags);
}

/* The ring of this CPU for what can be done without, or told later: a quarter of it is left to
 * records that have no later one for their time. NULL where it has no such room. */
static __always_inline void *ring_to_spare(void)
{
	void *ring = ring_here();
	if (!ring || bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) >
			     bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) / 4 * 3)
		return NULL;
	return ring;
}
