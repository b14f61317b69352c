/* flame_impl.h - what the files that make flame trees share. */
#pragma once

#include "analyze/flame.h"
#include "base/buffer.h"
#include "base/map64.h"

#define FLAME_NO_THREAD UINT32_MAX
#define FLAME_NO_STACK	UINT32_MAX /* the frames below stand at the root */

#define FLAME_LEAVES 3

/* Weight of one stack of one process (and thread, where they are told apart), and frames
 * below the stack's leaf. */
struct flame_row {
	uint32_t pid;
	uint32_t thread;	     /* index, FLAME_NO_THREAD */
	uint32_t stack;		     /* 0 = not taken, FLAME_NO_STACK */
	uint32_t leaf[FLAME_LEAVES]; /* frames of the tree, 0 = none */
	int64_t weight;
	uint32_t number; /* of flame_add */
};

/* A sample, where they are kept. */
struct flame_sample {
	uint64_t time_ns;
	int64_t weight;
	uint32_t row; /* number of flame_add */
	uint32_t thread;
};

#define FLAME_NO_ROW UINT32_MAX

/* One recording on its way into a tree. */
struct flame_job {
	const struct row_source *source;
	const struct rec_tables *t;
	const struct flame_options *o;
	struct calltree *tree;
	int which; /* 1 = the base of a differential */
	bool several_processes;
	uint64_t from_ns, to_ns, at_ns; /* on the recording's clock; to_ns exclusive */
	VEC(struct flame_row) rows;
	struct map64 row_of; /* hash of all but the weight -> row */
	VEC(struct flame_sample) moments;
	uint32_t *node_of; /* by a row's number: node of the tree; where moments are kept */
};

/* ---- flame.c ---- */

/* A meta value as a number, 0 when it is absent. */
uint64_t flame_meta_number(const struct rec_tables *t, const char *key);

/* When the recording began; where it does not say (it was cut early): its first process. */
uint64_t flame_start_ns(const struct rec_tables *t);

/* Adds to the weight of a row. Returns its number; FLAME_NO_ROW where its thread or process is not
 * asked for. */
uint32_t flame_add(struct flame_job *job, struct flame_row row);

/* flame_moments.c: puts the samples that were kept into the tree, after flame_frames_add. */
void flame_moments_add(struct flame_job *job);

static inline bool flame_in_time(const struct flame_job *job, uint64_t time_ns)
{
	return time_ns >= job->from_ns && time_ns < job->to_ns;
}

/* A frame that stands for something else than code: "[gil]". */
uint32_t flame_other_frame(struct flame_job *job, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- flame_frames.c: the rows' stacks as nodes ---- */

void flame_frames_add(struct flame_job *job);

/* What a frame is called, its kind in the tree in *ret_kind; malloc'ed. operators: as
 * flame_operators makes it, or NULL. */
char *flame_frame_name(const struct rec_tables *t, const struct map64 *operators,
		       const struct m_frame *f, bool lines, enum calltree_kind *ret_kind);

/* Names of operators by the hash of their class, "add_Tensor" -> string number of "aten::add":
 * from the probes of the recording, which know where the overload's name begins. */
void flame_operators(struct map64 *ret, const struct rec_tables *t);

/* Whether a frame is that of an operator, by its name: "aten::addmm". */
bool flame_is_operator(const struct rec_tables *t, const struct map64 *operators,
		       const struct m_frame *f, const char *name);

/* ---- flame_calls.c ---- */

/* Hands every call to take, with the state of its thread, which begins zeroed. Returns the states
 * in one array of *ret_states; the caller frees it. order is the call's place in the file. */
typedef void flame_take(void *state, void *ctx, const struct m_call *c, uint64_t order);
void *flame_calls(struct flame_job *job, size_t state_bytes, flame_take *take, void *ctx,
		  size_t *ret_states);

/* ---- the kinds: each fills job->rows and the tree's type, unit ---- */
int flame_samples(struct flame_job *job, struct err *e); /* flame_samples.c */
int flame_gpu(struct flame_job *job, struct err *e);	 /* flame_gpu.c */
int flame_memory(struct flame_job *job, struct err *e);	 /* flame_memory.c */
