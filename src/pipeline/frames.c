/* frames.c - one row for each place in code that is met in a stack: native places by file and
 * address, Python's by code object and line, the kernel's by function.
 *
 * What a job can make without end is bounded: of code objects and their tables of lines those go
 * that were not asked for longest, tables are read at a bounded rate. Of a recording all places
 * past some number are one, and counted. Where nothing is kept, places have two generations, with
 * those of stacks: a place that is met again in the next one has a row of its own there. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "pipeline/stacks.h"
#include "symbolize/cpython.h"
#include "symbolize/cpython_frames.h"
#include "symbolize/debug_file.h"
#include "symbolize/debuginfod.h"

#define LINES_MAX_BYTES	 (256u << 10)	/* of one code object's line table */
#define LINES_KEPT_BYTES (16u << 20)	/* of all; where there are more, half of them go */
#define LINES_LIVE_BYTES (4u << 20)	/* the same where nothing is kept */
#define LINES_READ_BYTES (16u << 20)	/* in a second */
#define SERVERS_NS	 30000000000ULL /* all questions to servers together */

/* A code object, by the number that the programs gave it. */
struct py_code {
	uint32_t tgid;
	uint64_t address;
	uint32_t code; /* row of the recording */
	uint32_t first_line;
	uint32_t name, file; /* strings */
	uint32_t version;
	uint64_t id;
	uint64_t asked; /* number of the question that asked for it last */
	bool read;
	uint8_t *lines;
	uint32_t lines_len;
};

struct frames {
	VEC(struct known_frame) list; /* by number - first */
	uint32_t first;		      /* number of the older generation's first */
	uint32_t newer;		      /* the newer one's first number */
	struct map64 by_place; /* of the newer one: hash of what tells frames apart -> number */
	struct map64 code_of;  /* REC_PYCODE id -> index in codes */
	VEC(struct py_code) codes;
	uint64_t questions;
	uint64_t lines_kept, lines_read; /* bytes; the second, since lines_ns */
	uint64_t lines_ns;
	uint64_t lines_left; /* places whose table was not read */
	uint64_t over;	     /* places past those that a recording may have */
};

struct frames *frames_new(void)
{
	return xcalloc(1, sizeof(struct frames));
}

void frames_free(struct frames *f)
{
	for (size_t i = 0; i < f->codes.len; i++)
		free(f->codes.data[i].lines);
	vec_free(&f->codes);
	vec_free(&f->list);
	map64_free(&f->by_place);
	map64_free(&f->code_of);
	free(f);
}

static struct known_frame *frame_at(struct frames *f, uint32_t number)
{
	return &f->list.data[number - f->first];
}

const struct known_frame *frames_get(const struct pipeline *p, uint32_t frame)
{
	return frame_at(p->frames, frame);
}

static uint64_t place_key(uint8_t kind, uint64_t a, uint64_t b)
{
	uint64_t parts[] = {kind, a, b};
	return hash_bytes(parts, sizeof(parts));
}

static uint32_t put_frame(struct pipeline *p, const struct known_frame *frame)
{
	struct frames *f = p->frames;
	uint32_t number = emit_new_frame(p, &frame->row);
	while (f->first + f->list.len <= number)
		vec_push(&f->list);
	*frame_at(f, number) = *frame;
	return number;
}

static uint32_t add_frame(struct pipeline *p, uint64_t key, const struct known_frame *frame)
{
	struct frames *f = p->frames;
	struct known_frame add = *frame;
	uint64_t number;
	if (!p->forgets && f->list.len >= pipeline_stack_bounds(false)->frames) {
		f->over++;
		key = place_key(FRAME_CUT, UINT64_MAX, 0);
		if (map64_get(&f->by_place, key, &number))
			return (uint32_t)number;
		/* stands for all that are too many */
		add = (struct known_frame){.named = true,
					   .row.name = rec_string_z(p->writer, "(more)")};
	}
	add.key = key;
	number = put_frame(p, &add);
	map64_set(&f->by_place, key, number);
	return (uint32_t)number;
}

bool frames_are_full(const struct pipeline *p)
{
	const struct frames *f = p->frames;
	return f->first + f->list.len - f->newer >= pipeline_stack_bounds(p->forgets)->frames;
}

