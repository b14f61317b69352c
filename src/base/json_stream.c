/* json_stream.c - brackets, commas and indents around values that jansson has written. In a value a
 * line ends between members alone, since a string has its ends of lines escaped. */
#include "base/json_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_out.h"

#define INDENT	   2
#define PATH_BYTES 256

/* ---- put together ---- */

static void path_of(const struct json_stream *s, const char *key, char ret[static PATH_BYTES])
{
	size_t len = 0;
	ret[0] = 0;
	for (unsigned i = 1; i <= s->depth; i++) {
		const char *part = i < s->depth ? s->open[i].key : key;
		if (!part)
			continue;
		int n = snprintf(ret + len, PATH_BYTES - len, "%s%s", len ? "." : "", part);
		len += n > 0 && len + (size_t)n < PATH_BYTES ? (size_t)n : 0;
	}
}

/* Takes v; whether it is kept. */
static bool keep(struct json_stream *s, const char *key, json_t *v)
{
	json_t *in = s->open[s->depth - 1].of;
	if (json_is_array(in) && ++s->open[s->depth - 1].elements > s->limits->most)
		in = NULL;
	if (in && key)
		json_object_set_new(in, key, v);
	else if (in)
		json_array_append_new(in, v);
	else
		json_decref(v);
	return in;
}

static void put_whole(struct json_stream *s, const char *key, json_t *v)
{
	char path[PATH_BYTES];
	path_of(s, key, path);
	s->limits->value(s->limits->ctx, path, v);
	keep(s, key, v);
}

static void open_whole(struct json_stream *s, const char *key, json_t *v)
{
	bool kept = keep(s, key, v);
	s->open[s->depth].key = key;
	s->open[s->depth].of = kept ? v : NULL;
	s->open[s->depth++].elements = 0;
}

static void close_whole(struct json_stream *s)
{
	char path[PATH_BYTES];
	const json_t *of = s->open[--s->depth].of;
	size_t n = s->open[s->depth].elements;
	path_of(s, s->open[s->depth].key, path);
	if (json_is_array(of))
		s->limits->list(s->limits->ctx, path, json_array_size(of), n);
}

void json_stream_begin_whole(struct json_stream *s, const struct json_stream_limits *limits)
{
	*s = (struct json_stream){.limits = limits, .whole = json_object()};
	s->open[0].of = s->whole;
	s->depth = 1;
}

/* ---- written ---- */

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
	if (!s->out) {
		open_whole(s, key, json_object());
		return;
	}
	member(s, key);
	open_bracket(s, "{}");
}

void json_stream_array(struct json_stream *s, const char *key)
{
	if (!s->out) {
		open_whole(s, key, json_array());
		return;
	}
	member(s, key);
	open_bracket(s, "[]");
}

void json_stream_close(struct json_stream *s)
{
	if (!s->out) {
		close_whole(s);
		return;
	}
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
	if (!s->out) {
		put_whole(s, key, v);
		return;
	}
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
	return s->failed || (s->out && ferror(s->out)) ? -1 : 0;
}
