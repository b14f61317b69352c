/* names.c - strings, Python code objects and vtables: from the numbers and addresses
 * that records carry to the recording's strings and codes. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "pipeline/pipeline_impl.h"
#include "pipeline/stacks.h"
#include "symbolize/cpython.h"

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

static void know_code(struct pipeline *p, uint64_t id, uint32_t index)
{
	map64_set(&p->code_at, id, p->code_ids.len);
	*vec_push(&p->code_ids) =
		(struct known_code){.id = id, .index = index, .asked = ++p->code_questions};
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
	map64_free(&p->code_at);
	p->code_ids.len = 0;
	for (size_t i = 0; i < n; i++) {
		struct known_code c = p->code_ids.data[i];
		if (c.asked < since)
			continue;
		map64_set(&p->code_at, c.id, p->code_ids.len);
		*vec_push(&p->code_ids) = c;
	}
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
	struct m_code row = {.line = r->firstlineno};
	if (p->code_rows.len < CODE_ROWS_MOST) {
		row.name = rec_string_z(p->writer, name[0] ? name : "?");
		row.file = rec_string_z(p->writer, file);
	} else { /* a job that makes functions without end */
		p->codes_over++;
		row = (struct m_code){.name = rec_string_z(p->writer, "(more)")};
	}
	/* the same function in other processes, or at another address, is one code */
	char key[sizeof(name) + sizeof(file) + 16];
	int n = snprintf(key, sizeof(key), "%u\n%u\n%u", row.name, row.file, row.line);
	uint64_t same, h = hash_bytes(key, (size_t)n) | 1ULL << 63;
	if (!map64_get(&p->codes, h, &same)) {
		same = put_code(p, &row);
		map64_set(&p->codes, h, same);
	}
	know_code(p, r->id, (uint32_t)same);
	if (!p->forgets) /* no stacks are taken there */
		frames_add_code(p, r, (uint32_t)same);
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
		know_code(p, 0, put_code(p, &unknown));
	}
	struct known_code *c = &p->code_ids.data[at];
	c->asked = ++p->code_questions;
	*ret = c->index;
	return true;
}

/* ---- files ---- */

static bool is_vdso(const struct proc_map *m)
{
	return !m->inode && !strcmp(m->path, "[vdso]");
}

static void identify(const struct proc_map *m, const struct stat *st, struct elf_identity *ret)
{
	*ret = (struct elf_identity){
		.device = m->device,
		.inode = m->inode,
		.size = (uint64_t)st->st_size,
		.changed_ns = timespec_ns(&st->st_ctim),
		.written_ns = timespec_ns(&st->st_mtim),
	};
}

/* This host's file of that name, where the process has ended: if it is still the one that was
 * mapped. A device is not compared: of overlays and btrfs stat knows another. */
static int open_on_host(const struct proc_map *m, struct stat *ret)
{
	char path[32];
	int found = open(m->path, O_PATH | O_CLOEXEC);
	bool same = found >= 0 && !fstat(found, ret) && S_ISREG(ret->st_mode) &&
		    ret->st_ino == m->inode;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	int fd = same ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
	if (found >= 0)
		close(found);
	return fd;
}

/* The mapped file, opened: the process's, or this host's where the process is gone. */
static int find_file(struct pipeline *p, uint32_t tgid, const struct proc_map *m,
		     struct elf_identity *ret)
{
	struct stat st;
	int fd = proc_map_open(p->proc_root, (pid_t)tgid, m, &st);
	if (fd < 0)
		fd = open_on_host(m, &st);
	if (fd >= 0)
		identify(m, &st, ret);
	return fd;
}

static size_t add_elf(struct pipeline *p, const struct elf_identity *identity, int fd,
		      const struct proc_map *m)
{
	uint64_t ids[] = {identity->device, identity->inode};
	uint32_t vdso_bytes = fd < 0 ? (uint32_t)(m->end - m->start) : 0;
	struct open_elf *o = vec_push(&p->elves);
	struct err e;
	o->identity = *identity;
	o->is_open = !namer_open(p, fd, vdso_bytes, m->path, &o->file, &o->facts, &e);
	map64_set(&p->elf_of, hash_bytes(identity, sizeof(*identity)), p->elves.len - 1);
	map64_set(&p->elf_of_file, hash_bytes(ids, sizeof(ids)), p->elves.len - 1);
	return p->elves.len - 1;
}

