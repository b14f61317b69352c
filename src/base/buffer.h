/* buffer.h - a growable array of bytes, and a typed growable array on the same idea.
 *
 * Both are plain structs that the owner zero-initialises and frees. Running out
 * of memory ends the process with one line: a tracer that cannot allocate a few
 * kilobytes has nothing useful left to do, and its exit leaves no probe behind. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct buf {
	uint8_t *data;
	size_t len;
	size_t cap;
};

/* Grows capacity to at least len + more bytes. */
void buf_reserve(struct buf *b, size_t more);
void buf_add(struct buf *b, const void *p, size_t n);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_free(struct buf *b);

static inline void buf_byte(struct buf *b, uint8_t v)
{
	if (b->len == b->cap)
		buf_reserve(b, 1);
	b->data[b->len++] = v;
}

/* realloc that cannot return NULL; n * size is checked for overflow. */
void *xrealloc(void *p, size_t n, size_t size);
void *xcalloc(size_t n, size_t size);
char *xstrdup(const char *s);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* VEC(struct foo) foos = {0};  *vec_push(&foos) = foo;  vec_free(&foos); */
#define VEC(T)                                                                                     \
	struct {                                                                                   \
		T *data;                                                                           \
		size_t len;                                                                        \
		size_t cap;                                                                        \
	}

#define vec_reserve(v, more)                                                                       \
	do {                                                                                       \
		if ((v)->len + (more) > (v)->cap) {                                                \
			size_t vec_cap_ = (v)->cap ? (v)->cap * 2 : 16;                            \
			while (vec_cap_ < (v)->len + (more))                                       \
				vec_cap_ *= 2;                                                     \
			(v)->data = xrealloc((v)->data, vec_cap_, sizeof(*(v)->data));             \
			(v)->cap = vec_cap_;                                                       \
		}                                                                                  \
	} while (0)

/* Adds one zeroed element and yields its address. */
#define vec_push(v)                                                                                \
	({                                                                                         \
		vec_reserve(v, 1);                                                                 \
		memset(&(v)->data[(v)->len], 0, sizeof(*(v)->data));                               \
		&(v)->data[(v)->len++];                                                            \
	})

/* Gives back the room that is not used. */
#define vec_fit(v)                                                                                 \
	do {                                                                                       \
		if ((v)->len && (v)->len < (v)->cap) {                                             \
			(v)->data = xrealloc((v)->data, (v)->len, sizeof(*(v)->data));             \
			(v)->cap = (v)->len;                                                       \
		}                                                                                  \
	} while (0)

#define vec_free(v)                                                                                \
	do {                                                                                       \
		free((v)->data);                                                                   \
		(v)->data = NULL;                                                                  \
		(v)->len = (v)->cap = 0;                                                           \
	} while (0)
