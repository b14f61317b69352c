/* names.c - strings, Python code objects and vtables: from the numbers and addresses
 * that records carry to the recording's strings and codes. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "pipeline/pipeline_impl.h"
#include "pipeline/stacks.h"
#include "symbolize/cpython.h"

#define PAGE_BYTES     4096
#define UNREAD_MOST    4096 /* pages in which there are no strings to be read */
#define TEXTS_MOST     (1 << 16)
#define CODE_ROWS_MOST (1 << 18) /* functions by name, file and line */

void pipeline_add_string(struct pipeline *p, const struct rec_string *r)
{
	char utf8[STRING_BYTES * 4];
	uint32_t len = r->len > STRING_BYTES ? STRING_BYTES : r->len;
	const char *s = (const char *)r->bytes;
	if (r->fetch == FETCH_PYSTRING) {
		len = (uint32_t)cpython_string_utf8(r->bytes, len, r->pystate, utf8, sizeof(utf8));
		s = utf8;
	}
	map64_set(&p->strings, r->id, rec_string(p->writer, s, len));
}

static bool is_of_file(const struct pipeline *p, uint32_t tgid, uint64_t address)
{
	proc_maps_t maps = {0};
	struct err ignored;
	const struct proc_map *m = NULL;
	if (!proc_maps_read(p->proc_root, (pid_t)tgid, &maps, &ignored))
		m = proc_map_at(&maps, address);
	bool yes = m && m->inode;
	proc_maps_free(&maps);
	return yes;
}

/* The bytes before a NUL; -1: unreadable, or longer than the kernel's own strings. */
static ssize_t read_cstring(uint32_t tgid, uint64_t address, char ret[STRING_BYTES])
{
	size_t len = 0;
	while (len < STRING_BYTES - 1) {
		size_t n = PAGE_BYTES - (address + len) % PAGE_BYTES;
		if (n > STRING_BYTES - 1 - len)
			n = STRING_BYTES - 1 - len;
		if (!pipeline_read_memory(tgid, address + len, ret + len, n))
			return -1;
		const char *end = memchr(ret + len, 0, n);
		if (end)
			return end - ret;
		len += n;
	}
	return -1;
}

/* What is not in memory and of a file is as in the file: the program has not changed it. Reading it
 * brings the page into the process, and later calls find it there. */
void pipeline_read_string(struct pipeline *p, const struct rec_unread *r)
{
	char s[STRING_BYTES];
	uint64_t ignored, page = pipeline_process_key(p, r->tgid) ^ r->address / PAGE_BYTES;
	if (map64_get(&p->unread, page, &ignored) || p->unread.len >= UNREAD_MOST)
		return;
	ssize_t len =
		is_of_file(p, r->tgid, r->address) ? read_cstring(r->tgid, r->address, s) : -1;
	if (len >= 0)
		map64_set(&p->strings, r->id, rec_string(p->writer, s, (uint32_t)len));
	else
		map64_set(&p->unread, page, 1);
}

bool pipeline_string(const struct pipeline *p, uint64_t id, uint64_t *ret)
{
	if (!id) { /* could not be read: the call's flags say so */
		*ret = 0;
		return true;
	}
	return map64_get(&p->strings, id, ret);
}

bool pipeline_prefixed_string(struct pipeline *p, const char *prefix, uint64_t id, uint64_t *ret)
{
	uint64_t text;
	if (!id)
		return pipeline_string(p, id, ret);
	if (!pipeline_string(p, id, &text))
		return false;
	const char *name = rec_string_get(p->writer, (uint32_t)text);
	char *full = xasprintf("%s%s", prefix, name[0] ? name : "."); /* from . import x */
	*ret = rec_string_z(p->writer, full);
	free(full);
	return true;
}

/* Calls take their texts; those that stay are of calls that were lost, and the oldest go. */
void pipeline_add_text(struct pipeline *p, const struct rec_text *r)
{
	uint32_t len = r->len < TEXT_BYTES ? r->len : TEXT_BYTES - 1;
	if (p->texts[0].len >= TEXTS_MOST) {
		map64_free(&p->texts[1]);
		p->texts[1] = p->texts[0];
		p->texts[0] = (struct map64){0};
	}
	map64_set(&p->texts[0], r->id, rec_string(p->writer, (const char *)r->bytes, len));
}