void frames_begin_generation(struct pipeline *p)
{
	struct frames *f = p->frames;
	size_t gone = f->newer - f->first;
	memmove(f->list.data, f->list.data + gone, (f->list.len - gone) * sizeof(*f->list.data));
	f->list.len -= gone;
	f->first = f->newer;
	f->newer = f->first + (uint32_t)f->list.len;
	map64_free(&f->by_place);
	kernel_frames_forget(p->kernel_frames);
}

uint32_t frames_renew(struct pipeline *p, uint32_t frame)
{
	uint64_t number;
	if (frame >= p->frames->newer)
		return frame;
	const struct known_frame known = *frame_at(p->frames, frame);
	return map64_get(&p->frames->by_place, known.key, &number)
		       ? (uint32_t)number
		       : add_frame(p, known.key, &known);
}

void frames_tell_losses(struct pipeline *p)
{
	const struct frames *f = p->frames;
	if (f->over)
		pipeline_loss(p, "frame_full", 0, f->over);
	if (f->lines_left)
		pipeline_loss(p, "python_line", 0, f->lines_left);
}

/* ---- native ---- */

/* A place that ends a stack whose rules are not there yet has no caller that was guessed; it may
 * have one later. */
static uint64_t native_key(uint64_t where, const struct known_frame *frame)
{
	return place_key(FRAME_NATIVE, where,
			 frame->row.address | (frame->row.guessed ? GUESSED_FRAME_BIT : 0));
}

/* at: with GUESSED_FRAME_BIT, as in a stack's record. is_mapped: to execute, as the programs found;
 * where no file is, or none that is known here, the code was made. */
uint32_t frames_of_address(struct pipeline *p, uint32_t tgid, uint64_t at, bool is_mapped)
{
	uint64_t address = at & ~GUESSED_FRAME_BIT;
	struct known_process *process = pipeline_process_of(p, tgid);
	const struct proc_map *m = proc_map_at(pipeline_maps_of(process), address);
	struct known_frame frame = {
		.row = {.kind = FRAME_NATIVE, .address = address, .guessed = at != address}};
	uint64_t bias = 0, number;
	size_t elf = m ? pipeline_elf_index(p, tgid, m) : 0;
	const struct namer_facts *file = elf ? &p->elves.data[elf - 1].facts : NULL;
	if (file && elf_segments_bias(&file->segments, m->start, m->end, m->file_offset, &bias)) {
		frame.elf = (uint32_t)elf;
		frame.row.address = address - bias;
	}
	/* places without a file are told apart by process */
	uint64_t where = elf ? elf : (uint64_t)tgid << 32 | process->generation;
	uint64_t key = native_key(where, &frame);
	if (map64_get(&p->frames->by_place, key, &number))
		return (uint32_t)number;
	frame.named = !frame.elf;
	bool made = is_mapped && (!m || (!elf && m->path[0] != '['));
	frame.jit = made ? jit_process_of(p, tgid) : 0;
	frame.row.library = made ? rec_string_z(p->writer, LIBRARY_OF_MADE_CODE)
				 : pipeline_library_name(p, process, m ? m->path : "");
	if (file) {
		frame.row.build_id = rec_string_z(p->writer, file->build_id);
		frame.row.in_python = file->py_version != 0;
	}
	return add_frame(p, key, &frame);
}

uint32_t frames_of_file(struct pipeline *p, uint32_t tgid, uint64_t at)
{
	uint32_t table = FILE_FRAME_TABLE(at);
	const struct table_file *t = pipeline_table(p, table);
	uint64_t elf = pipeline_table_elf(p, tgid, table), number;
	struct known_frame frame = {
		.row = {.kind = FRAME_NATIVE, .address = FILE_FRAME_AT(at), .guessed = at >> 63},
		.elf = (uint32_t)elf,
		.named = !elf};
	uint64_t key = native_key(elf ? elf : UINT64_MAX - table, &frame);
	if (map64_get(&p->frames->by_place, key, &number))
		return (uint32_t)number;
	frame.row.library =
		pipeline_library_name(p, pipeline_process_of(p, tgid), t ? t->map.path : "");
	if (elf) {
		const struct namer_facts *file = &p->elves.data[elf - 1].facts;
		frame.row.build_id = rec_string_z(p->writer, file->build_id);
		frame.row.in_python = file->py_version != 0;
	}
	return add_frame(p, key, &frame);
}

