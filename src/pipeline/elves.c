/* elves.c - files that names are looked up in: known once in each of their states, found by what a
 * process has mapped or by the number that the unwinder gave them. elves_rest.c closes those that
 * nobody asks for. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "pipeline/pipeline_impl.h"
#include "pipeline/stacks.h"

#define TABLES_OPEN 128

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
	struct err e;
	size_t index = p->elves.len;
	if (p->free_elves.len)
		index = p->free_elves.data[--p->free_elves.len];
	else
		vec_push(&p->elves);
	struct open_elf *o = &p->elves.data[index];
	*o = (struct open_elf){.identity = *identity, .asked_ns = p->forgot_ns};
	o->is_open = !namer_open(p, fd, vdso_bytes, m->path, &o->file, &o->facts, &e);
	map64_set(&p->elf_of, hash_bytes(identity, sizeof(*identity)), index);
	map64_set(&p->elf_of_file, hash_bytes(ids, sizeof(ids)), index);
	return index;
}

static bool is_state(const struct open_elf *o, const struct elf_identity *identity)
{
	return !memcmp(&o->identity, identity, sizeof(*identity));
}

/* Its index in elves + 1, opened if it is not; takes the descriptor over. */
static size_t elf_of_identity(struct pipeline *p, const struct elf_identity *identity, int fd,
			      const struct proc_map *m)
{
	uint64_t index;
	if (!map64_get(&p->elf_of, hash_bytes(identity, sizeof(*identity)), &index) ||
	    !is_state(&p->elves.data[index], identity))
		index = add_elf(p, identity, fd, m);
	else if (fd >= 0)
		namer_wake(&p->elves.data[index].file, fd);
	return p->elves.data[index].is_open ? index + 1 : 0;
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
	return elf_of_identity(p, &identity, fd, m);
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

void elf_wake(struct pipeline *p, struct open_elf *o)
{
	struct elf_identity identity = {0};
	struct proc_map m = o->asked_at;
	bool tried = o->woken_ns == p->forgot_ns && o->woken_by == o->asked_by;
	if (!namer_rests(&o->file) || !m.inode || tried)
		return;
	o->woken_ns = p->forgot_ns;
	o->woken_by = o->asked_by;
	m.path = o->file.path;
	int fd = find_file(p, o->asked_by, &m, &identity);
	if (fd >= 0 && is_state(o, &identity))
		namer_wake(&o->file, fd);
	else if (fd >= 0)
		close(fd);
	o->asked_ns = p->forgot_ns;
}

static void note_question(struct pipeline *p, struct open_elf *o, uint32_t tgid,
			  const struct proc_map *m)
{
	o->asked = ++p->elf_questions;
	o->asked_ns = p->forgot_ns;
	o->asked_by = tgid;
	o->asked_at = *m;
	o->asked_at.path = NULL;
	if (!p->forgets) /* places get their names at the end: their process may have gone by then
			  */
		elf_wake(p, o);
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
		note_question(p, &p->elves.data[index - 1], tgid, m);
	return index;
}

/* ---- by table ---- */

static void forget_table(struct table_file *t)
{
	if (t->fd >= 0)
		close(t->fd);
	free(t->map.path);
	*t = (struct table_file){.fd = -1};
}

void pipeline_free_tables(struct pipeline *p)
{
	for (size_t i = 0; i < p->tables.len; i++)
		forget_table(&p->tables.data[i]);
	vec_free(&p->tables);
}

/* Of so many files, the last, descriptors are kept; the others have to be found by their names. */
static void close_earlier(struct pipeline *p, uint32_t table)
{
	if (table < TABLES_OPEN)
		return;
	struct table_file *t = &p->tables.data[table - TABLES_OPEN];
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

void pipeline_take_table(struct pipeline *p, const struct message *m)
{
	struct stat st;
	while (p->tables.len <= m->table)
		*vec_push(&p->tables) = (struct table_file){.fd = -1};
	struct table_file *t = &p->tables.data[m->table];
	forget_table(t);
	t->map = m->map;
	t->map.path = xstrdup(m->a);
	t->build_id = hash_bytes(m->b, strlen(m->b));
	if (m->fd >= 0 && !fstat(m->fd, &st))
		identify(&t->map, &st, &t->identity);
	t->fd = m->fd;
	t->told_ns = p->forgot_ns;
	close_earlier(p, m->table);
}

/* Names in what was written over are those of another file. */
static bool is_as_told(const struct table_file *t, const struct open_elf *elf)
{
	const char *build_id = elf->facts.build_id;
	return !t->identity.inode || elf->identity.written_ns == t->identity.written_ns ||
	       elf->identity.changed_ns == t->identity.changed_ns ||
	       (build_id[0] && hash_bytes(build_id, strlen(build_id)) == t->build_id);
}

static size_t open_table(struct pipeline *p, uint32_t tgid, struct table_file *t)
{
	struct elf_identity identity = {0};
	struct stat st;
	int fd = t->fd;
	t->fd = -1;
	if (fd < 0 || fstat(fd, &st))
		return pipeline_elf_index(p, tgid, &t->map);
	identify(&t->map, &st, &identity);
	size_t elf = elf_of_identity(p, &identity, fd, &t->map);
	return elf && is_as_told(t, &p->elves.data[elf - 1]) ? elf : 0;
}

const struct table_file *pipeline_table(const struct pipeline *p, uint32_t table)
{
	return table < p->tables.len && p->tables.data[table].map.path ? &p->tables.data[table]
								       : NULL;
}

size_t pipeline_table_elf(struct pipeline *p, uint32_t tgid, uint32_t table)
{
	if (!pipeline_table(p, table))
		return 0;
	struct table_file *t = &p->tables.data[table];
	if (!t->elf)
		t->elf = (uint32_t)open_table(p, tgid, t);
	if (t->elf)
		note_question(p, &p->elves.data[t->elf - 1], tgid, &t->map);
	return t->elf;
}

/* ---- by process ---- */

struct open_elf *pipeline_elf(struct pipeline *p, uint32_t tgid, const struct proc_map *m)
{
	size_t index = pipeline_elf_index(p, tgid, m);
	return index ? &p->elves.data[index - 1] : NULL;
}
