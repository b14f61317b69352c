/* json_out.c - jansson's text, passed on with some characters escaped. In JSON those that are
 * escaped here stand in strings alone. */
#include "base/json_out.h"

#include "base/buffer.h"
#include "base/utf8.h"

#define CHUNK_BYTES 65536
#define SHORT_BYTES 4096

struct json_out {
	FILE *out;	 /* NULL: all is kept in text */
	struct buf text; /* as it comes */
	struct buf safe; /* as it goes */
};

/* Of a character of up to three bytes. */
static unsigned code_point(const uint8_t *s, size_t len)
{
	unsigned first = s[0] & (len == 1 ? 0x7f : len == 2 ? 0x1f : 0x0f);
	for (size_t i = 1; i < len; i++)
		first = first << 6 | (s[i] & 0x3f);
	return first;
}

/* The whole characters of p. */
static void escape(struct buf *to, const uint8_t *p, size_t len)
{
	size_t done = 0, n;
	for (size_t i = 0; i < len; i += n ? n : 1) {
		n = p[i] >= 0x7f ? utf8_control(p + i, len - i) : 0;
		if (!n)
			continue;
		buf_add(to, p + done, i - done);
		buf_printf(to, "\\u%04x", code_point(p + i, n));
		done = i + n;
	}
	buf_add(to, p + done, len - done);
}

/* Up to the last byte that ends a character for certain. */
static size_t whole(const struct buf *text)
{
	size_t len = text->len;
	while (len && text->data[len - 1] >= 0x80)
		len--;
	return len;
}

static int flush(struct json_out *o, size_t len)
{
	o->safe.len = 0;
	escape(&o->safe, o->text.data, len);
	o->text.len -= len;
	memmove(o->text.data, o->text.data + len, o->text.len);
	return fwrite(o->safe.data, 1, o->safe.len, o->out) == o->safe.len ? 0 : -1;
}

static int take(const char *text, size_t len, void *ctx)
{
	struct json_out *o = ctx;
	buf_add(&o->text, text, len);
	return o->out && o->text.len >= CHUNK_BYTES ? flush(o, whole(&o->text)) : 0;
}

static void free_all(struct json_out *o)
{
	buf_free(&o->text);
	buf_free(&o->safe);
}

/* jansson hands out single characters: a line that is short is put together by itself. */
static size_t short_line(const json_t *v, size_t flags, char line[static SHORT_BYTES])
{
	size_t len = flags & JSON_MAX_INDENT ? 0 : json_dumpb(v, line, SHORT_BYTES, flags);
	return len <= SHORT_BYTES ? len : 0;
}

int json_out_file(const json_t *v, FILE *out, size_t flags)
{
	struct json_out o = {.out = out};
	char line[SHORT_BYTES];
	size_t len = short_line(v, flags, line);
	int rc = len ? take(line, len, &o) : json_dump_callback(v, take, &o, flags);
	if (!rc && o.text.len)
		rc = flush(&o, o.text.len);
	free_all(&o);
	return rc;
}

char *json_out_text(const json_t *v, size_t flags)
{
	struct json_out o = {0};
	if (json_dump_callback(v, take, &o, flags)) {
		free_all(&o);
		return NULL;
	}
	escape(&o.safe, o.text.data, o.text.len);
	buf_byte(&o.safe, 0);
	buf_free(&o.text);
	return (char *)o.safe.data;
}
