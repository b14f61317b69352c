/* json_stream.h - a JSON document that is written while it is made, so that a list of a million
 * rows is never in memory as a whole. It looks as json_out_file would write it, with an indent of
 * two.
 *
 * It may be put together as a value of jansson's instead, with so many elements of each list at
 * most: what is left out is counted, and never in memory as a whole either.
 *
 * Values are jansson's, and are written and given back one by one; what is open is an object or an
 * array that they are put into. Keys are the program's own: plain text that needs no escape. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#define JSON_STREAM_DEPTH 16

/* Of a document that is put together. path: keys from the outside in, "steps.processes". */
struct json_stream_limits {
	size_t most; /* elements of a list */
	void *ctx;
	/* A value of the document before it is kept, to be made smaller; and a list, as it is
	 * closed: of how many elements it has so many. */
	void (*value)(void *ctx, const char *path, json_t *v);
	void (*list)(void *ctx, const char *path, size_t shown, size_t of);
};

struct json_stream {
	FILE *out;    /* NULL: it is put together */
	size_t flags; /* jansson's, JSON_REAL_PRECISION(9) and the like */
	unsigned depth;
	char closing[JSON_STREAM_DEPTH]; /* of each that is open */
	bool has_member;		 /* the innermost that is open */
	bool failed;
	/* of what is put together: */
	const struct json_stream_limits *limits;
	json_t *whole;
	struct {
		const char *key;
		json_t *of; /* NULL: it is left out */
		size_t elements;
	} open[JSON_STREAM_DEPTH];
};

/* The document is an object, which is open then. */
void json_stream_begin(struct json_stream *s, FILE *out, size_t flags);

/* The same, put together: s->whole is it once it has ended, the caller's. */
void json_stream_begin_whole(struct json_stream *s, const struct json_stream_limits *limits);

/* Opens an object or an array within what is open. In an array the key is NULL. */
void json_stream_object(struct json_stream *s, const char *key);
void json_stream_array(struct json_stream *s, const char *key);
void json_stream_close(struct json_stream *s);

/* Puts a value into what is open and frees it. NULL, as json_real gives of what is no number, is
 * left out, as json_object_set_new would. */
void json_stream_put(struct json_stream *s, const char *key, json_t *v);

/* Closes the document. 0, or -1 where it could not be written. */
int json_stream_end(struct json_stream *s);
