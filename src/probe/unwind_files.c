/* unwind_files.c - each file once, whoever maps it, by device and inode, size and time of its
 * last change. Files that are the same, as those of containers are, share their rules. Rules that
 * no process needs go when there is no room for others, and by age where that is asked for. The
 * kernel keeps the memory that they had, for others. */
#include "probe/unwind_files.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map64.h"
#include "parser/owners.h"
#include "parser/parser.h"
#include "probe/facts_cache.h"
#include "probe/facts_keeper.h"
#include "probe/reading.h"
#include "probe/tracer_impl.h"
#include "probe/unwind_facts.h"
#include "probe/unwind_rules.h"
#include "symbolize/elf_file.h"
#include "symbolize/unwind_cache.h"

#define FACTS_MS	  2000
#define OWNER_NS	  30000000000ULL /* of files of one owner other than root, in sum */
#define UNUSED_NS	  60000000000ULL /* until what nobody maps any more goes */
#define AGE_NS		  10000000000ULL
#define FULL_NS		  1000000000ULL
#define TABLE_MS	  20000		/* of its own time; the largest of PyTorch takes a fifth */
#define WHOLE_WORDS	  8192		/* a smaller table is loaded as a whole */
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
	uint32_t refs;
	uint64_t unused_ns;	    /* since when there are none */
	atomic_bool pending;	    /* its elf waits to be compiled */
	struct unwind_rules *rules; /* NULL = none */
	bool evicted;		    /* had rules, which others needed the room of */
	bool is_python;
	struct unwind_python python;
	VEC(struct shown) shown;
	int fd;		       /* until it is loaded; -1 = none */
	bool is_open, is_vdso; /* its rules are to be compiled */
	uid_t owner;
	uint64_t size;
	struct timespec changed;
	struct known_file inode; /* what the kernel's own list of mappings knows it by */
	struct unwind_facts facts;
};

struct unwind_files {
	struct unwinder_maps maps;
	struct unwinder_listener listener;
	bool by_page;
	struct unwind_cache *cache;
	struct facts_cache *facts_cache; /* only read here */
	struct facts_keeper *facts_keeper;
	struct parser *parser;	 /* of facts, for which tasks may be held */
	bool doubtful;		 /* its process has read what is not kept: see reading.c */
	struct parser *compiler; /* of tables */
	struct owners owners;
	struct elf_file *vdso;
	VEC(struct unwind_file *) list; /* by table number */
	struct map64 by_key;		/* what tells files apart -> index */
	uint32_t nframes;		/* python layouts made so far */
	struct py_frames frames[PY_FRAMES_MAX];
	struct py_layout layouts[PY_FRAMES_MAX];
	size_t to_load; /* files whose rules are to be compiled */
	size_t next_reused;
	uint64_t aged_ns;
	VEC(struct unwind_rules *)
	leaving;		/* nobody finds them any more, but may be reading them */
	uint64_t full_until_ns; /* rows found no room: none are tried before */
	struct unwinder_stats stats;
};

static void drop_leaving(struct unwind_files *fs)
{
	for (size_t i = 0; i < fs->leaving.len; i++)
		unwind_rules_give(fs->maps.pool, fs->leaving.data[i]);
	fs->leaving.len = 0;
}

static void give_rules(struct unwind_files *fs, struct unwind_file *f)
{
	struct unwind_rules *r = f->rules;
	f->rules = NULL;
	if (!r || --r->files)
		return;
	unwind_rules_give(fs->maps.pool, r);
}

struct unwind_files *unwind_files_new(const struct unwinder_maps *maps,
				      const struct unwinder_listener *listener,
				      struct parser_host *host, bool by_page)
{
	struct unwind_files *fs = xcalloc(1, sizeof(*fs));
	fs->maps = *maps;
	fs->listener = *listener;
	fs->by_page = by_page;
	fs->owners.most_ns = OWNER_NS;
	fs->parser = parser_new(host, true);
	fs->compiler = parser_new(host, false);
	fs->cache = unwind_cache_open(NULL, 0);
	fs->facts_cache = facts_cache_open(NULL, 0);
	fs->facts_keeper = facts_keeper_new();
	return fs;
}

