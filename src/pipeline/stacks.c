/* stacks.c - the tree of stacks, and the samples that refer to it. Frames are in frames.c.
 *
 * Of the tree two generations are known: when the newer one is full the older one is forgotten. A
 * stack that is met again moves to the newer one, as rows of their own. The programs remember half
 * as many stacks as a generation may have, so that one which they do not tell again is still known
 * here; but one of deep stacks that are all new is full sooner, and what is forgotten so is
 * counted. A recording has every frame once; where nothing is kept, a generation of stacks has its
 * own. */
#include "pipeline/stacks.h"

#include <string.h>

#define WAIT_FRAMES  48 /* from the leaf, that a wait's reason is looked for in */
#define SAMPLES_WAIT 2	/* passes, for a stack that was written to another CPU's ring */

/* A record without its unused part. */
struct raw_stack {
	uint32_t tgid;
	uint8_t end, python;
	uint16_t frames, kernel;
	uint8_t where;
	uint8_t age; /* passes that it has waited for names */
	uint64_t id;
	size_t at; /* of its frames in stacks.raw_frames */
};

struct pending_sample {
	struct rec_sample record;
	uint8_t age;
};

struct node {
	uint32_t parent;
	uint32_t frame;
};

struct stacks {
	VEC(struct raw_stack) raw;
	VEC(uint64_t) raw_frames;
	VEC(struct pending_sample) samples;
	VEC(struct node) nodes; /* by number - first; the first one is none */
	uint32_t first;		/* number before that of the older generation's first */
	uint32_t newer;		/* the newer one's first number */
	struct map64 node_of;	/* of the newer one: hash of parent and frame -> number */
	struct map64 by_id;	/* likewise: rec_stack.id -> number */
	struct map64 older_by_id;
	uint64_t unknown_samples; /* whose stack never came */
};

const struct stack_bounds *pipeline_stack_bounds(bool keeps_nothing)
{
	/* stacks: twice as many as the programs remember */
	static const struct stack_bounds of_recording = {1u << 17, 1u << 19, 1u << 20};
	static const struct stack_bounds of_nothing = {1u << 14, 1u << 16, 1u << 15};
	return keeps_nothing ? &of_nothing : &of_recording;
}

struct stacks *stacks_new(void)
{
	struct stacks *s = xcalloc(1, sizeof(*s));
	vec_push(&s->nodes);
	return s;
}

void stacks_free(struct stacks *s)
{
	vec_free(&s->raw);
	vec_free(&s->raw_frames);
	vec_free(&s->samples);
	vec_free(&s->nodes);
	map64_free(&s->node_of);
	map64_free(&s->by_id);
	map64_free(&s->older_by_id);
	free(s);
}

/* ---- nodes ---- */

static struct node *node_at(struct stacks *s, uint32_t number)
{
	return &s->nodes.data[number - s->first];
}

static uint32_t child_of(struct pipeline *p, uint32_t parent, uint32_t frame)
{
	struct stacks *s = p->stacks;
	uint64_t key = hash_u64((uint64_t)parent << 32 | frame), number;
	if (map64_get(&s->node_of, key, &number)) {
		const struct node *n = node_at(s, (uint32_t)number);
		if (n->parent == parent && n->frame == frame)
			return (uint32_t)number;
	}
	struct m_stack row = {.parent = parent, .frame = frame};
	number = emit_new_stack(p, &row);
	while (s->first + s->nodes.len <= number)
		vec_push(&s->nodes);
	*node_at(s, (uint32_t)number) = (struct node){parent, frame};
	map64_set(&s->node_of, key, number);
	return (uint32_t)number;
}

static void begin_generation(struct pipeline *p)
{
	struct stacks *s = p->stacks;
	uint32_t next = s->first + (uint32_t)s->nodes.len;
	if (s->newer > s->first + 1) {
		size_t gone = s->newer - s->first - 1;
		memmove(s->nodes.data, s->nodes.data + gone,
			(s->nodes.len - gone) * sizeof(*s->nodes.data));
		s->nodes.len -= gone;
		s->first += (uint32_t)gone;
	}
	s->newer = next;
	map64_free(&s->older_by_id);
	s->older_by_id = s->by_id;
	s->by_id = (struct map64){0};
	map64_free(&s->node_of);
	if (p->forgets)
		frames_begin_generation(p);
}

static void bound_generation(struct pipeline *p)
{
	const struct stacks *s = p->stacks;
	const struct stack_bounds *most = pipeline_stack_bounds(p->forgets);
	size_t older = s->newer ? s->newer - s->first : 0;
	if (s->by_id.len >= most->stacks || s->nodes.len - older >= most->nodes ||
	    (p->forgets && frames_are_full(p)))
		begin_generation(p);
}