/* ---- Python ---- */

void frames_add_code(struct pipeline *p, const struct rec_pycode *r, uint32_t code)
{
	struct frames *f = p->frames;
	map64_set(&f->code_of, r->id, f->codes.len);
	*vec_push(&f->codes) = (struct py_code){.id = r->id,
						.asked = ++f->questions,
						.tgid = r->tgid,
						.address = r->code,
						.code = code,
						.first_line = r->firstlineno};
}

static void drop_lines(struct frames *f, struct py_code *c)
{
	f->lines_kept -= c->lines_len;
	free(c->lines);
	c->lines = NULL;
	c->lines_len = 0;
	c->read = false;
}

/* The number of the question from which on half of those were asked that are counted. */
static uint64_t asked_since(const struct frames *f, bool with_lines)
{
	uint64_t *asked = xcalloc(f->codes.len + 1, sizeof(*asked));
	size_t n = 0;
	for (size_t i = 0; i < f->codes.len; i++)
		if (!with_lines || f->codes.data[i].lines)
			asked[n++] = f->codes.data[i].asked;
	uint64_t since = forget_since(asked, n, n / 2);
	free(asked);
	return since;
}

/* As keep_codes of names.c. */
static void keep_codes(struct pipeline *p, uint64_t since, const struct map64 *gone)
{
	struct frames *f = p->frames;
	uint64_t process;
	size_t kept = 0;
	map64_free(&f->code_of);
	for (size_t i = 0; i < f->codes.len; i++) {
		struct py_code *c = &f->codes.data[i];
		if (c->asked < since || map64_get(gone, c->tgid, &process)) {
			drop_lines(f, c);
			continue;
		}
		map64_set(&f->code_of, c->id, kept);
		f->codes.data[kept++] = *c;
	}
	f->codes.len = kept;
}

void frames_forget_codes(struct pipeline *p, size_t most)
{
	if (p->frames->codes.len > most)
		keep_codes(p, asked_since(p->frames, false), &(struct map64){0});
}

void frames_forget_codes_of(struct pipeline *p, const struct map64 *gone)
{
	const struct frames *f = p->frames;
	uint64_t process;
	size_t i = 0;
	while (i < f->codes.len && !map64_get(gone, f->codes.data[i].tgid, &process))
		i++;
	if (i < f->codes.len)
		keep_codes(p, 0, gone);
}

static void forget_lines(struct frames *f)
{
	uint64_t since = asked_since(f, true);
	for (size_t i = 0; i < f->codes.len; i++)
		if (f->codes.data[i].lines && f->codes.data[i].asked < since)
			drop_lines(f, &f->codes.data[i]);
}

/* Whether so many bytes may be read now: a job that runs ever new code of many lines would keep
 * the recording's thread at nothing else. */
static bool may_read_lines(struct frames *f, uint64_t bytes)
{
	uint64_t now_ns = monotonic_ns();
	if (now_ns - f->lines_ns >= 1000000000ULL) {
		f->lines_ns = now_ns;
		f->lines_read = 0;
	}
	if (f->lines_read + bytes > LINES_READ_BYTES) {
		f->lines_left++;
		return false;
	}
	f->lines_read += bytes;
	return true;
}

/* The file of the interpreter that a process runs, until another is opened; or NULL. */
static const struct namer_facts *python_of(struct pipeline *p, uint32_t tgid)
{
	struct known_process *process = pipeline_process_of(p, tgid);
	const proc_maps_t *maps = pipeline_maps_of(process);
	for (size_t i = 0; i < maps->len; i++) {
		const struct proc_map *m = &maps->data[i];
		size_t elf = m->executable && m->inode ? pipeline_elf_index(p, tgid, m) : 0;
		if (elf && p->elves.data[elf - 1].facts.py_version)
			return &p->elves.data[elf - 1].facts;
	}
	return NULL;
}

uint32_t frames_python_version(struct pipeline *p, uint32_t tgid)
{
	const struct namer_facts *python = python_of(p, tgid);
	return python ? python->py_version : 0;
}

