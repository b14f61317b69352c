/* keys.h - which events are alike: the function with what its duration depends on. Latency is
 * judged against events of the same key alone ("conditional normalisation").
 *
 * The text of a key is what the model file has, the same in every recording:
 *   cuda    "cuMemcpyHtoDAsync_v2 2^20", "cuLaunchKernel KERNEL", "kernel KERNEL 2^7 blocks",
 *           "copy HtoD 2^20"        (the last two of spans of the GPU)
 *   python  "function (file.py:12)" (the file's last part)
 *   torch   "aten::addmm [128,768][768,3072]" (shapes where the recording has them)
 *   nccl    "ncclAllReduce 2^22 of 4 on 3f2a" (bytes, size of the communicator, its hash in short)
 * A size is put in a bucket of a power of two. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "detect/layer.h"
#include "detect/names.h"

struct detect_keys;

struct detect_key {
	enum detect_layer layer;
	const char *text; /* whole */
	const char *name; /* the function alone */
};

/* most: keys beyond are put together, one for each layer, named "(other)". */
struct detect_keys *detect_keys_new(uint32_t most);
void detect_keys_free(struct detect_keys *k);

/* The number of an event's key, dense from 1; 0: it is of no layer that is judged. Numbers of
 * the same text are the same. Made to be called for each event: what was met before costs one
 * look into a hash table and takes no string apart. names may differ from call to call only after
 * detect_keys_forget_rows. */
uint32_t detect_keys_call(struct detect_keys *k, const struct detect_names *names,
			  const struct m_call *c);
uint32_t detect_keys_gpu_span(struct detect_keys *k, const struct detect_names *names,
			      const struct m_gpu_span *s);
/* Of a text that comes from a model; 0: not a key's text. */
uint32_t detect_keys_text(struct detect_keys *k, enum detect_layer layer, const char *text);
/* Numbers of rows mean something else from here on: another recording. */
void detect_keys_forget_rows(struct detect_keys *k);

uint32_t detect_keys_count(const struct detect_keys *k); /* numbers are 1..count */
void detect_keys_get(const struct detect_keys *k, uint32_t number, struct detect_key *ret);
