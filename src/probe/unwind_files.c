/* unwind_files.c - each file once, whoever maps it, by device and inode. Rules that no process
 * needs go when there is no room for others. */
#include "probe/unwind_files.h"

#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>

#include "base/clock.h"
#include "base/map64.h"
#include "probe/unwind_pool.h"
#include "symbolize/cpython.h"
#include "symbolize/cpython_frames.h"
#include "symbolize/elf_file.h"
#include "symbolize/unwind_cache.h"

#define LAYOUTS_OF_STACKS PY_FRAMES_MAX /* py_layouts: the second half is ours */

/* What the mapping at an offset of the file shows: constant for each file. */
struct shown {
	uint64_t file_offset;
	uint64_t len;
	uint64_t delta; /* address of the mapping - bias */
};

struct unwind_file {
	uint64_t device, inode;
	uint32_t table;
	uint32_t at, words; /* in the pool, while loaded */
	uint32_t refs;
	bool tried;
	bool loaded;
	bool is_vdso;
	bool is_python;
	struct unwind_python python;
	VEC(struct shown) shown;
	struct elf_file *elf; /* until it is loaded */
};

struct unwind_files {
	struct unwinder_maps maps;
	struct unwind_pool pool;
	struct unwind_cache *cache;
	VEC(struct unwind_file *) list; /* by table number */
	struct map64 by_inode;		/* hash of device and inode -> index */
	uint32_t nframes;		/* python layouts made so far */
	struct py_frames frames[PY_FRAMES_MAX];
	struct py_layout layouts[PY_FRAMES_MAX];
	size_t pending; /* files whose rules are to be compiled */
	struct unwinder_stats stats;
};

struct unwind_files *unwind_files_new(const struct unwinder_maps *maps)
{
	struct unwind_files *fs = xcalloc(1, sizeof(*fs));
	fs->maps = *maps;
	unwind_pool_init(&fs->pool, maps->pool);
	fs->cache = unwind_cache_open(NULL, 0);
	return fs;
}

void unwind_files_free(struct unwind_files *fs)
{
	for (size_t i = 0; i < fs->list.len; i++) {
		struct unwind_file *f = fs->list.data[i];
		elf_file_close(f->elf);
		vec_free(&f->shown);
		free(f);
	}
	vec_free(&fs->list);
	map64_free(&fs->by_inode);
	unwind_cache_close(fs->cache);
	unwind_pool_free(&fs->pool);
	free(fs);
}

/* ---- interpreters ---- */

/* The numbers of a build's layouts, the same for equal builds; false when all are taken. */
static bool number_layouts(struct unwind_files *fs, const struct py_frames *frames,
			   const struct py_layout *layout, struct unwind_python *ret)
{
	uint32_t i = 0;
	while (i < fs->nframes && (memcmp(&fs->frames[i], frames, sizeof(*frames)) ||
				   memcmp(&fs->layouts[i], layout, sizeof(*layout))))
		i++;
	if (i == PY_FRAMES_MAX)
		return false;
	ret->frames = i;
	ret->layout = LAYOUTS_OF_STACKS + i;
	if (i < fs->nframes)
		return true;
	fs->frames[i] = *frames;
	fs->layouts[i] = *layout;
	fs->nframes++;
	return !bpf_map_update_elem(fs->maps.py_frames, &ret->frames, frames, BPF_ANY) &&
	       !bpf_map_update_elem(fs->maps.py_layouts, &ret->layout, layout, BPF_ANY);
}

static bool find_layouts(const struct elf_file *elf, const char *path,
			 const struct elf_symbol *runtime, struct py_frames *frames,
			 struct py_layout *layout)
{
	struct err e;
	uint32_t version;
	if (cpython_version(elf, path, &version, &e))
		return false;
	/* the interpreter's own account, where it gives one (3.13) */
	for (size_t len = 2048; len >= 512; len /= 2) {
		const void *image = elf_file_bytes(elf, runtime->address, len);
		if (image && !cpython_frames_from_offsets(image, len, frames, &e) &&
		    !cpython_layout_from_offsets(image, len, layout, &e))
			return true;
	}
	return !cpython_frames(version, frames, &e) && !cpython_layout(version, layout, &e);
}

static void find_python(struct unwind_files *fs, struct unwind_file *f, const char *path)
{
	struct elf_symbol runtime;
	struct py_frames frames;
	struct py_layout layout;
	memset(&frames, 0, sizeof(frames));
	memset(&layout, 0, sizeof(layout));
	if (!cpython_present(f->elf) || !elf_file_find(f->elf, "_PyRuntime", &runtime) ||
	    !find_layouts(f->elf, path, &runtime, &frames, &layout))
		return;
	f->python.runtime = runtime.address;
	f->is_python = cpython_eval_ranges(f->elf, f->python.eval, PY_EVAL_RANGES) > 0 &&
		       number_layouts(fs, &frames, &layout, &f->python);
}

/* ---- files ---- */

static bool open_vdso(struct unwind_file *f, const struct proc_map *m)
{
	struct err e;
	const void *image = (const void *)getauxval(AT_SYSINFO_EHDR); /* the same in all */
	f->is_vdso = true;
	return image && !elf_file_open_memory(&f->elf, image, m->end - m->start, &e);
}