/* Copies the line table out of the process, while it lives. */
static void read_lines(struct pipeline *p, struct py_code *c)
{
	struct frames *f = p->frames;
	const struct namer_facts *python = python_of(p, c->tgid);
	uint64_t bytes = 0, len = 0;
	if (f->lines_kept > (p->forgets ? LINES_LIVE_BYTES : LINES_KEPT_BYTES))
		forget_lines(f);
	c->read = true;
	if (!python || !python->has_py_lines)
		return;
	const struct py_lines_layout *l = &python->py_lines;
	c->version = python->py_version;
	if (!pipeline_read_memory(c->tgid, c->address + l->code_lines, &bytes, 8) ||
	    !pipeline_read_memory(c->tgid, bytes + l->bytes_size, &len, 8) || !len ||
	    len > LINES_MAX_BYTES)
		return;
	c->read = may_read_lines(f, len);
	if (!c->read)
		return;
	c->lines = xrealloc(NULL, len, 1);
	c->lines_len = (uint32_t)len;
	f->lines_kept += len;
	if (!pipeline_read_memory(c->tgid, bytes + l->bytes_data, c->lines, len)) {
		drop_lines(f, c);
		c->read = true;
	}
}

static uint32_t line_at(struct pipeline *p, struct py_code *c, uint32_t offset)
{
	c->asked = ++p->frames->questions;
	if (!c->read)
		read_lines(p, c);
	if (!c->lines_len)
		return c->first_line;
	return cpython_line_at(c->version, c->lines, c->lines_len, c->first_line, offset);
}

bool frames_of_python(struct pipeline *p, uint64_t frame, bool force, uint32_t *ret)
{
	struct frames *f = p->frames;
	uint64_t index, number;
	uint32_t id = PYTHON_FRAME_ID(frame);
	struct known_frame known = {.row = {.kind = FRAME_PYTHON}, .named = true};
	uint32_t code = UINT32_MAX, line = 0;
	if (map64_get(&f->code_of, id, &index)) {
		struct py_code *c = &f->codes.data[index];
		code = c->code;
		line = line_at(p, c, PYTHON_FRAME_AT(frame));
	} else if (id && !force) {
		return false; /* 0: the code object could not be read */
	}
	uint64_t key = place_key(FRAME_PYTHON, code, line);
	if (map64_get(&f->by_place, key, &number)) {
		*ret = (uint32_t)number;
		return true;
	}
	if (code != UINT32_MAX) {
		const struct m_code *row = pipeline_code_row(p, code);
		known.is_glue =
			cpython_is_init_cleanup(rec_string_get(p->writer, row->name),
						rec_string_get(p->writer, row->file), row->line);
		known.row.name = row->name;
		known.row.file = row->file;
		known.row.line = line;
	} else {
		known.row.name = rec_string_z(p->writer, "(unknown)");
	}
	*ret = add_frame(p, key, &known);
	return true;
}

/* ---- the kernel ---- */

uint32_t frames_add_kernel(struct pipeline *p, uint64_t start, const char *name,
			   const char *library)
{
	uint64_t key = place_key(FRAME_KERNEL, 0, start), number;
	if (map64_get(&p->frames->by_place, key, &number))
		return (uint32_t)number;
	struct known_frame frame = {
		.named = true,
		.row = {.kind = FRAME_KERNEL,
			.name = rec_string_z(p->writer, name),
			.library = rec_string_z(p->writer, library),
			.address = start},
	};
	return add_frame(p, key, &frame);
}

static uint32_t placeless(struct pipeline *p, enum frame_kind kind, const char *text)
{
	uint32_t name = rec_string_z(p->writer, text);
	uint64_t key = place_key(kind, name, 0), number;
	if (map64_get(&p->frames->by_place, key, &number))
		return (uint32_t)number;
	struct known_frame frame = {.named = true, .row = {.kind = kind, .name = name}};
	return add_frame(p, key, &frame);
}

uint32_t frames_cut(struct pipeline *p, const char *reason)
{
	return placeless(p, FRAME_CUT, reason);
}

uint32_t frames_own(struct pipeline *p)
{
	return placeless(p, FRAME_OWN, "eacgm");
}

/* ---- names ---- */

