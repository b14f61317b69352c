/* otlp_arena.h - memory of messages that are made, written and forgotten together. */
#pragma once

#include <stddef.h>

#include "base/buffer.h"

struct otlp_arena {
	VEC(void *) blocks;
	size_t used;	   /* of the last one */
	VEC(void *) large; /* what does not fit into a block */
};

/* Zeroed, aligned for any type; until the arena is emptied. */
void *otlp_arena_get(struct otlp_arena *a, size_t size);
/* A copy, fit for a string of protobuf: what is no UTF-8 is U+FFFD, a control character "?". */
char *otlp_arena_text(struct otlp_arena *a, const char *text);
/* One block stays. */
void otlp_arena_empty(struct otlp_arena *a);
void otlp_arena_free(struct otlp_arena *a);
