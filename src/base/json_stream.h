/* json_stream.h - a JSON document that is written while it is made, so that a list of a million
 * rows is never in memory as a whole. It looks as json_out_file would write it, with an indent of
 * two.
 *
 * Values are jansson's, and are written and given back one by one; what is open is an object or an
 * array that they are put into. Keys are the program's own: plain text that needs no escape. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#define JSON_STREAM_DEPTH 16

struct json_stream {
	FILE *out;
	size_t flags; /* jansson's, JSON_REAL_PRECISION(9) and the like */
	unsigned depth;
	char closing[JSON_STREAM_DEPTH]; /* of each that is open */
	bool has_member;		 /* the innermost that is open */
	bool failed;
};

/* The document is an object, which is open then. */
void json_stream_begin(struct json_stream *s, FILE *out, size_t flags);

/* Opens an object or an array within what is open. In an array the key is NULL. */
void json_stream_object(struct json_stream *s, const char *key);
void json_stream_array(struct json_stream *s, const char *key);
void json_stream_close(struct json_stream *s);

/* Puts a value into what is open and frees it. NULL, as json_real gives of what is no number, is
 * left out, as json_object_set_new would. */
void json_stream_put(struct json_stream *s, const char *key, json_t *v);

/* Closes the document. 0, or -1 where it could not be written. */
int json_stream_end(struct json_stream *s);
