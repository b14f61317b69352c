/* elves_rest.c - files that nobody asks for rest: they are open no more, here and where they are
 * read, and what is known of them stays. An open file keeps its room on the disk when it is
 * deleted, and its file system from being unmounted. */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "pipeline/pipeline_impl.h"
#include "pipeline/stacks.h"

#define LOOK_EVERY   10000000000ULL
#define UNASKED_NS   60000000000ULL
#define REST_AT_ONCE 64
#define KNOWN_MOST   1024 /* files that may rest before those are looked for that are of no use */

static bool is_awake(const struct open_elf *o)
{
	return namer_is_open(&o->file) || namer_is_open(&o->debug);
}

/* ---- rest ---- */

static void rest(struct pipeline *p, const size_t *elves, size_t n)
{
	struct named_file **files = xcalloc(2 * n + 1, sizeof(*files));
	for (size_t i = 0; i < n; i++) {
		files[2 * i] = &p->elves.data[elves[i]].file;
		files[2 * i + 1] = &p->elves.data[elves[i]].debug;
	}
	namer_rest(p, files, 2 * n);
	for (size_t i = 0; i < n; i++) {
		struct open_elf *o = &p->elves.data[elves[i]];
		namer_close(&o->debug);
		o->debug_tried = false;
	}
	free(files);
}

/* Those that were asked for last before a question of this number, or before this time. */
static void rest_before(struct pipeline *p, uint64_t question, uint64_t ns, size_t most)
{
	VEC(size_t) elves = {0};
	for (size_t i = 0; i < p->elves.len && elves.len < most; i++) {
		const struct open_elf *o = &p->elves.data[i];
		if (is_awake(o) && (o->asked < question || o->asked_ns < ns))
			*vec_push(&elves) = i;
	}
	if (elves.len)
		rest(p, elves.data, elves.len);
	vec_free(&elves);
}

static void rest_most(struct pipeline *p, size_t most)
{
	size_t n = 0;
	uint64_t *asked = xcalloc(p->elves.len + 1, sizeof(*asked));
	for (size_t i = 0; i < p->elves.len; i++)
		if (is_awake(&p->elves.data[i]))
			asked[n++] = p->elves.data[i].asked;
	uint64_t since = n > most ? forget_since(asked, n, most / 2) : 0;
	free(asked);
	if (!since)
		return;
	if (!p->forgets)
		frames_name_all(p);
	rest_before(p, since, 0, SIZE_MAX);
}

static void close_tables_before(struct pipeline *p, uint64_t ns)
{
	for (size_t i = 0; i < p->tables.len; i++) {
		struct table_file *t = &p->tables.data[i];
		if (t->fd < 0 || t->told_ns >= ns)
			continue;
		close(t->fd);
		t->fd = -1;
	}
}

/* ---- what is of no use ---- */

/* 1 for each that a place is in, or a table is of. */
static uint8_t *elves_in_use(const struct pipeline *p)
{
	uint8_t *used = xcalloc(p->elves.len + 1, 1);
	frames_mark_elves(p, used);
	for (size_t i = 0; i < p->tables.len; i++)
		if (p->tables.data[i].elf)
			used[p->tables.data[i].elf - 1] = 1;
	return used;
}

static void delete_if(struct map64 *map, uint64_t key, uint64_t value)
{
	uint64_t found;
	if (map64_get(map, key, &found) && found == value)
		map64_del(map, key);
}

static void forget_elf(struct pipeline *p, size_t i)
{
	struct open_elf *o = &p->elves.data[i];
	uint64_t ids[] = {o->identity.device, o->identity.inode};
	delete_if(&p->elf_of, hash_bytes(&o->identity, sizeof(o->identity)), i);
	delete_if(&p->elf_of_file, hash_bytes(ids, sizeof(ids)), i);
	namer_close(&o->file);
	namer_close(&o->debug);
	*o = (struct open_elf){.file.fd = -1, .debug.fd = -1};
	*vec_push(&p->free_elves) = (uint32_t)i;
}

/* Each takes some kilobytes, and a host may run ever new files for weeks. */
static void forget_useless(struct pipeline *p)
{
	if (p->elves.len < KNOWN_MOST || p->free_elves.len)
		return;
	uint8_t *used = elves_in_use(p);
	for (size_t i = 0; i < p->elves.len; i++)
		if (!used[i] && !is_awake(&p->elves.data[i]) && p->elves.data[i].identity.inode)
			forget_elf(p, i);
	free(used);
	if (p->free_elves.len)
		map64_free(&p->elf_of_map);
}

void elves_rest(struct pipeline *p, size_t most)
{
	uint64_t now_ns = p->forgot_ns;
	rest_most(p, most);
	if (!p->forgets || now_ns - p->elves_looked_ns < LOOK_EVERY || now_ns < UNASKED_NS)
		return;
	p->elves_looked_ns = now_ns;
	rest_before(p, 0, now_ns - UNASKED_NS, REST_AT_ONCE);
	close_tables_before(p, now_ns - UNASKED_NS);
	forget_useless(p);
}
