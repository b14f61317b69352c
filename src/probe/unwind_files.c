/* unwind_files.c - each file once, whoever maps it, by device and inode, size and time of its
 * last change. Rules that no process needs go when there is no room for others. */
#include "probe/unwind_files.h"

#include <bpf/bpf.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
	uint64_t key;
	uint32_t table;
	uint32_t at, words; /* in the pool, while loaded */
	uint32_t refs;
	atomic_bool pending; /* its elf waits to be compiled */
	bool loaded;
	bool evicted; /* had rules, which others needed the room of */
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
	struct map64 by_key;		/* what tells files apart -> index */
	uint32_t nframes;		/* python layouts made so far */
	struct py_frames frames[PY_FRAMES_MAX];
	struct py_layout layouts[PY_FRAMES_MAX];
	size_t to_load; /* files whose rules are to be compiled */
	size_t next_reused;
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
	map64_free(&fs->by_key);
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

/* The kernel maps the same image into all processes. */
static bool open_vdso(struct unwind_file *f)
{
	proc_maps_t own = {0};
	struct err e;
	bool opened = false;
	if (proc_maps_read("/proc", getpid(), &own, &e))
		return false;
	for (size_t i = 0; i < own.len && !opened; i++) {
		const struct proc_map *m = &own.data[i];
		opened = !strcmp(m->path, "[vdso]") &&
			 !elf_file_open_memory(&f->elf, (const void *)m->start, m->end - m->start,
					       &e);
	}
	proc_maps_free(&own);
	return opened;
}

static bool open_mapped(struct unwind_file *f, pid_t pid, const struct proc_map *m)
{
	struct err e;
	int fd = proc_map_open("/proc", pid, m, NULL);
	if (fd < 0)
		return false;
	bool opened = !elf_file_open_fd(&f->elf, fd, m->path, 0, &e);
	close(fd);
	return opened;
}

static void open_file(struct unwind_files *fs, struct unwind_file *f, pid_t pid,
		      const struct proc_map *m)
{
	if (m->inode ? open_mapped(f, pid, m) : open_vdso(f)) {
		find_python(fs, f, m->path);
		fs->to_load++;
		atomic_store(&f->pending, true);
	} else {
		fs->stats.refused++;
	}
}

/* Tells files apart, also when one was rewritten in place; false when it is gone. */
static bool key_of(const struct proc_map *m, pid_t pid, uint64_t *ret)
{
	struct stat st = {0};
	if (m->inode && proc_map_stat("/proc", pid, m, &st))
		return false;
	uint64_t parts[] = {m->device, m->inode, (uint64_t)st.st_size, (uint64_t)st.st_ctim.tv_sec,
			    (uint64_t)st.st_ctim.tv_nsec};
	*ret = hash_bytes(parts, sizeof(parts));
	return true;
}

static void take_rules_back(struct unwind_files *fs, struct unwind_file *f)
{
	struct unwind_table_ref none = {0};
	bpf_map_update_elem(fs->maps.tables, &f->table, &none, BPF_ANY);
	if (f->loaded)
		unwind_pool_give(&fs->pool, f->at, f->words);
	f->loaded = false;
}

/* Room for a file: a new table number, or that of a file that no process maps. */
static struct unwind_file *new_file(struct unwind_files *fs)
{
	if (fs->list.len < UNWIND_TABLES_MAX) {
		struct unwind_file *f = xcalloc(1, sizeof(*f));
		f->table = (uint32_t)fs->list.len;
		*vec_push(&fs->list) = f;
		return f;
	}
	for (size_t i = 0; i < fs->list.len; i++) {
		struct unwind_file *f = fs->list.data[fs->next_reused++ % fs->list.len];
		uint32_t table = f->table;
		if (f->refs || f->elf)
			continue;
		take_rules_back(fs, f);
		map64_del(&fs->by_key, f->key);
		vec_free(&f->shown);
		memset(f, 0, sizeof(*f));
		f->table = table;
		return f;
	}
	return NULL;
}

struct unwind_file *unwind_files_get(struct unwind_files *fs, pid_t pid, const struct proc_map *m)
{
	uint64_t key, index;
	if (!key_of(m, pid, &key))
		return NULL;
	struct unwind_file *f = map64_get(&fs->by_key, key, &index) ? fs->list.data[index] : NULL;
	if (f && f->evicted)
		open_file(fs, f, pid, m); /* its rules went meanwhile */
	if (f) {
		f->evicted = false;
		f->refs++;
		return f;
	}
	f = new_file(fs);
	if (!f) {
		fs->stats.refused++;
		return NULL;
	}
	f->key = key;
	f->refs = 1;
	open_file(fs, f, pid, m);
	map64_set(&fs->by_key, key, f->table);
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
		if (f->refs || !f->loaded)
			continue;
		take_rules_back(fs, f);
		f->evicted = true;
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
	atomic_store(&f->pending, false);
}

bool unwind_file_pending(const struct unwind_file *f)
{
	return atomic_load(&f->pending);
}

bool unwind_files_load(struct unwind_files *fs)
{
	uint64_t start_ns = monotonic_ns();
	size_t next = 0;
	while (fs->to_load && next < fs->list.len && !fs->list.data[next]->elf)
		next++;
	if (!fs->to_load || next == fs->list.len) {
		fs->to_load = 0;
		return false;
	}
	load(fs, fs->list.data[next]);
	fs->to_load--;
	fs->stats.build_ns += monotonic_ns() - start_ns;
	return fs->to_load > 0;
}

void unwind_files_stats(const struct unwind_files *fs, struct unwinder_stats *ret)
{
	*ret = fs->stats;
	ret->words_bytes = fs->pool.used_words * sizeof(uint32_t);
}
