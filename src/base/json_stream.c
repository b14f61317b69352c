/* json_stream.c - brackets, commas and indents around values that jansson has written. In a value a
 * line ends between members alone, since a string has its ends of lines escaped. */
#include "base/json_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_out.h"

#define INDENT 2

static void text(struct json_stream *s, const char *p, size_t len)
{
	s->failed |= fwrite(p, 1, len, s->out) != len;
}

static void new_line(struct json_stream *s)
{
	s->failed |= fprintf(s->out, "\n%*s", (int)s->depth * INDENT, "") < 0;
}

/* What comes before a member. */
static void member(struct json_stream *s, const char *key)
{
	if (s->has_member)
		text(s, ",", 1);
	new_line(s);
	s->has_member = true;
	if (key)
		s->failed |= fprintf(s->out, "\"%s\": ", key) < 0;
}

static void open_bracket(struct json_stream *s, const char *brackets)
{
	text(s, brackets, 1);
	s->closing[s->depth++] = brackets[1];
	s->has_member = false;
}

void json_stream_begin(struct json_stream *s, FILE *out, size_t flags)
{
	*s = (struct json_stream){.out = out, .flags = flags};
	open_bracket(s, "{}");
}

void json_stream_object(struct json_stream *s, const char *key)
{
	member(s, key);
	open_bracket(s, "{}");
}

void json_stream_array(struct json_stream *s, const char *key)
{
	member(s, key);
	open_bracket(s, "[]");
}

void json_stream_close(struct json_stream *s)
{
	s->depth--;
	if (s->has_member)
		new_line(s);
	text(s, &s->closing[s->depth], 1);
	s->has_member = true; /* itself, in what it is in */
}

static void lines(struct json_stream *s, const char *p)
{
	for (const char *end; (end = strchr(p, '\n')); p = end + 1) {
		text(s, p, (size_t)(end - p));
		new_line(s);
	}
	text(s, p, strlen(p));
}

void json_stream_put(struct json_stream *s, const char *key, json_t *v)
{
	if (!v)
		return;
	char *written = json_out_text(v, s->flags | JSON_INDENT(INDENT) | JSON_ENCODE_ANY);
	json_decref(v);
	if (written) {
		member(s, key);
		lines(s, written);
	}
	s->failed |= !written;
	free(written);
}

int json_stream_end(struct json_stream *s)
{
	json_stream_close(s);
	return s->failed || ferror(s->out) ? -1 : 0;
}