bool pipeline_text(const struct pipeline *p, uint64_t id, uint64_t *ret)
{
	if (!id)
		return pipeline_string(p, id, ret);
	return map64_get(&p->texts[0], id, ret) || map64_get(&p->texts[1], id, ret);
}

void pipeline_forget_text(struct pipeline *p, uint64_t id)
{
	map64_del(&p->texts[0], id);
	map64_del(&p->texts[1], id);
}

static uint32_t put_code(struct pipeline *p, const struct m_code *row)
{
	uint32_t index = emit_new_code(p, row);
	while (p->code_rows.len <= index)
		vec_push(&p->code_rows);
	p->code_rows.data[index] = *row;
	return index;
}

static void know_code(struct pipeline *p, uint64_t id, uint32_t index, uint32_t tgid)
{
	map64_set(&p->code_at, id, p->code_ids.len);
	*vec_push(&p->code_ids) = (struct known_code){
		.id = id, .index = index, .tgid = tgid, .asked = ++p->code_questions};
}

/* Those that were asked for since, of processes that are not gone. */
static void keep_codes(struct pipeline *p, uint64_t since, const struct map64 *gone)
{
	size_t n = p->code_ids.len;
	uint64_t process;
	map64_free(&p->code_at);
	p->code_ids.len = 0;
	for (size_t i = 0; i < n; i++) {
		struct known_code c = p->code_ids.data[i];
		if (c.asked < since || map64_get(gone, c.tgid, &process))
			continue;
		map64_set(&p->code_at, c.id, p->code_ids.len);
		*vec_push(&p->code_ids) = c;
	}
}

void codes_forget_of(struct pipeline *p, const struct map64 *gone)
{
	uint64_t process;
	size_t i = 0;
	while (i < p->code_ids.len && !map64_get(gone, p->code_ids.data[i].tgid, &process))
		i++;
	if (i < p->code_ids.len) /* most processes that end had none */
		keep_codes(p, 0, gone);
}

void codes_forget(struct pipeline *p, size_t most)
{
	size_t n = p->code_ids.len;
	if (n <= most)
		return;
	uint64_t *asked = xcalloc(n, sizeof(*asked));
	for (size_t i = 0; i < n; i++)
		asked[i] = p->code_ids.data[i].asked;
	uint64_t since = forget_since(asked, n, most / 2);
	free(asked);
	keep_codes(p, since, &(struct map64){0});
}

/* The code of a function; the same function in other processes, or at another address, is one. */
static uint32_t code_of(struct pipeline *p, uint32_t name, uint32_t file, uint32_t line)
{
	struct m_code row = {.name = name, .file = file, .line = line};
	char key[64];
	if (p->code_rows.len >= CODE_ROWS_MOST) { /* a job that makes functions without end */
		p->codes_over++;
		row = (struct m_code){.name = rec_string_z(p->writer, "(more)")};
	}
	int n = snprintf(key, sizeof(key), "%u\n%u\n%u", row.name, row.file, row.line);
	uint64_t same, h = hash_bytes(key, (size_t)n) | 1ULL << 63;
	if (!map64_get(&p->codes, h, &same)) {
		same = put_code(p, &row);
		map64_set(&p->codes, h, same);
	}
	return (uint32_t)same;
}

void pipeline_add_code(struct pipeline *p, const struct rec_pycode *r)
{
	char name[sizeof(r->name) * 4], file[sizeof(r->file) * 4];
	uint32_t name_len = r->name_len, file_len = r->file_len;
	if (name_len > sizeof(r->name))
		name_len = sizeof(r->name);
	if (file_len > sizeof(r->file))
		file_len = sizeof(r->file);
	cpython_string_utf8(r->name, name_len, r->name_state, name, sizeof(name));
	cpython_string_utf8(r->file, file_len, r->file_state, file, sizeof(file));
	uint32_t code = code_of(p, rec_string_z(p->writer, name[0] ? name : "?"),
				rec_string_z(p->writer, file), r->firstlineno);
	know_code(p, r->id, code, r->tgid);
	frames_add_code(p, r, code);
}

void pipeline_told_code(struct pipeline *p, const struct told_code *c)
{
	uint32_t name = c->name_len ? rec_string(p->writer, c->name, c->name_len)
				    : rec_string_z(p->writer, "?");
	know_code(p, c->id, code_of(p, name, rec_string(p->writer, c->file, c->file_len), c->line),
		  0);
}

