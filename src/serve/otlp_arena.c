/* otlp_arena.c - blocks of one size, and larger ones for what is larger. */
#include "serve/otlp_arena.h"

#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

#include "base/human.h"

#define BLOCK_BYTES 65536

void *otlp_arena_get(struct otlp_arena *a, size_t size)
{
	const size_t unit = alignof(max_align_t);
	size = (size + unit - 1) / unit * unit;
	if (size > BLOCK_BYTES)
		return *vec_push(&a->large) = xcalloc(1, size);
	if (!a->blocks.len || a->used + size > BLOCK_BYTES) {
		*vec_push(&a->blocks) = xcalloc(1, BLOCK_BYTES);
		a->used = 0;
	}
	char *ret = (char *)a->blocks.data[a->blocks.len - 1] + a->used;
	a->used += size;
	memset(ret, 0, size);
	return ret;
}

static bool is_plain(const char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			return false;
	return true;
}

char *otlp_arena_text(struct otlp_arena *a, const char *text)
{
	char *clean = is_plain(text) ? NULL : text_clean(text);
	size_t n = strlen(clean ? clean : text) + 1;
	char *ret = otlp_arena_get(a, n);
	memcpy(ret, clean ? clean : text, n);
	free(clean);
	return ret;
}

void otlp_arena_empty(struct otlp_arena *a)
{
	for (size_t i = 1; i < a->blocks.len; i++)
		free(a->blocks.data[i]);
	for (size_t i = 0; i < a->large.len; i++)
		free(a->large.data[i]);
	a->blocks.len = a->blocks.len > 0;
	a->large.len = 0;
	a->used = 0;
}

void otlp_arena_free(struct otlp_arena *a)
{
	otlp_arena_empty(a);
	if (a->blocks.len)
		free(a->blocks.data[0]);
	vec_free(&a->blocks);
	vec_free(&a->large);
}
