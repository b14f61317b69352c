/* keys_impl.h - what keys.c, keys_text.c and keys_nccl.c share. */
#pragma once

#include "base/map64.h"
#include "base/strtab.h"
#include "detect/keys.h"

#define SHAPES_MOST 4 /* of a call that count */

/* Shapes of a call, as shape_dims and shape_size read them. */
struct key_shapes {
	uint32_t n;
	uint64_t shape[SHAPES_MOST];
};

/* How a value takes part in a key. */
enum key_part_how {
	PART_BYTES,
	PART_SHAPE,
	PART_COPY_KIND, /* cudaMemcpyKind */
	PART_STRING,
	PART_GRID, /* tells the size, but is no part of the key: a launch takes as long for any */
};

struct key_part {
	uint8_t arg;
	uint8_t how; /* enum key_part_how */
};

/* What calls of a probe are made of; made when its first call is met. */
struct key_plan {
	bool made;
	bool judged; /* its layer is */
	uint8_t layer;
	int8_t name_arg; /* -1 none */
	uint8_t name_type;
	int8_t bytes_arg, comm_arg; /* of NCCL's calls, -1 none */
	uint8_t nccl;		    /* enum key_nccl */
	bool shaped;		    /* shapes are among its parts */
	bool borrows; /* an operator without: has those of one that was called within it */
	uint8_t parts_len;
	struct key_part parts[MODEL_MAX_ARGS];
};

enum key_nccl {
	NCCL_NONE,
	NCCL_COLLECTIVE,
	NCCL_GROUP_START,
	NCCL_GROUP_END,
	NCCL_COMM_CHANGE, /* a handle may mean another communicator from now on */
};

/* A size by its highest bit and the two below it: 8 steps for each doubling. 0 is 0. */
static inline uint32_t size_step(uint64_t size)
{
	if (size < 8)
		return (uint32_t)size;
	unsigned top = 63 - (unsigned)__builtin_clzll(size);
	return 8 * (top - 2) + (uint32_t)(size >> (top - 3) & 7);
}

/* k such that size is in [2^k, 2^(k+1)); 0 of 0. */
static inline unsigned size_power(uint64_t size)
{
	return size ? 63 - (unsigned)__builtin_clzll(size) : 0;
}

/* Blocks of a grid: dim3_pack's value. */
static inline uint64_t grid_blocks(uint64_t grid)
{
	return (uint64_t)dim3_x(grid) * dim3_y(grid) * dim3_z(grid);
}

/* ---- keys_text.c: texts, as they are in models ---- */

struct key_text {
	char s[KEY_TEXT_BYTES];
	size_t len;
};
/* Cut texts end with a hash of the whole, so that they stay apart. */
void key_text_add(struct key_text *t, const char *s);
void key_text_printf(struct key_text *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void key_text_call(struct key_text *t, const struct detect_names *names,
		   const struct key_plan *plan, const struct m_call *c, int32_t ranks,
		   enum detect_keys_depth depth);
/* After that, of a call that borrows. */
void key_text_shapes(struct key_text *t, const struct key_shapes *shapes);
/* bytes: of the collective that a kernel belongs to, 0 unknown. */
void key_text_gpu_span(struct key_text *t, const struct detect_names *names,
		       const struct m_gpu_span *s, uint64_t bytes, enum detect_keys_depth depth);
/* How much of a text is the name. */
size_t key_name_len(enum detect_layer layer, const char *text);
bool key_text_is_device(const char *text);
/* Functions of Python with "save" in their names in the files that write checkpoints: of
 * torch.save, of torch.distributed.checkpoint, of safetensors. */
bool key_text_saves(enum detect_layer layer, const char *text);

/* ---- keys_within.c: shapes of what was called within a call ---- */

struct key_within;
struct key_within *key_within_new(void);
void key_within_free(struct key_within *w);
/* A call of a plan that has shapes. */
void key_within_call(struct key_within *w, const struct key_plan *plan, const struct m_call *c);
/* Those of the last one that was made within this call; NULL: none was. */
const struct key_shapes *key_within_of(const struct key_within *w, const struct m_call *c);

/* ---- keys_nccl.c: which collective a kernel belongs to, how many ranks it has ---- */

struct key_nccl_state;
struct key_nccl_state *key_nccl_new(void);
void key_nccl_free(struct key_nccl_state *n);
void key_nccl_thread_gone(struct key_nccl_state *n, uint32_t pid, uint32_t tid);
/* A call of a plan whose nccl is set. */
void key_nccl_call(struct key_nccl_state *n, const struct detect_names *names,
		   const struct key_plan *plan, const struct m_call *c);
/* Bytes of the collective or group that was open on the thread at the time; 0 unknown. */
uint64_t key_nccl_bytes(const struct key_nccl_state *n, uint32_t pid, uint32_t tid,
			uint64_t time_ns);
/* Ranks of the communicator that a call names, 0 unknown. */
int32_t key_nccl_ranks(struct key_nccl_state *n, const struct detect_names *names,
		       const struct key_plan *plan, const struct m_call *c);