/* Opens the debug file of a stripped one, or of one that was written over. */
static void open_debug(struct pipeline *p, struct open_elf *elf, int fd, const char *path)
{
	struct namer_facts facts;
	struct err e;
	if (namer_open(p, fd, 0, path, &elf->debug, &facts, &e))
		return;
	if (!facts.has_symtab || strcmp(facts.build_id, elf->facts.build_id) != 0)
		namer_close(&elf->debug);
}

static void find_debug(struct pipeline *p, struct open_elf *elf)
{
	char path[PATH_MAX];
	int fd = elf->debug_tried ? -1 : debug_file_open(elf->facts.build_id, path);
	elf->debug_tried = true;
	if (fd >= 0)
		open_debug(p, elf, fd, path);
}

/* Places of one file that are to be named. */
struct batch {
	struct pipeline *p;
	uint32_t frames[NAMER_BATCH]; /* their numbers */
	uint64_t addresses[NAMER_BATCH];
	size_t n;
};

void frames_set_name(struct pipeline *p, uint32_t frame, const char *name)
{
	struct m_frame *row = &frame_at(p->frames, frame)->row;
	row->name = rec_string_z(p->writer, name);
	emit_changed_row(p, ROW_FRAME, frame, row);
}

static void take_name(void *ctx, size_t i, const char *text)
{
	struct batch *b = ctx;
	frames_set_name(b->p, b->frames[i], text);
}

/* Names what has no name yet. */
static int name_from(struct batch *b, struct named_file *file)
{
	size_t kept = 0;
	for (size_t i = 0; i < b->n; i++) {
		const struct known_frame *frame = frame_at(b->p->frames, b->frames[i]);
		if (frame->row.name)
			continue;
		b->frames[kept] = b->frames[i];
		b->addresses[kept++] = frame->row.address;
	}
	b->n = kept;
	return kept ? namer_names(b->p, file, NAMER_FUNCTIONS, b->addresses, kept, take_name, b)
		    : 0;
}

static void set_named(struct batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		frame_at(b->p->frames, b->frames[i])->named = true;
}

/* By the file that has the most symbols of this one. What a file says that was written over are the
 * names of another: it has none (-ESTALE). Of one that cannot be opened now, nor its debug file,
 * they are asked for again. */
static void name_batch(struct batch *b, struct open_elf *elf)
{
	elf_wake(b->p, elf);
	if (!namer_rests(&elf->file))
		set_named(b);
	if (elf->facts.has_symtab && name_from(b, &elf->file) != -ESTALE)
		return;
	find_debug(b->p, elf);
	if (elf->debug.handle)
		set_named(b);
	name_from(b, &elf->debug);
	if (!elf->facts.has_symtab)
		name_from(b, &elf->file);
}

const char *frames_name(struct pipeline *p, uint32_t frame)
{
	const struct known_frame *known = frame_at(p->frames, frame);
	if (!known->named) {
		struct batch b = {.p = p, .frames = {frame}, .n = 1};
		name_batch(&b, &p->elves.data[known->elf - 1]);
	}
	return rec_string_get(p->writer, frame_at(p->frames, frame)->row.name);
}

/* A place without a name, by its file. */
struct nameless {
	uint32_t elf, frame;
};

static int compare_nameless(const void *a, const void *b)
{
	const struct nameless *x = a, *y = b;
	if (x->elf != y->elf)
		return x->elf < y->elf ? -1 : 1;
	return x->frame < y->frame ? -1 : x->frame > y->frame;
}

/* A place in made code, by who made it. */
struct made {
	uint32_t jit, frame;
	uint64_t address;
};

