/* kernel_name.c - shortens demangled C++ names.
 *
 * Reads the name once from left to right and builds the short one behind it. Whatever turns
 * out to be a namespace or a return type is taken off again when the "::" or the space after
 * it is met. Text that is no C++ name comes out as something, never as a failure. */
#include "base/kernel_name.h"

#include <stdint.h>
#include <string.h>

#include "base/buffer.h"

#define UNRESOLVED "kernel 0x"
#define ANONYMOUS  "(anonymous namespace)"
#define MAX_DEPTH  16
#define MAX_LIST   64 /* characters of a template list, halved at each depth */
#define MIN_LIST   16

struct reader {
	const char *p;
	struct buf out;
	unsigned depth; /* of template lists */
};

bool kernel_name_known(const char *name)
{
	return *name && strncmp(name, UNRESOLVED, strlen(UNRESOLVED)) != 0;
}

static bool word_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '$' || c == '.' || (unsigned char)c >= 0x80;
}

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool starts(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

/* Past the bracket that closes the one at s, or the end of the text. */
static const char *past_group(const char *s, char open, char close)
{
	unsigned depth = 0;
	for (; *s; s++) {
		depth += *s == open;
		if (*s == close && !--depth)
			return s + 1;
	}
	return s;
}

static void trim(struct buf *b, size_t to)
{
	while (b->len > to && b->data[b->len - 1] == ' ')
		b->len--;
}

/* An integer without its suffix: 3ul is 3. */
static void read_number(struct reader *r)
{
	while (word_char(*r->p) && !strchr("uUlL", *r->p))
		buf_byte(&r->out, (uint8_t)*r->p++);
	while (*r->p && strchr("uUlL", *r->p))
		r->p++;
}

/* A word; "operator" takes its sign along. */
static void read_word(struct reader *r)
{
	const char *from = r->p;
	while (word_char(*r->p))
		r->p++;
	if (r->p - from == 8 && starts(from, "operator")) {
		if (starts(r->p, "()"))
			r->p += 2;
		else
			while (*r->p && strchr("<>=+-*/%!&|^~[],", *r->p))
				r->p++;
	}
	buf_add(&r->out, from, (size_t)(r->p - from));
}

/* "{lambda(int)#1}": without what it takes. */
static void read_braces(struct reader *r)
{
	const char *end = past_group(r->p, '{', '}');
	for (; r->p < end; r->p++) {
		if (*r->p == '(') {
			r->p = past_group(r->p, '(', ')') - 1;
			if (r->p >= end)
				break;
		} else {
			buf_byte(&r->out, (uint8_t)*r->p);
		}
	}
	r->p = end;
}

static void read_list(struct reader *r);

/* One name or type, up to a comma or bracket that ends it. In the outermost one, spaces
 * separate the return type from the name, and the parameters are the end. */
static void read_type(struct reader *r, bool outermost)
{
	size_t start = r->out.len, part = start;
	while (*r->p && (outermost || (*r->p != ',' && *r->p != '>'))) {
		char c = *r->p;
		if (starts(r->p, "::")) {
			r->out.len = part;
			r->p += 2;
		} else if (starts(r->p, ANONYMOUS)) {
			r->p += strlen(ANONYMOUS);
		} else if (c == ' ') {
			r->p++;
			if (outermost && *r->p != '<')
				r->out.len = start;
			else if (!outermost && r->out.len > start)
				buf_byte(&r->out, ' ');
			part = r->out.len;
		} else if (c == '<') {
			read_list(r);
		} else if (c == '{') {
			read_braces(r);
		} else if (c == '(') {
			const char *end = past_group(r->p, '(', ')');
			bool cast = r->out.len == part && (digit(*end) || *end == '-');
			if (outermost && r->out.len > start && !starts(end, "::"))
				return;
			if (!cast && !starts(end, "::"))
				buf_add(&r->out, "()", 2);
			r->p = end;
		} else if (digit(c)) {
			read_number(r);
		} else if (word_char(c)) {
			read_word(r);
		} else {
			buf_byte(&r->out, (uint8_t)c);
			r->p++;
		}
	}
	trim(&r->out, start);
}

static const char *past_list(const char *s)
{
	unsigned depth = 0;
	while (*s) {
		if (*s == '(') {
			s = past_group(s, '(', ')');
			continue;
		}
		depth += *s == '<';
		if (*s++ == '>' && !--depth)
			return s;
	}
	return s;
}

/* A template list, with as many arguments as there is room for. */
static void read_list(struct reader *r)
{
	const char *end = past_list(r->p);
	size_t start = r->out.len, limit = MAX_LIST >> r->depth;
	if (limit < MIN_LIST)
		limit = MIN_LIST;
	if (r->depth == MAX_DEPTH) {
		r->p = end;
		buf_add(&r->out, "<…>", strlen("<…>"));
		return;
	}
	r->depth++;
	r->p++;
	buf_byte(&r->out, '<');
	while (*r->p && *r->p != '>') {
		size_t before = r->out.len;
		if (before > start + 1)
			buf_add(&r->out, ", ", 2);
		while (*r->p == ' ')
			r->p++;
		const char *at = r->p;
		read_type(r, false);
		if (r->out.len - start > limit && before > start + 1) {
			r->out.len = before;
			buf_add(&r->out, ", …", strlen(", …"));
			if (end > r->p)
				r->p = end - (end[-1] == '>');
			break;
		}
		if (*r->p == ',')
			r->p++;
		else if (r->p == at && *r->p && *r->p != '>')
			r->p++; /* always goes on */
	}
	if (*r->p == '>')
		r->p++;
	buf_byte(&r->out, '>');
	r->depth--;
}

static void copy_cut(char *ret, size_t size, const char *text, size_t len)
{
	static const char dots[] = "…";
	if (len < size) {
		memcpy(ret, text, len);
		ret[len] = 0;
		return;
	}
	size_t room = size > sizeof(dots) ? size - sizeof(dots) : 0;
	while (room && ((unsigned char)text[room] & 0xc0) == 0x80)
		room--; /* not within a character */
	memcpy(ret, text, room);
	if (size > sizeof(dots))
		memcpy(ret + room, dots, sizeof(dots));
	else
		ret[0] = 0;
}

void kernel_name_short(char *ret, size_t size, const char *name)
{
	struct reader r = {.p = name};
	bool plain = !kernel_name_known(name) || (name[0] == '_' && name[1] == 'Z');
	if (!plain)
		read_type(&r, true);
	if (r.out.len)
		copy_cut(ret, size, (const char *)r.out.data, r.out.len);
	else
		copy_cut(ret, size, name, strlen(name));
	buf_free(&r.out);
}

const char *copy_kind_name(uint8_t kind)
{
	static const char *const names[] = {
		"copy",
		"copy host to device",
		"copy device to host",
		"copy host to array",
		"copy array to host",
		"copy array to array",
		"copy array to device",
		"copy device to array",
		"copy device to device",
		"copy host to host",
		"copy device to other device",
	};
	return names[kind < sizeof(names) / sizeof(names[0]) ? kind : 0];
}