static bool open_elf(struct unwind_files *fs, struct unwind_file *f, pid_t pid,
		     const struct proc_map *m)
{
	char path[4096];
	struct err e;
	if (!m->inode)
		return open_vdso(f, m);
	proc_map_open_path("/proc", pid, m, path, sizeof(path));
	if (elf_file_open(&f->elf, path, &e))
		return false;
	find_python(fs, f, m->path);
	return true;
}

static bool open_file(struct unwind_files *fs, struct unwind_file *f, pid_t pid,
		      const struct proc_map *m)
{
	bool opened = open_elf(fs, f, pid, m);
	fs->pending += opened;
	return opened;
}

struct unwind_file *unwind_files_get(struct unwind_files *fs, pid_t pid, const struct proc_map *m)
{
	uint64_t ids[] = {m->device, m->inode}, index;
	uint64_t key = hash_bytes(ids, sizeof(ids));
	if (map64_get(&fs->by_inode, key, &index)) {
		struct unwind_file *known = fs->list.data[index];
		known->refs++;
		if (!known->elf && !known->loaded && known->tried)
			open_file(fs, known, pid, m); /* its rules went meanwhile */
		return known;
	}
	if (fs->list.len >= UNWIND_TABLES_MAX)
		return NULL;
	struct unwind_file *f = xcalloc(1, sizeof(*f));
	f->device = m->device;
	f->inode = m->inode;
	f->table = (uint32_t)fs->list.len;
	f->refs = 1;
	if (!open_file(fs, f, pid, m))
		fs->stats.refused++;
	map64_set(&fs->by_inode, key, fs->list.len);
	*vec_push(&fs->list) = f;
	return f;
}

void unwind_file_unref(struct unwind_file *f)
{
	f->refs--;
}

bool unwind_file_bias(struct unwind_file *f, const struct proc_map *m, uint64_t *ret)
{
	uint64_t len = m->end - m->start;
	for (size_t i = 0; i < f->shown.len; i++) {
		const struct shown *s = &f->shown.data[i];
		if (s->file_offset == m->file_offset && s->len == len) {
			*ret = m->start - s->delta;
			return true;
		}
	}
	if (!f->elf || !elf_file_bias(f->elf, m->start, m->end, m->file_offset, ret))
		return false;
	*vec_push(&f->shown) = (struct shown){m->file_offset, len, m->start - *ret};
	return true;
}

uint32_t unwind_file_table(const struct unwind_file *f)
{
	return f->table;
}

const struct unwind_python *unwind_file_python(const struct unwind_file *f)
{
	return f->is_python ? &f->python : NULL;
}

/* ---- rules ---- */

/* Takes back the rules of a file that no process maps; false when there is none. */
static bool evict(struct unwind_files *fs)
{
	for (size_t i = 0; i < fs->list.len; i++) {
		struct unwind_file *f = fs->list.data[i];
		struct unwind_table_ref none = {0};
		if (f->refs || !f->loaded)
			continue;
		bpf_map_update_elem(fs->maps.tables, &f->table, &none, BPF_ANY);
		unwind_pool_give(&fs->pool, f->at, f->words);
		f->loaded = false;
		return true;
	}
	return false;
}

static bool install(struct unwind_files *fs, struct unwind_file *f, const struct unwind_table *t)
{
	const struct unwind_table_head *h = (const void *)t->words;
	while (!unwind_pool_put(&fs->pool, t->words, (uint32_t)t->len, &f->at))
		if (!evict(fs))
			return false;
	f->words = (uint32_t)t->len;
	struct unwind_table_ref ref = {
		.text_start = h->text_start,
		.npages = h->npages,
		.pages_at = f->at + h->pages_at,
		.rows_at = f->at + h->rows_at,
		.nrows = h->nrows,
		.rules_at = f->at + h->rules_at,
		.nrules = h->nrules,
	};
	return !bpf_map_update_elem(fs->maps.tables, &f->table, &ref, BPF_ANY);
}

static void load(struct unwind_files *fs, struct unwind_file *f)
{
	struct unwind_table table = {0};
	struct err e;
	bool hit = false;
	int rc = unwind_cache_get(fs->cache, f->elf, &table, &hit, &e);
	if (!rc && install(fs, f, &table)) {
		f->loaded = true;
		fs->stats.files++;
		fs->stats.cached += hit;
	} else if (rc) {
		/* so that the programs try frame pointers: see find_rule in bpf/stack.h */
		struct unwind_table_ref none = {.nrules = 1};
		bpf_map_update_elem(fs->maps.tables, &f->table, &none, BPF_ANY);
		fs->stats.without++;
	} else {
		fs->stats.refused++;
	}
	unwind_table_free(&table);
	elf_file_close(f->elf);
	f->elf = NULL;
	f->tried = true;
}

bool unwind_files_load(struct unwind_files *fs)
{
	uint64_t start_ns = monotonic_ns();
	size_t next = 0;
	while (fs->pending && next < fs->list.len && !fs->list.data[next]->elf)
		next++;
	if (!fs->pending || next == fs->list.len) {
		fs->pending = 0;
		return false;
	}
	load(fs, fs->list.data[next]);
	fs->pending--;
	fs->stats.build_ns += monotonic_ns() - start_ns;
	return fs->pending > 0;
}

void unwind_files_stats(const struct unwind_files *fs, struct unwinder_stats *ret)
{
	*ret = fs->stats;
	ret->words_bytes = fs->pool.used_words * sizeof(uint32_t);
}
