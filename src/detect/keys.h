/* keys.h - which events are alike: the function with what its duration depends on. Latency is
 * judged against events of the same key alone ("conditional normalisation").
 *
 * The text of a key is what the model file has, the same in every recording:
 *   cuda    "cuMemcpyHtoDAsync_v2 2^20", "cudaMemcpyAsync HtoD 2^20", "cuLaunchKernel KERNEL",
 *           "kernel KERNEL 2^7 blocks", "copy HtoD pinned 2^20", "set 2^10", "graph"
 *           (from "kernel" on: spans of the GPU; NCCL's kernels belong to nccl)
 *   python  "function (file.py:12)" (the file's last part), "import torch", "gc"
 *   torch   "aten::addmm [128,768][768,3072]" (shapes where the recording has them; of an operator
 *           without any those of the last one that it called: "aten::linear [128,768][768,3072]")
 *   nccl    "ncclAllReduce 2^22 of 4" (bytes, ranks of the communicator),
 *           "kernel ncclDevKernel_AllReduce_Sum_f32_RING_LL 2^22" (bytes of the call around the
 *           launch, where that is known, else blocks)
 * Bytes are put in a bucket of a power of two; of a shape's sizes the three highest bits are kept,
 * so that sequences of all lengths do not make a key each. The communicator's hash is no part of a
 * key: it is another one in each launch of a job. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "detect/layer.h"
#include "detect/names.h"

#define KEYS_MOST      16384 /* what learning and detecting ask for */
#define KEY_TEXT_BYTES 320   /* a text's most, its end included */

struct detect_keys;

/* How much of an event makes its key. */
enum detect_keys_depth {
	KEYS_WHOLE,
	KEYS_FUNCTIONS, /* no sizes */
	KEYS_LAYERS,	/* one for each layer */
};

struct detect_key {
	enum detect_layer layer;
	bool device;	   /* of a span of the GPU: its time is the device's */
	bool saves;	   /* a part of saving a checkpoint */
	uint32_t function; /* as in struct detect_keyed */
	const char *text;  /* whole */
	const char *name;  /* without sizes */
};

/* An event as its key sees it. */
struct detect_keyed {
	uint32_t number; /* dense from 1; 0: it is of no layer that is judged */
	/* For regimes.h: hashes of the function, and of the size that it was called with (bytes,
	 * shapes, blocks of a launch; finer than the key's). 0: it tells no size. */
	uint32_t function, size;
};

/* most: keys beyond are put together, one for each layer, named "(other)". */
struct detect_keys *detect_keys_new(uint32_t most, enum detect_keys_depth depth);
void detect_keys_free(struct detect_keys *k);
/* Those that were met; a model's come before all calls. */
struct detect_layers *detect_keys_layers(struct detect_keys *k);

/* Numbers of the same text are the same. Made to be called for each event: what was met before
 * costs one look into a hash table and takes no string apart. names may differ from call to call
 * only after detect_keys_forget_rows. Of a thread, calls come in order of their ends; a span of a
 * collective's kernel finds the call that launched it among the last ones of its thread. */
struct detect_keyed detect_keys_call(struct detect_keys *k, const struct detect_names *names,
				     const struct m_call *c);
struct detect_keyed detect_keys_gpu_span(struct detect_keys *k, const struct detect_names *names,
					 const struct m_gpu_span *s);
/* Of a text that comes from a model; 0: not a key's text. */
uint32_t detect_keys_text(struct detect_keys *k, enum detect_layer layer, const char *text);
/* Calls of this thread come no more. */
void detect_keys_thread_gone(struct detect_keys *k, uint32_t pid, uint32_t tid);
/* Numbers of rows mean something else from here on: another recording. */
void detect_keys_forget_rows(struct detect_keys *k);

uint32_t detect_keys_count(const struct detect_keys *k); /* numbers are 1..count */
void detect_keys_get(const struct detect_keys *k, uint32_t number, struct detect_key *ret);
