/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * python.h - the frames of CPython, read out of the interpreter's own structs, whoever holds
 * the GIL. Each run of the interpreter's loop on the stack stands for one or more Python
 * frames: they take its place. Names of code objects are interned as args_value.h does. */
#pragma once

#include "args_value.h"
#include "stack_tables.h"

#define PY_THREADS_SEARCHED 1024

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PY_FRAMES_MAX);
	__type(key, __u32);
	__type(value, struct py_frames);
} py_frames SEC(".maps");

static __always_inline bool is_eval(const struct unwind_process *p, __u64 address)
{
	if (!p->python || stops_at_samples)
		return false;
	bool found = false;
#pragma unroll
	for (int i = 0; i < PY_EVAL_RANGES; i++)
		found |= address >= p->eval[i][0] && address < p->eval[i][1];
	return found;
}

struct thread_search {
	const struct py_frames *layout;
	__u64 pthread;
	__u64 interpreter; /* the next one; subinterpreters are few */
	__u64 thread;
	__u64 found;
};

/* Goes on with the threads of the next interpreter; 1 where there is none. */
static __always_inline long next_interpreter(struct thread_search *s)
{
	__u64 at = s->interpreter;
	return !at ||
	       bpf_probe_read_user(&s->thread, 8, (void *)(at + s->layout->interpreter_threads)) ||
	       bpf_probe_read_user(&s->interpreter, 8, (void *)(at + s->layout->interpreter_next));
}

static long search_thread(__u32 i, struct thread_search *s)
{
	__u64 pthread = 0;
	__u64 thread = s->thread;
	if (!thread)
		return next_interpreter(s);
	if (bpf_probe_read_user(&pthread, 8, (void *)(thread + s->layout->thread_pthread)))
		return 1;
	if (pthread == s->pthread) {
		s->found = thread;
		return 1;
	}
	__u64 next = 0;
	if (bpf_probe_read_user(&next, 8, (void *)(thread + s->layout->thread_next)))
		return 1;
	s->thread = next;
	return 0;
}

/* The PyThreadState of the current thread, 0 when it has none. */
static __always_inline __u64 find_thread(const struct py_frames *l, __u64 runtime)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct thread_profile *profile =
		bpf_task_storage_get(&profiles, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct thread_search s = {.layout = l, .pthread = BPF_CORE_READ(task, thread.fsbase)};
	__u64 pthread = 0;
	if (profile && profile->py_thread &&
	    !bpf_probe_read_user(&pthread, 8, (void *)(profile->py_thread + l->thread_pthread)) &&
	    pthread == s.pthread)
		return profile->py_thread;
	if (bpf_probe_read_user(&s.interpreter, 8, (void *)(runtime + l->interpreters_head)))
		return 0;
	bpf_loop(PY_THREADS_SEARCHED, search_thread, &s, 0);
	if (profile)
		profile->py_thread = s.found;
	return s.found;
}

/* The newest frame of a run (thread_indirect), 0 when what is there is no frame. */
static __always_inline __u64 frame_of_run(const struct py_frames *l, __u64 run)
{
	__u64 frame = 0, code = 0;
	if (bpf_probe_read_user(&frame, 8, (void *)(run + l->indirect_frame)) ||
	    bpf_probe_read_user(&code, 8, (void *)(frame + l->frame_code)))
		return 0;
	return frame;
}

/* Sets state.py_frame to the newest frame. */
__noinline int begin_python(struct rec_stack *r)
{
	if (!r)
		return 0;
	__u32 i = r->state.process.py_frames;
	struct py_frames *l = bpf_map_lookup_elem(&py_frames, &i);
	__u64 frame = 0;
	r->state.py_begun = 1;
	r->state.py_retried = 0;
	r->state.py_frame = 0;
	if (!l)
		return 0;
	__u64 thread = find_thread(l, r->state.process.py_runtime);
	if (!thread) {
		r->python = PYTHON_NO_THREAD;
		return 0;
	}
	if (bpf_probe_read_user(&frame, 8, (void *)(thread + l->thread_frame))) {
		r->python = PYTHON_BAD_MEMORY;
		return 0;
	}
	r->state.py_run = frame;
	if (l->thread_indirect) {
		frame = frame_of_run(l, r->state.py_run);
		if (!frame) { /* a run that is just being begun: the one before */
			bpf_probe_read_user(&r->state.py_run, 8,
					    (void *)(r->state.py_run + l->indirect_previous));
			frame = frame_of_run(l, r->state.py_run);
		}
	}
	r->python = PYTHON_WHOLE;
	r->state.py_frame = frame;
	return 0;
}

/* The first instruction of the copy of the bytecode that a frame runs; the code's own where
 * there is no copy. */
static __always_inline __u64 copied_code(const struct py_frames *l, __u64 frame, __u64 code)
{
	__u64 copies = 0, first = 0;
	__s32 index = 0;
	if (bpf_probe_read_user(&copies, 8, (void *)(code + l->code_copies)) || !copies ||
	    bpf_probe_read_user(&index, 4, (void *)(frame + l->frame_copy)) || index < 0 ||
	    bpf_probe_read_user(&first, 8, (void *)(copies + 8 + 8 * (__u64)index)))
		return code + l->code_instructions;
	return first;
}

/* Where in its code object a frame is, in bytes from the first instruction; of a frame that
 * has not begun, or of a pointer that is no good, 0. */