void codes_tell_losses(struct pipeline *p)
{
	if (p->codes_over)
		pipeline_loss(p, "code_full", 0, p->codes_over);
}

const struct m_code *pipeline_code_row(const struct pipeline *p, uint32_t code)
{
	return &p->code_rows.data[code];
}

/* Id 0 is a frame that could not be read: its code is called "?". */
bool pipeline_code(struct pipeline *p, uint64_t id, uint64_t *ret)
{
	uint64_t at;
	if (!map64_get(&p->code_at, id, &at)) {
		if (id)
			return false;
		struct m_code unknown = {.name = rec_string_z(p->writer, "?")};
		at = p->code_ids.len;
		know_code(p, 0, put_code(p, &unknown), 0);
	}
	struct known_code *c = &p->code_ids.data[at];
	c->asked = ++p->code_questions;
	*ret = c->index;
	return true;
}

/* ---- vtables ---- */

const struct proc_map *pipeline_map_named(struct pipeline *p, uint32_t tgid, const char *prefix)
{
	const proc_maps_t *maps = pipeline_maps_of(pipeline_process_of(p, tgid));
	for (size_t i = maps->len; i-- > 0;) {
		const char *slash = strrchr(maps->data[i].path, '/');
		if (slash && !strncmp(slash + 1, prefix, strlen(prefix)))
			return &maps->data[i];
	}
	return NULL;
}

/* The code of a file lies before its data, of which no mapping is known here. */
static const struct proc_map *code_before(const proc_maps_t *maps, uint64_t address)
{
	for (size_t i = maps->len; i-- > 0;)
		if (maps->data[i].start <= address && maps->data[i].inode)
			return &maps->data[i];
	return NULL;
}

/* Whole pages are mapped of what is loaded. */
static bool is_loaded(const struct elf_segments *of, uint64_t address)
{
	for (uint32_t i = 0; i < of->n; i++) {
		const struct elf_segment *s = &of->s[i];
		if (s->address <= address && address < ((s->address + s->size + 4095) & ~4095ULL))
			return true;
	}
	return false;
}

static void keep_text(void *ctx, size_t i, const char *text)
{
	(void)i;
	*(char **)ctx = xstrdup(text);
}

static char *class_in(struct pipeline *p, uint32_t tgid, const proc_maps_t *maps, uint64_t address)
{
	const struct proc_map *m = code_before(maps, address);
	char *name = NULL;
	uint64_t bias;
	struct open_elf *elf = m ? pipeline_elf(p, tgid, m) : NULL;
	if (!elf ||
	    !elf_segments_bias(&elf->facts.segments, m->start, m->end, m->file_offset, &bias) ||
	    !is_loaded(&elf->facts.segments, address - bias))
		return NULL;
	address -= bias;
	elf_wake(p, elf);
	namer_names(p, &elf->file, NAMER_CLASSES, &address, 1, keep_text, &name);
	return name;
}

/* What the process was seen to have mapped may be from before it loaded the library: on a busy host
 * that is told late. */
static char *class_at(struct pipeline *p, uint32_t tgid, uint64_t address)
{
	proc_maps_t now = {0};
	struct err e;
	char *name = class_in(p, tgid, pipeline_maps_of(pipeline_process_of(p, tgid)), address);
	if (!name && !proc_code_read(p->proc_root, (pid_t)tgid, &now, &e))
		name = class_in(p, tgid, &now, address);
	proc_maps_free(&now);
	return name;
}

static uint64_t keep_class(struct pipeline *p, uint64_t key, char *name)
{
	uint64_t string = rec_string_z(p->writer, name);
	free(name);
	map64_set(&p->vtables, key, string);
	return string;
}

bool pipeline_vtable(struct pipeline *p, uint32_t tgid, uint64_t address, bool force, uint64_t *ret)
{
	const struct known_process *process = pipeline_process_of(p, tgid);
	uint64_t key = pipeline_process_key(p, tgid) ^ address;
	/* what was not found is looked for again when the process has other mappings */
	uint64_t missed = hash_u64(key ^ (uintptr_t)process->maps);
	*ret = 0;
	if (!address || map64_get(&p->vtables, key, ret) || map64_get(&p->vtables, missed, ret))
		return true;
	char *name = class_at(p, tgid, address);
	if (name)
		*ret = keep_class(p, key, name);
	else if (force)
		*ret = keep_class(p, missed,
				  xasprintf("class with vtable 0x%lx", (unsigned long)address));
	return name || force;
}