static int compare_made(const void *a, const void *b)
{
	const struct made *x = a, *y = b;
	if (x->jit != y->jit)
		return x->jit < y->jit ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

static void name_made_code(struct pipeline *p)
{
	VEC(struct made) all = {0};
	for (uint32_t i = 0; i < p->frames->list.len; i++) {
		const struct known_frame *f = &p->frames->list.data[i];
		if (f->jit && !f->row.name)
			*vec_push(&all) =
				(struct made){f->jit, p->frames->first + i, f->row.address};
	}
	if (all.len)
		qsort(all.data, all.len, sizeof(*all.data), compare_made);
	uint32_t *frames = xcalloc(all.len + 1, sizeof(*frames));
	for (size_t i = 0, end; i < all.len; i = end) {
		for (end = i; end < all.len && all.data[end].jit == all.data[i].jit; end++)
			frames[end] = all.data[end].frame;
		jit_name(p, all.data[i].jit, frames + i, end - i);
	}
	free(frames);
	vec_free(&all);
}

void frames_mark_elves(const struct pipeline *p, uint8_t *used)
{
	for (size_t i = 0; i < p->frames->list.len; i++)
		if (p->frames->list.data[i].elf)
			used[p->frames->list.data[i].elf - 1] = 1;
}

void frames_name_all(struct pipeline *p)
{
	VEC(struct nameless) all = {0};
	struct batch *b = xcalloc(1, sizeof(*b));
	b->p = p;
	for (uint32_t i = 0; i < p->frames->list.len; i++)
		if (!p->frames->list.data[i].named)
			*vec_push(&all) = (struct nameless){p->frames->list.data[i].elf,
							    p->frames->first + i};
	if (all.len)
		qsort(all.data, all.len, sizeof(*all.data), compare_nameless);
	for (size_t i = 0; i < all.len; i++) {
		b->frames[b->n++] = all.data[i].frame;
		if (i + 1 < all.len && all.data[i + 1].elf == all.data[i].elf && b->n < NAMER_BATCH)
			continue;
		name_batch(b, &p->elves.data[all.data[i].elf - 1]);
		b->n = 0;
	}
	vec_free(&all);
	free(b);
	name_made_code(p);
}

/* ---- servers ---- */

/* Gives a file its debug file; false: no more is to be asked. */
static bool ask_for(struct pipeline *p, struct open_elf *elf, uint64_t end_ns)
{
	const struct pipeline_servers *s = &p->servers;
	struct err e;
	int fd = debuginfod_find(s->debuginfod, elf->facts.build_id, s->stop_fd, end_ns, &e);
	if (fd >= 0)
		open_debug(p, elf, fd, elf->file.path);
	else if (fd != -ENOENT)
		pipeline_note(p, "debuginfod", e.msg);
	return fd >= 0 || fd == -ENOENT;
}

static bool wants_symbols(const struct open_elf *elf)
{
	return elf->file.handle && elf->facts.build_id[0] && !elf->facts.has_symtab &&
	       !elf->debug.handle;
}

/* 1 for each file that a place is in, and that has no symbols. */
static uint8_t *files_to_ask_for(struct pipeline *p, size_t *ret_n)
{
	uint8_t *wanted = xcalloc(p->elves.len + 1, 1);
	*ret_n = 0;
	for (size_t i = 0; i < p->frames->list.len; i++) {
		uint32_t elf = p->frames->list.data[i].elf;
		if (!elf || wanted[elf - 1] || !wants_symbols(&p->elves.data[elf - 1]))
			continue;
		wanted[elf - 1] = 1;
		++*ret_n;
	}
	return wanted;
}

/* Places have other names by what came: those that were named from .dynsym are named anew. */
static void name_anew(struct pipeline *p, const uint8_t *wanted)
{
	for (size_t i = 0; i < p->frames->list.len; i++) {
		struct known_frame *frame = &p->frames->list.data[i];
		if (!frame->elf || !wanted[frame->elf - 1] ||
		    !p->elves.data[frame->elf - 1].debug.handle)
			continue;
		frame->named = false;
		frame->row.name = 0;
	}
	frames_name_all(p);
}

void frames_ask_servers(struct pipeline *p)
{
	size_t n;
	char said[128];
	if (!p->servers.debuginfod)
		return;
	uint8_t *wanted = files_to_ask_for(p, &n);
	snprintf(said, sizeof(said), "asking debuginfod servers for the symbols of %zu file%s", n,
		 n == 1 ? "" : "s");
	if (n)
		p->servers.say(p->servers.ctx, said);
	uint64_t end_ns = monotonic_ns() + SERVERS_NS;
	bool more = true;
	for (size_t i = 0; i < p->elves.len && more; i++)
		if (wanted[i])
			more = ask_for(p, &p->elves.data[i], end_ns);
	name_anew(p, wanted);
	free(wanted);
}