__noinline __u32 instruction_offset(__u32 layout, __u64 frame, __u64 code)
{
	struct py_frames *l = bpf_map_lookup_elem(&py_frames, &layout);
	if (!l)
		return 0;
	__u64 at = 0, first = code + l->code_instructions;
	__s32 last = 0;
	if (l->instruction == PY_INSTR_POINTER) {
		if (bpf_probe_read_user(&at, 8, (void *)(frame + l->frame_instruction)))
			return 0;
		if (l->code_copies)
			first = copied_code(l, frame, code);
		at -= first;
		return at < 0x3fffffff ? (__u32)at : 0;
	}
	if (bpf_probe_read_user(&last, 4, (void *)(frame + l->frame_instruction)) || last < 0)
		return 0;
	if (l->instruction == PY_LASTI_UNITS)
		last *= 2;
	return (__u32)last & 0x3fffffff;
}

/* Whether something on the stack belongs to the native frame at hand. */
static __always_inline bool in_frame(const struct rec_stack *r, __u64 address)
{
	return !r->state.frame_end ||
	       (address >= r->state.regs[UNWIND_RSP] && address < r->state.frame_end);
}

/* 3.11: whether the next frames are of this run of the loop, by the struct that each run keeps
 * on the stack; a run that has just begun or is about to end has none there. */
static __always_inline bool run_is_here(struct rec_stack *r, const struct py_frames *l)
{
	__u64 run = r->state.py_run, previous = 0;
	if (l->boundary != PY_ENTRY_FLAG)
		return true;
	if (!in_frame(r, run))
		return false;
	bpf_probe_read_user(&previous, 8, (void *)(run + l->indirect_previous));
	r->state.py_run = previous;
	return true;
}

/* The interpreter's loop is at hand: its Python frames come next, one by one, or the native
 * frame where there are none. 1 = no room. */
__noinline int enter_python(struct rec_stack *r, __u64 native)
{
	if (!r)
		return 1;
	if (!r->state.py_begun)
		begin_python(r);
	__u32 i = r->state.process.py_frames;
	struct py_frames *l = bpf_map_lookup_elem(&py_frames, &i);
	if (l && r->state.py_frame && run_is_here(r, l)) {
		r->state.py_begin = r->state.py_frame;
		r->state.py_begin_id = r->id;
		r->state.py_begin_frames = r->frames;
		r->state.in_python = 1;
		return 0;
	}
	if (!r->state.py_frame && r->python == PYTHON_WHOLE)
		r->python = PYTHON_TOO_FEW;
	return push_native(r, native);
}

/* The run's first frame was a shim. When that is of another run (3.12 and later; see
 * run_is_here), so were the frames; 1 = no room. */
static __always_inline int leave_python(struct rec_stack *r, __u64 shim)
{
	r->state.in_python = 0;
	if (in_frame(r, shim))
		return 0;
	r->state.py_frame = r->state.py_begin;
	r->id = r->state.py_begin_id;
	r->frames = r->state.py_begin_frames;
	return push_native(r, r->state.regs[UNWIND_RIP] - !r->state.exact);
}

/* A frame could not be read. Of the newest run that may be as it is just being begun, and what
 * it was taken for is left over from another one: the run before is gone on with. */
static __always_inline int leave_unread(struct rec_stack *r, const struct py_frames *l)
{
	r->state.in_python = 0;
	r->state.py_frame = 0;
	if (!l->thread_indirect || r->state.py_retried) {
		r->python = PYTHON_BAD_MEMORY;
		return 0;
	}
	r->state.py_retried = 1;
	bpf_probe_read_user(&r->state.py_run, 8, (void *)(r->state.py_run + l->indirect_previous));
	r->state.py_frame = frame_of_run(l, r->state.py_run);
	r->id = r->state.py_begin_id;
	r->frames = r->state.py_begin_frames;
	return push_native(r, r->state.regs[UNWIND_RIP] - !r->state.exact);
}

/* One Python frame: appended, unless it is a shim. 1 = no room; in_python tells whether more
 * of the run follow. */
__noinline int python_frame(struct rec_stack *r)
{
	if (!r)
		return 1;
	__u32 i = r->state.process.py_frames;
	struct py_frames *l = bpf_map_lookup_elem(&py_frames, &i);
	__u64 frame = r->state.py_frame, code = 0, next = 0;
	__u8 boundary = 0;
	if (!frame || !l) {
		r->state.in_python = 0;
		return 0;
	}
	if (bpf_probe_read_user(&code, 8, (void *)(frame + l->frame_code)) ||
	    bpf_probe_read_user(&next, 8, (void *)(frame + l->frame_previous)) ||
	    bpf_probe_read_user(&boundary, 1, (void *)(frame + l->frame_boundary)))
		return leave_unread(r, l);
	r->state.py_frame = next;
	if (l->boundary == PY_ENTRY_SHIM && boundary >= l->shim_owner)
		return leave_python(r, frame);
	if (l->code_tagged)
		code &= ~7ULL;
	__u64 id = intern_code(r->state.process.py_layout, code);
	if (id >> 32)
		id = 0;
	if (push_frame(r, PYTHON_FRAME(id, instruction_offset(i, frame, code))))
		return 1;
	if (l->boundary == PY_ENTRY_ALWAYS || (l->boundary == PY_ENTRY_FLAG && boundary))
		r->state.in_python = 0;
	return 0;
}