/* Index in elves + 1 of the file that a process has mapped. */
static size_t elf_of_mapping(struct pipeline *p, uint32_t tgid, const struct proc_map *m)
{
	uint64_t index, ids[] = {m->device, m->inode};
	struct elf_identity identity = {0};
	int fd = is_vdso(m) ? -1 : find_file(p, tgid, m, &identity);
	if (!is_vdso(m) && fd < 0) {
		/* gone: what is known of that file */
		bool known = map64_get(&p->elf_of_file, hash_bytes(ids, sizeof(ids)), &index);
		return known && p->elves.data[index].is_open ? index + 1 : 0;
	}
	if (!map64_get(&p->elf_of, hash_bytes(&identity, sizeof(identity)), &index) ||
	    memcmp(&p->elves.data[index].identity, &identity, sizeof(identity)) != 0)
		index = add_elf(p, &identity, fd, m);
	else if (fd >= 0)
		close(fd);
	return p->elves.data[index].is_open ? index + 1 : 0;
}

/* Whether the file has other bytes than those that were mapped: names in it would be wrong. Where
 * its time of writing was set to one that is still to come, the kernel's own time says. */
static bool was_written_over(struct pipeline *p, uint32_t tgid, const struct proc_map *m,
			     const struct open_elf *elf)
{
	const struct first_seen *seen = pipeline_first_seen(p, tgid, m);
	const struct elf_identity *now = &elf->identity;
	const char *build_id = elf->facts.build_id;
	return seen && now->written_ns > seen->time_ns && now->changed_ns > seen->time_ns &&
	       (!build_id[0] || hash_bytes(build_id, strlen(build_id)) != seen->build_id);
}

size_t pipeline_elf_index(struct pipeline *p, uint32_t tgid, const struct proc_map *m)
{
	uint64_t index, key;
	if (!m->inode && !is_vdso(m))
		return 0;
	uint64_t mapping[] = {pipeline_process_key(p, tgid),
			      m->start,
			      m->end,
			      m->file_offset,
			      m->device,
			      m->inode};
	key = hash_bytes(mapping, sizeof(mapping));
	if (!map64_get(&p->elf_of_map, key, &index)) {
		index = elf_of_mapping(p, tgid, m);
		if (index && was_written_over(p, tgid, m, &p->elves.data[index - 1]))
			index = 0;
		map64_set(&p->elf_of_map, key, index);
	}
	if (index)
		p->elves.data[index - 1].asked = ++p->elf_questions;
	return index;
}

static void close_elf(struct pipeline *p, size_t i)
{
	struct open_elf *o = &p->elves.data[i];
	uint64_t ids[] = {o->identity.device, o->identity.inode}, index;
	uint64_t state = hash_bytes(&o->identity, sizeof(o->identity));
	uint64_t file = hash_bytes(ids, sizeof(ids));
	if (map64_get(&p->elf_of, state, &index) && index == i)
		map64_del(&p->elf_of, state);
	if (map64_get(&p->elf_of_file, file, &index) && index == i)
		map64_del(&p->elf_of_file, file);
	namer_close(&o->file);
	namer_close(&o->debug);
	o->is_open = false;
}

void elves_forget(struct pipeline *p, size_t most)
{
	size_t n = 0;
	uint64_t *asked = xcalloc(p->elves.len + 1, sizeof(*asked));
	for (size_t i = 0; i < p->elves.len; i++)
		if (p->elves.data[i].is_open)
			asked[n++] = p->elves.data[i].asked;
	uint64_t since = n > most ? forget_since(asked, n, most / 2) : 0;
	free(asked);
	if (!since)
		return;
	frames_name_all(p);
	for (size_t i = 0; i < p->elves.len; i++)
		if (p->elves.data[i].is_open && p->elves.data[i].asked < since)
			close_elf(p, i);
	map64_free(&p->elf_of_map);
}

struct open_elf *pipeline_elf(struct pipeline *p, uint32_t tgid, const struct proc_map *m)
{
	size_t index = pipeline_elf_index(p, tgid, m);
	return index ? &p->elves.data[index - 1] : NULL;
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

static char *class_at(struct pipeline *p, uint32_t tgid, uint64_t address)
{
	struct known_process *proc = pipeline_process_of(p, tgid);
	const struct proc_map *m = code_before(pipeline_maps_of(proc), address);
	char *name = NULL;
	uint64_t bias;
	struct open_elf *elf = m ? pipeline_elf(p, tgid, m) : NULL;
	if (!elf ||
	    !elf_segments_bias(&elf->facts.segments, m->start, m->end, m->file_offset, &bias) ||
	    !is_loaded(&elf->facts.segments, address - bias))
		return NULL;
	address -= bias;
	namer_names(p, &elf->file, NAMER_CLASSES, &address, 1, keep_text, &name);
	return name;
}

uint64_t pipeline_vtable(struct pipeline *p, uint32_t tgid, uint64_t address)
{
	if (!address)
		return 0;
	uint64_t string, key = pipeline_process_key(p, tgid) ^ address;
	if (map64_get(&p->vtables, key, &string))
		return string;
	char *name = class_at(p, tgid, address);
	if (!name)
		name = xasprintf("class with vtable 0x%lx", (unsigned long)address);
	string = rec_string_z(p->writer, name);
	free(name);
	map64_set(&p->vtables, key, string);
	return string;
}
