/* jit_names.c - finds the functions of made code by address, in one pass over what was written. Of
 * functions that lay at one place one after the other, the last counts: when code was at work is
 * not compared. */
#include "symbolize/jit_names.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/map64.h"

#define NAME_MOST 4096 /* bytes of a name that are looked at */

/* jitdump-specification.txt; all in the byte order of the machine */
#define DUMP_MAGIC  0x4a695444u
#define RECORD_LOAD 0
#define RECORD_MOVE 1
struct dump_head {
	uint32_t magic, version, total_size, elf_machine, pad, pid;
	uint64_t timestamp, flags;
};
struct dump_record {
	uint32_t id, total_size;
	uint64_t timestamp;
};
struct dump_load {
	uint32_t pid, tid;
	uint64_t vma, address, size, index;
};
struct dump_move {
	uint32_t pid, tid;
	uint64_t vma, from, to, size, index;
};

struct span {
	const char *text;
	size_t len;
};

struct finding {
	const uint64_t *addresses;
	size_t n;
	struct span *names; /* one for each address; text NULL: none */
};

/* ---- places ---- */

static size_t first_not_below(const struct finding *f, uint64_t address)
{
	size_t low = 0, high = f->n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (f->addresses[middle] < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void take_function(struct finding *f, uint64_t start, uint64_t size, struct span name)
{
	for (size_t i = first_not_below(f, start); i < f->n && f->addresses[i] - start < size; i++)
		f->names[i] = name;
}

/* ---- maps ---- */

static const char *read_hex(const char *p, const char *end, uint64_t *ret)
{
	const char *begin;
	*ret = 0;
	while (p < end && *p == ' ')
		p++;
	if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		p += 2;
	for (begin = p; p < end && p - begin < 16; p++) {
		int digit = *p >= '0' && *p <= '9'		   ? *p - '0'
			    : (*p | 32) >= 'a' && (*p | 32) <= 'f' ? (*p | 32) - 'a' + 10
								   : -1;
		if (digit < 0)
			break;
		*ret = *ret << 4 | (uint64_t)digit;
	}
	return p > begin && p < end && *p == ' ' ? p : NULL;
}

/* "START SIZE name", hexadecimal. */
static void read_line(struct finding *f, const char *p, const char *end)
{
	uint64_t start, size;
	p = read_hex(p, end, &start);
	p = p ? read_hex(p, end, &size) : NULL;
	if (p && end - p > 1)
		take_function(f, start, size, (struct span){p + 1, (size_t)(end - p - 1)});
}

static void read_map(struct finding *f, const uint8_t *data, size_t len)
{
	const char *p = (const char *)data, *end = p + len;
	while (p < end) {
		const char *line_end = memchr(p, '\n', (size_t)(end - p));
		read_line(f, p, line_end ? line_end : end);
		p = line_end ? line_end + 1 : end;
	}
}

/* ---- jitdump ---- */

struct dump {
	struct finding *f;
	struct map64 names; /* code index -> index in list + 1 */
	VEC(struct span) list;
};

static void load(struct dump *d, const uint8_t *data, size_t len)
{
	struct dump_load l;
	if (len <= sizeof(l))
		return;
	memcpy(&l, data, sizeof(l));
	struct span name = {(const char *)data + sizeof(l), 0};
	name.len = strnlen(name.text, len - sizeof(l));
	if (name.len == len - sizeof(l))
		return;
	*vec_push(&d->list) = name;
	map64_set(&d->names, hash_u64(l.index), d->list.len);
	take_function(d->f, l.address, l.size, name);
}

static void move(struct dump *d, const uint8_t *data, size_t len)
{
	struct dump_move m;
	uint64_t at;
	if (len < sizeof(m))
		return;
	memcpy(&m, data, sizeof(m));
	if (d->list.data && map64_get(&d->names, hash_u64(m.index), &at))
		take_function(d->f, m.to, m.size, d->list.data[at - 1]);
}

static void read_dump(struct finding *f, const uint8_t *data, size_t len)
{
	struct dump d = {.f = f};
	struct dump_head head;
	struct dump_record r;
	memcpy(&head, data, sizeof(head));
	size_t at = head.total_size < sizeof(head) ? sizeof(head) : head.total_size;
	for (; at <= len && len - at >= sizeof(r); at += r.total_size) {
		memcpy(&r, data + at, sizeof(r));
		if (r.total_size < sizeof(r) || r.total_size > len - at)
			break; /* still being written */
		const uint8_t *body = data + at + sizeof(r);
		if (r.id == RECORD_LOAD)
			load(&d, body, r.total_size - sizeof(r));
		else if (r.id == RECORD_MOVE)
			move(&d, body, r.total_size - sizeof(r));
	}
	map64_free(&d.names);
	vec_free(&d.list);
}

static bool is_dump(const uint8_t *data, size_t len)
{
	uint32_t magic = 0;
	if (len >= sizeof(struct dump_head))
		memcpy(&magic, data, sizeof(magic));
	return magic == DUMP_MAGIC;
}

/* ---- names ---- */

static bool begins(const struct span *s, const char *with)
{
	size_t len = strlen(with);
	return s->len >= len && !memcmp(s->text, with, len);
}

static void cut_front(struct span *s, size_t bytes)
{
	s->text += bytes;
	s->len -= bytes;
}

static const char *last_of(struct span s, char c)
{
	return s.len ? memrchr(s.text, c, s.len) : NULL;
}

/* Puts what can be shown there; control characters are not. */
static size_t put(char *ret, size_t size, size_t at, const char *text, size_t len)
{
	for (size_t i = 0; i < len && at + 1 < size; i++)
		ret[at++] = (unsigned char)text[i] < 32 || text[i] == 127 ? '?' : text[i];
	return at;
}

/* ":3:4" at the end of a script's name: the column goes. */
static void cut_column(struct span *file)
{
	const char *last = last_of(*file, ':');
	struct span before = {file->text, last ? (size_t)(last - file->text) : 0};
	const char *line = last_of(before, ':');
	if (line && line + 1 < last && strspn(line + 1, "0123456789") >= (size_t)(last - line - 1))
		file->len = before.len;
}

/* V8: "JS:*name file:///folder/x.js:3:4"; what stands before the name says how it was compiled. */
static bool clean_script(struct span s, char *ret, size_t size)
{
	static const char *const kinds[] = {"LazyCompile:", "Function:", "JS:", "Eval:", "Script:"};
	size_t kind = 0, at;
	while (kind < sizeof(kinds) / sizeof(kinds[0]) && !begins(&s, kinds[kind]))
		kind++;
	if (kind == sizeof(kinds) / sizeof(kinds[0]))
		return false;
	cut_front(&s, strlen(kinds[kind]));
	while (s.len && strchr("*~^+-", s.text[0]))
		cut_front(&s, 1);
	const char *space = s.len ? memchr(s.text, ' ', s.len) : NULL;
	struct span name = {s.text, space ? (size_t)(space - s.text) : s.len};
	struct span file = {space ? space + 1 : s.text, space ? s.len - name.len - 1 : 0};
	cut_column(&file);
	const char *slash = last_of(file, '/');
	if (slash)
		cut_front(&file, (size_t)(slash + 1 - file.text));
	at = name.len ? put(ret, size, 0, name.text, name.len)
		      : put(ret, size, 0, "(anonymous)", 11);
	if (file.len) {
		at = put(ret, size, at, " (", 2);
		at = put(ret, size, at, file.text, file.len);
		at = put(ret, size, at, ")", 1);
	}
	ret[at] = 0;
	return true;
}

/* HotSpot: "int Fib.fib(int)"; perf-map-agent: "Lorg/x/Fib;::fib". */
static bool clean_java(struct span s, char *ret, size_t size)
{
	if (!s.text || !s.len)
		return false;
	const char *bracket = memchr(s.text, '(', s.len);
	const char *colons = memmem(s.text, s.len, ";::", 3);
	size_t at;
	if (begins(&s, "L") && colons) {
		at = put(ret, size, 0, s.text + 1, (size_t)(colons - s.text - 1));
		for (size_t i = 0; i < at; i++)
			ret[i] = ret[i] == '/' ? '.' : ret[i];
		at = put(ret, size, at, ".", 1);
		at = put(ret, size, at, colons + 3, s.len - (size_t)(colons + 3 - s.text));
		ret[at] = 0;
		return true;
	}
	struct span before = {s.text, bracket ? (size_t)(bracket - s.text) : 0};
	const char *space = last_of(before, ' ');
	if (!space || s.text[s.len - 1] != ')' || space + 1 == bracket)
		return false;
	at = put(ret, size, 0, space + 1, (size_t)(bracket - space - 1));
	ret[at] = 0;
	return true;
}

void jit_name_clean(const char *name, size_t len, char *ret, size_t size)
{
	struct span s = {name, len < NAME_MOST ? len : NAME_MOST};
	while (s.len && (s.text[s.len - 1] == '\r' || s.text[s.len - 1] == ' '))
		s.len--;
	if (!clean_script(s, ret, size) && !clean_java(s, ret, size))
		ret[put(ret, size, 0, s.text, s.len)] = 0;
}

void jit_names_find(const uint8_t *data, size_t len, const uint64_t *addresses, size_t n,
		    void (*name)(void *ctx, size_t i, const char *text), void *ctx)
{
	struct finding f = {addresses, n, xcalloc(n + 1, sizeof(struct span))};
	char text[JIT_NAME_BYTES];
	if (is_dump(data, len))
		read_dump(&f, data, len);
	else
		read_map(&f, data, len);
	for (size_t i = 0; i < n; i++) {
		if (!f.names[i].text)
			continue;
		jit_name_clean(f.names[i].text, f.names[i].len, text, sizeof(text));
		if (text[0])
			name(ctx, i, text);
	}
	free(f.names);
}