void unwind_files_free(struct unwind_files *fs)
{
	for (size_t i = 0; i < fs->list.len; i++) {
		struct unwind_file *f = fs->list.data[i];
		if (f->fd >= 0)
			close(f->fd);
		vec_free(&f->shown);
		give_rules(fs, f);
		free(f);
	}
	drop_leaving(fs);
	vec_free(&fs->leaving);
	elf_file_close(fs->vdso);
	parser_free(fs->parser);
	parser_free(fs->compiler);
	owners_free(&fs->owners);
	vec_free(&fs->list);
	map64_free(&fs->by_key);
	unwind_cache_close(fs->cache);
	facts_cache_close(fs->facts_cache);
	facts_keeper_free(fs->facts_keeper);
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

static void take_python(struct unwind_files *fs, struct unwind_file *f)
{
	const struct unwind_facts *facts = &f->facts;
	if (!facts->is_python)
		return;
	f->python.runtime = facts->runtime;
	memcpy(f->python.eval, facts->eval, sizeof(f->python.eval));
	f->is_python = number_layouts(fs, &facts->frames, &facts->layout, &f->python);
}

/* ---- files ---- */

/* What this program has mapped of it. */
static size_t vdso_bytes(void)
{
	proc_maps_t own = {0};
	struct err e;
	size_t len = 0;
	if (proc_code_read("/proc", getpid(), &own, &e))
		return 0;
	for (size_t i = 0; i < own.len; i++)
		if (!strcmp(own.data[i].path, "[vdso]"))
			len = own.data[i].end - own.data[i].start;
	proc_maps_free(&own);
	return len;
}

/* The kernel maps the same image into all processes: it is read here. */
static int read_vdso(struct unwind_files *fs, struct unwind_file *f, struct err *e)
{
	const void *image = (const void *)getauxval(AT_SYSINFO_EHDR);
	size_t len = image ? vdso_bytes() : 0;
	if (!len)
		return err_set(e, ENOENT, "there is none");
	int rc = elf_file_open_memory(&fs->vdso, image, len, e);
	if (rc)
		return rc;
	unwind_facts_of(fs->vdso, "[vdso]", &f->facts);
	f->is_vdso = true;
	return 0;
}

/* Asks a process without rights about an open file; its owner's files have a time in sum. */
static int ask(struct unwind_files *fs, const struct unwind_file *f, unsigned op, const char *path,
	       unsigned timeout_ms, struct buf *ret, struct err *e)
{
	uint64_t start_ns = monotonic_ns();
	if (!owners_may(&fs->owners, f->owner))
		return err_set(e, EBUSY, "files of its owner took too long to read");
	struct parser *p = op == PARSE_UNWIND_TABLE ? fs->compiler : fs->parser;
	int rc = parser_ask(p, op, f->fd, path, strlen(path), timeout_ms, ret, e);
	owners_spent(&fs->owners, f->owner, monotonic_ns() - start_ns);
	if (f->owner) /* it may have been taken over, and would lie about the next file */
		parser_renew(p);
	return rc;
}

static bool take_cached(struct unwind_files *fs, struct unwind_file *f, const struct buf *key)
{
	struct buf answer = {0};
	struct err e;
	bool hit = facts_cache_load(fs->facts_cache, key, &answer) &&
		   !unwind_facts_take(&f->facts, &answer, &e);
	buf_free(&answer);
	fs->stats.facts_cached += hit;
	return hit;
}

static int read_facts(struct unwind_files *fs, struct unwind_file *f, const char *path,
		      struct buf *key, struct err *e)
{
	struct buf answer = {0};
	if (fs->doubtful && key->len)
		parser_renew(fs->parser);
	fs->doubtful = !key->len;
	int rc = ask(fs, f, PARSE_UNWIND_FACTS, path, FACTS_MS, &answer, e);
	if (!rc)
		rc = unwind_facts_take(&f->facts, &answer, e);
	if (!rc) {
		fs->stats.facts_read++;
		facts_keeper_store(fs->facts_keeper, f->fd, key, &answer);
	}
	buf_free(&answer);
	return rc;
}

/* From the cache, or read and kept. */
static int get_facts(struct unwind_files *fs, struct unwind_file *f, const char *path,
		     struct err *e)
{
	struct buf key;
	facts_cache_key(fs->facts_cache, f->fd, PARSE_UNWIND_FACTS, path, strlen(path), &key);
	int rc = take_cached(fs, f, &key) ? 0 : read_facts(fs, f, path, &key, e);
	buf_free(&key);
	return rc;
}

/* Tells files apart, also when one was rewritten in place. A process can map another file between
 * one look and the next: the numbers of both are in it. */
static uint64_t key_of_stat(const struct proc_map *m, const struct stat *st)
{
	uint64_t parts[] = {m->device,
			    m->inode,
			    (uint64_t)st->st_dev,
			    (uint64_t)st->st_ino,
			    (uint64_t)st->st_size,
			    (uint64_t)st->st_ctim.tv_sec,
			    (uint64_t)st->st_ctim.tv_nsec};
	return hash_bytes(parts, sizeof(parts));
}

/* False when the file is gone. */
static bool key_of(const struct proc_map *m, pid_t pid, uint64_t *ret)
{
	struct stat st = {0};
	if (m->inode && proc_map_stat("/proc", pid, m, &st))
		return false;
	*ret = key_of_stat(m, &st);
	return true;
}

static int read_file(struct unwind_files *fs, struct unwind_file *f, pid_t pid,
		     const struct proc_map *m, struct err *e)
{
	struct stat st;
	f->fd = proc_map_open("/proc", pid, m, &st);
	if (f->fd < 0)
		return err_set(e, -f->fd, "cannot be opened");
	f->owner = st.st_uid;
	f->size = (uint64_t)st.st_size;
	f->changed = st.st_ctim;
	int rc = key_of_stat(m, &st) == f->key
			 ? get_facts(fs, f, m->path, e)
			 : err_set(e, ESTALE, "another file is mapped there by now");
	if (rc) {
		close(f->fd);
		f->fd = -1;
	}
	return rc;
}

/* From now on stacks may name it. */
static void tell_table(struct unwind_files *fs, const struct unwind_file *f,
		       const struct proc_map *m)
{
	if (!fs->listener.table)
		return;
	int fd = f->fd >= 0 ? fcntl(f->fd, F_DUPFD_CLOEXEC, 0) : -1;
	fs->listener.table(fs->listener.ctx, f->table, m, f->facts.build_id, fd);
}

/* So that the programs find it in the kernel's own list of mappings; one of more parts than they
 * look at is found in what is published alone. */
static void list_inode(struct unwind_files *fs, struct unwind_file *f, const struct proc_map *m)
{
	const struct elf_segments *s = &f->facts.segments;
	struct unwind_inode inode = {.table = f->table,
				     .changed_sec = f->changed.tv_sec,
				     .changed_nsec = (uint32_t)f->changed.tv_nsec};
	if (s->n > UNWIND_LOADED_MAX)
		return;
	for (uint32_t i = 0; i < s->n; i++)
		inode.loaded[i] = (struct unwind_loaded){
			.file_offset = s->s[i].file_offset,
			.size = s->s[i].size,
			.address = s->s[i].address,
		};
	f->inode = m->inode ? known_file_of(m->device, m->inode) : (struct known_file){0};
	bpf_map_update_elem(fs->maps.inodes, &f->inode, &inode, BPF_ANY);
}

/* Unless the number has gone to a newer one. */
static void unlist_inode(struct unwind_files *fs, const struct unwind_file *f)
{
	struct unwind_inode inode;
	if (!bpf_map_lookup_elem(fs->maps.inodes, &f->inode, &inode) && inode.table == f->table)
		bpf_map_delete_elem(fs->maps.inodes, &f->inode);
}

static void open_file(struct unwind_files *fs, struct unwind_file *f, pid_t pid,
		      const struct proc_map *m)
{
	struct err e;
	f->fd = -1;
	if (m->inode ? read_file(fs, f, pid, m, &e) : read_vdso(fs, f, &e)) {
		fs->stats.refused++;
		return;
	}
	f->is_open = true;
	take_python(fs, f);
	tell_table(fs, f, m);
	list_inode(fs, f, m);
	fs->to_load++;
	atomic_store(&f->pending, true);
}

/* From now on nobody finds its rules. */
static void hide_rules(struct unwind_files *fs, const struct unwind_file *f)
{
	struct unwind_table_ref none = {0};
	bpf_map_update_elem(fs->maps.tables, &f->table, &none, BPF_ANY);
}

static void take_rules_back(struct unwind_files *fs, struct unwind_file *f)
{
	hide_rules(fs, f);
	give_rules(fs, f);
}

/* Room for a file: a new table number, or that of a file that no process maps. */
static struct unwind_file *new_file(struct unwind_files *fs)
{
	if (fs->list.len < UNWIND_TABLES_MAX) {
		struct unwind_file *f = xcalloc(1, sizeof(*f));
		f->table = (uint32_t)fs->list.len;
		f->fd = -1;
		*vec_push(&fs->list) = f;
		return f;
	}
	for (size_t i = 0; i < fs->list.len; i++) {
		struct unwind_file *f = fs->list.data[fs->next_reused++ % fs->list.len];
		uint32_t table = f->table;
		if (f->refs || f->is_open)
			continue;
		take_rules_back(fs, f);
		unlist_inode(fs, f);
		map64_del(&fs->by_key, f->key);
		vec_free(&f->shown);
		memset(f, 0, sizeof(*f));
		f->table = table;
		f->fd = -1;
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

void unwind_file_ref(struct unwind_file *f)
{
	f->refs++;
}

void unwind_file_unref(struct unwind_file *f)
{
	if (!--f->refs)
		f->unused_ns = monotonic_ns();
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
	if (!elf_segments_bias(&f->facts.segments, m->start, m->end, m->file_offset, ret))
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
	if (fs->leaving.len) {
		drop_leaving(fs);
		return true;
	}
	for (size_t i = 0; i < fs->list.len; i++) {
		struct unwind_file *f = fs->list.data[i];
		if (f->refs || !f->rules)
			continue;
		take_rules_back(fs, f);
		f->evicted = true;
		return true;
	}
	return false;
}

/* Programs find a file by its inode too, without a process: one may be walking by these rules. */
static void let_go(struct unwind_files *fs, struct unwind_file *f)
{
	unlist_inode(fs, f);
	hide_rules(fs, f);
	if (!--f->rules->files)
		*vec_push(&fs->leaving) = f->rules;
	f->rules = NULL;
	vec_free(&f->shown);
	f->evicted = true;
	fs->stats.given_back++;
}

void unwind_files_age(struct unwind_files *fs)
{
	uint64_t now_ns = monotonic_ns();
	if (now_ns - fs->aged_ns < AGE_NS)
		return;
	fs->aged_ns = now_ns;
	drop_leaving(fs); /* of ten seconds ago */
	for (size_t i = 0; i < fs->list.len; i++) {
		struct unwind_file *f = fs->list.data[i];
		if (f->refs || !f->rules || now_ns - f->unused_ns < UNUSED_NS)
			continue;
		let_go(fs, f);
	}
}

static bool give_table(struct unwind_files *fs, struct unwind_file *f, struct unwind_rules *r)
{
	r->files++;
	f->rules = r;
	return !bpf_map_update_elem(fs->maps.tables, &f->table, &r->ref, BPF_ANY);
}

/* The file that rows of a table are to come from page by page, or -1. */
static int rows_file(const struct unwind_files *fs, const struct unwind_file *f,
		     const struct unwind_table *t)
{
	if (!fs->by_page || f->is_vdso || t->len <= WHOLE_WORDS)
		return -1;
	char *name = unwind_cache_name_of(f->facts.build_id, f->owner, f->size, f->facts.sum);
	int fd = unwind_cache_file(fs->cache, name, t);
	free(name);
	return fd;
}

static bool install(struct unwind_files *fs, struct unwind_file *f, const struct unwind_table *t)
{
	int fd = rows_file(fs, f, t);
	struct unwind_rules *r;
	while (!(r = unwind_rules_put(fs->maps.pool, t, fd))) {
		if (evict(fs))
			continue;
		if (fd >= 0)
			close(fd);
		return false;
	}
	return give_table(fs, f, r);
}

static void want_page(struct unwind_files *fs, const struct unwind_file *f, uint64_t page)
{
	if (!f->rules || page > UINT32_MAX || unwind_files_are_full(fs) ||
	    !unwind_rules_lack(fs->maps.pool, f->rules, (uint32_t)page))
		return;
	while (!unwind_rules_load(fs->maps.pool, f->rules, (uint32_t)page)) {
		if (evict(fs) && f->rules)
			continue;
		fs->full_until_ns = monotonic_ns() + FULL_NS;
		return;
	}
	fs->stats.pages++;
}

bool unwind_files_are_full(const struct unwind_files *fs)
{
	return fs->full_until_ns && monotonic_ns() < fs->full_until_ns;
}

void unwind_files_want(struct unwind_files *fs, uint32_t table, uint32_t page)
{
	if (table >= fs->list.len)
		return;
	want_page(fs, fs->list.data[table], page);
	/* code that works together is linked together */
	want_page(fs, fs->list.data[table], (uint64_t)page + 1);
	if (page)
		want_page(fs, fs->list.data[table], page - 1);
}

void unwind_files_want_at(struct unwind_files *fs, const struct unwind_file *f, uint64_t address)
{
	if (f->rules && address >= f->rules->ref.text_start)
		want_page(fs, f, (address - f->rules->ref.text_start) >> UNWIND_PAGE_SHIFT);
}

/* The rules of a file that has the same name in the cache on the disk: see unwind_cache.h. */
static struct unwind_rules *rules_of_same(const struct unwind_files *fs,
					  const struct unwind_file *f)
{
	char *name = unwind_cache_name_of(f->facts.build_id, f->owner, f->size, f->facts.sum);
	struct unwind_rules *ret = NULL;
	for (size_t i = 0; i < fs->list.len && name && !ret; i++) {
		const struct unwind_file *o = fs->list.data[i];
		bool same = o->rules && o->owner == f->owner && o->size == f->size &&
			    o->facts.sum == f->facts.sum &&
			    !strcmp(o->facts.build_id, f->facts.build_id);
		ret = same ? o->rules : NULL;
	}
	free(name);
	return ret;
}

/* From the cache, or compiled and kept. */
static int get_table(struct unwind_files *fs, const struct unwind_file *f, struct unwind_table *ret,
		     bool *ret_hit, struct err *e)
{
	struct buf answer = {0};
	if (f->is_vdso)
		return unwind_cache_get(fs->cache, fs->vdso, ret, ret_hit, e);
	char *name = unwind_cache_name_of(f->facts.build_id, f->owner, f->size, f->facts.sum);
	*ret_hit = unwind_cache_load(fs->cache, name, ret);
	int rc = *ret_hit ? 0 : ask(fs, f, PARSE_UNWIND_TABLE, "", TABLE_MS, &answer, e);
	if (!rc && !*ret_hit)
		rc = unwind_table_take(ret, &answer, e);
	if (!rc && !*ret_hit)
		unwind_cache_store(fs->cache, name, ret);
	buf_free(&answer);
	free(name);
	return rc;
}

static void load(struct unwind_files *fs, struct unwind_file *f)
{
	struct unwind_table table = {0};
	struct err e;
	bool hit = false;
	struct unwind_rules *same = rules_of_same(fs, f);
	int rc = same ? 0 : get_table(fs, f, &table, &hit, &e);
	if (!rc && (same ? give_table(fs, f, same) : install(fs, f, &table))) {
		fs->stats.files++;
		fs->stats.cached += hit;
		fs->stats.shared += same != NULL;
	} else if (rc) {
		/* so that the programs try frame pointers: see find_rule in bpf/stack.h */
		struct unwind_table_ref none = {.nrules = 1};
		bpf_map_update_elem(fs->maps.tables, &f->table, &none, BPF_ANY);
		fs->stats.without++;
	} else {
		fs->stats.refused++;
	}
	unwind_table_free(&table);
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	f->is_open = false;
	atomic_store(&f->pending, false);
}

bool unwind_file_pending(const struct unwind_file *f)
{
	return atomic_load(&f->pending);
}

/* Of those whose rules are not there the one that most have mapped; NULL: they all are. */
static struct unwind_file *most_wanted(const struct unwind_files *fs)
{
	struct unwind_file *best = NULL;
	for (size_t i = 0; i < fs->list.len; i++) {
		struct unwind_file *f = fs->list.data[i];
		if (f->is_open && (!best || f->refs > best->refs))
			best = f;
	}
	return best;
}

bool unwind_files_load(struct unwind_files *fs)
{
	uint64_t start_ns = monotonic_ns();
	struct unwind_file *next = fs->to_load ? most_wanted(fs) : NULL;
	if (!next) {
		fs->to_load = 0;
		return false;
	}
	load(fs, next);
	fs->to_load--;
	fs->stats.build_ns += monotonic_ns() - start_ns;
	return fs->to_load > 0;
}

void unwind_files_stats(const struct unwind_files *fs, struct unwinder_stats *ret)
{
	*ret = fs->stats;
	ret->words_bytes = fs->maps.pool->used_words * sizeof(uint32_t);
}