/* From the older generation to the newer one. */
static uint32_t renew(struct pipeline *p, uint64_t id, uint32_t number)
{
	struct stacks *s = p->stacks;
	uint32_t frames[STACK_FRAMES + 1], node = 0; /* with the one that says how it was cut */
	size_t n = 0;
	for (; number && n < STACK_FRAMES + 1; number = node_at(s, number)->parent)
		frames[n++] = node_at(s, number)->frame;
	while (n-- > 0)
		node = child_of(p, node, frames_renew(p, frames[n]));
	map64_set(&s->by_id, id, node);
	map64_del(&s->older_by_id, id);
	return node;
}

/* ---- stacks ---- */

void stacks_add(struct pipeline *p, const struct rec_stack *r)
{
	struct stacks *s = p->stacks;
	uint32_t known;
	if (r->frames > STACK_FRAMES || r->kernel > r->frames || r->end >= STACK_ENDS ||
	    r->python >= PYTHON_ENDS) {
		p->bad_records++;
		return;
	}
	if (stacks_find(p, r->id, &known))
		return;
	struct raw_stack raw = {
		.tgid = r->tgid,
		.end = r->end,
		.python = r->python,
		.frames = (uint16_t)r->frames,
		.kernel = (uint16_t)r->kernel,
		.where = r->where,
		.id = r->id,
		.at = s->raw_frames.len,
	};
	vec_reserve(&s->raw_frames, r->frames);
	memcpy(s->raw_frames.data + s->raw_frames.len, r->frame, r->frames * sizeof(uint64_t));
	s->raw_frames.len += r->frames;
	*vec_push(&s->raw) = raw;
}

bool stacks_find(struct pipeline *p, uint64_t id, uint32_t *ret)
{
	struct stacks *s = p->stacks;
	uint64_t number;
	bool known = map64_get(&s->by_id, id, &number);
	if (!known && !map64_get(&s->older_by_id, id, &number))
		return false;
	*ret = known ? (uint32_t)number : renew(p, id, (uint32_t)number);
	return true;
}

/* Of the kernel's own frames the first are of what takes the stack. */
static bool takes_the_stack(struct pipeline *p, uint32_t frame)
{
	static const char *const starts[] = {"bpf_", "__bpf_", "__traceiter_", "trace_", "perf_"};
	const char *name = frames_name(p, frame);
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (!strncmp(name, starts[i], strlen(starts[i])))
			return true;
	return false;
}

/* Why a stack is not all that it should be; NULL when it is. */
static const char *cut_reason(const struct raw_stack *raw)
{
	static const char *const ends[] = STACK_END_NAMES;
	static const char *const pythons[] = STACK_PYTHON_NAMES;
	if (raw->end != STACK_WHOLE)
		return ends[raw->end];
	return raw->python > PYTHON_WHOLE ? pythons[raw->python] : NULL;
}

/* To 3.10 a run of the interpreter's loop has one frame, and none when it has just begun or is
 * about to end: that is the newest run, but the programs find out at the oldest. Moves each
 * frame to the run before its own; true when that was the case. */
static bool move_python(struct pipeline *p, const struct raw_stack *raw, uint32_t *frames, size_t n)
{
	uint32_t version = frames_python_version(p, raw->tgid);
	if (raw->python != PYTHON_TOO_FEW || !version || version >= 0x030b0000)
		return false;
	size_t oldest = n;
	while (oldest-- > 0)
		if (frames_get(p, frames[oldest])->row.kind == FRAME_NATIVE &&
		    !strcmp(frames_name(p, frames[oldest]), "_PyEval_EvalFrameDefault"))
			break;
	if (oldest >= n)
		return false;
	uint32_t moved = frames[oldest];
	for (size_t i = 0; i <= oldest; i++) {
		uint32_t was = frames[i];
		if (i < oldest && frames_get(p, was)->row.kind != FRAME_PYTHON)
			continue;
		frames[i] = moved;
		moved = was;
	}
	return true;
}

/* The frame at which a walk ended for want of a mapping is in none. */
static bool is_mapped(const struct raw_stack *raw, uint32_t frame)
{
	return frame + 1u < raw->frames ||
	       (raw->end != STACK_NO_MAPS && raw->end != STACK_NO_MAPPING &&
		raw->end != STACK_MAPS_CHANGED);
}

/* False when a name has not come yet, and may. */
static bool make_stack(struct pipeline *p, const struct raw_stack *raw)
{
	struct stacks *s = p->stacks;
	uint32_t frames[STACK_FRAMES];
	size_t n = 0;
	bool begun = !(raw->where & STACK_AT_SWITCH); /* past the frames of what takes the stack */
	for (uint32_t i = 0; i < raw->frames; i++) {
		if (i == raw->kernel)
			n = own_frames_fold(p, raw->where & STACK_IN_PROBE, frames, n);
		uint64_t at = s->raw_frames.data[raw->at + i];
		if (i < raw->kernel) {
			uint32_t frame = frames_of_kernel(p, at - (i > 0));
			begun = begun || !takes_the_stack(p, frame);
			if (begun)
				frames[n++] = frame;
		} else if (at & PYTHON_FRAME_BIT) {
			if (!frames_of_python(p, at, raw->age > 0, &frames[n]))
				return false;
			n += !frames_get(p, frames[n])->is_glue;
		} else if (at & FILE_FRAME_BIT) {
			frames[n++] = frames_of_file(p, raw->tgid, at);
		} else {
			frames[n++] = frames_of_address(p, raw->tgid, at, is_mapped(raw, i));
		}
	}
	if (raw->frames == raw->kernel)
		n = own_frames_fold(p, raw->where & STACK_IN_PROBE, frames, n);
	n = own_frames_fold_inside(p, frames, n);
	const char *cut = move_python(p, raw, frames, n) ? NULL : cut_reason(raw);
	uint32_t node = cut ? child_of(p, 0, frames_cut(p, cut)) : 0;
	while (n-- > 0)
		node = child_of(p, node, frames[n]);
	map64_set(&s->by_id, raw->id, node);
	return true;
}

void stacks_pass(struct pipeline *p)
{
	struct stacks *s = p->stacks;
	size_t kept = 0;
	for (size_t i = 0; i < s->raw.len; i++) {
		struct raw_stack raw = s->raw.data[i];
		bound_generation(p);
		if (make_stack(p, &raw))
			continue;
		raw.age++;
		s->raw.data[kept++] = raw;
	}
	s->raw.len = kept;
	if (!kept)
		s->raw_frames.len = 0;
}

/* ---- samples ---- */

void stacks_add_sample(struct pipeline *p, const struct rec_sample *r)
{
	*vec_push(&p->stacks->samples) = (struct pending_sample){.record = *r};
}

static enum wait_reason reason_of(struct pipeline *p, const struct rec_sample *r, uint32_t stack)
{
	struct stacks *s = p->stacks;
	uint32_t frames[WAIT_FRAMES];
	size_t n = 0;
	if (!r->is_wait)
		return WAIT_OTHER;
	if (r->preempted)
		return WAIT_PREEMPTED;
	for (; stack && n < WAIT_FRAMES; stack = node_at(s, stack)->parent)
		frames[n++] = node_at(s, stack)->frame;
	/* amid no system call a stack tells more */
	bool is_told = r->reason < WAIT_REASONS && (r->syscall >= 0 || !n);
	return wait_reason_of(p, frames, n, is_told ? (enum wait_reason)r->reason : WAIT_OTHER);
}

static void put_sample(struct pipeline *p, const struct rec_sample *r, uint32_t stack)
{
	if (!pipeline_is_told(p, r->tgid))
		return;
	char waker[sizeof(r->waker) + 1] = "", comm[sizeof(r->comm) + 1] = "";
	memcpy(waker, r->waker, sizeof(r->waker));
	memcpy(comm, r->comm, sizeof(r->comm));
	struct m_sample row = {
		.time_ns = r->time_ns,
		.weight_ns = r->weight_ns,
		.thread = pipeline_thread_named(p, r->tgid, r->tid, comm),
		.stack = stack,
		.kind = r->is_wait ? SAMPLE_OFFCPU : SAMPLE_CPU,
		.reason = (uint8_t)reason_of(p, r, stack),
		.waker = rec_string_z(p->writer, waker),
		.waker_tid = r->waker_tid,
	};
	emit_sample(p, &row);
	p->samples++;
}

void stacks_pass_samples(struct pipeline *p, bool last)
{
	struct stacks *s = p->stacks;
	size_t kept = 0;
	for (size_t i = 0; i < s->samples.len; i++) {
		struct pending_sample pending = s->samples.data[i];
		uint32_t stack = 0;
		if (pending.record.stack && !stacks_find(p, pending.record.stack, &stack)) {
			if (!last && pending.age++ < SAMPLES_WAIT) {
				s->samples.data[kept++] = pending;
				continue;
			}
			s->unknown_samples++;
		}
		put_sample(p, &pending.record, stack);
	}
	s->samples.len = kept;
	if (last && s->unknown_samples)
		pipeline_loss(p, "sample_stack", 0, s->unknown_samples);
}
