/* disk_io.c - what processes have disks do: attaches to the kernel's requests, and reads what the
 * programs have summed up. Without requests (a kernel without disks) nothing is told. */
#include <string.h>

#include "base/clock.h"
#include "base/map64.h"
#include "probe/tracer_impl.h"

#define IDLE_ROUNDS 10 /* after so many without a request a process's sums go */

struct known_sums {
	struct disk_key key;
	struct disk_sums last;
	uint32_t idle;
};

/* Of the thread that reads. */
struct disk_reader {
	VEC(struct known_sums) known;
	struct map64 places; /* key -> place in known */
	uint64_t read_ns;
	uint32_t round;
};

void disk_io_choose(struct tracer *t)
{
	struct eacgm_bpf *b = t->bpf;
	struct bpf_program *const programs[] = {
		b->progs.on_request_made,   b->progs.on_request_queued, b->progs.on_request_gone,
		b->progs.on_request_issued, b->progs.on_request_done,
	};
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++)
		bpf_program__set_autoload(programs[i], t->opts.disk_io);
	bpf_map__set_autocreate(b->maps.open_requests, t->opts.disk_io);
	bpf_map__set_autocreate(b->maps.disk_sums, t->opts.disk_io);
}

/* block_io_start is of Linux 6.5; before, who puts a request into a queue made it, mostly. */
int disk_io_start(struct tracer *t, struct err *e)
{
	struct eacgm_bpf *b = t->bpf;
	if (!t->opts.disk_io)
		return 0;
	const struct place places[] = {
		{"block_io_start", b->progs.on_request_made},
		{"block_rq_insert", b->progs.on_request_queued},
		{"block_rq_merge", b->progs.on_request_gone},
		{"block_rq_issue", b->progs.on_request_issued},
		{"block_rq_complete", b->progs.on_request_done},
	};
	int rc = attach_places(t, places, sizeof(places) / sizeof(*places), e);
	if (rc)
		return rc;
	__atomic_store_n(&b->bss->disk_since_ns, monotonic_ns(), __ATOMIC_SEQ_CST);
	return 0;
}

struct disk_reader *disk_reader_new(void)
{
	return xcalloc(1, sizeof(struct disk_reader));
}

void disk_reader_free(struct disk_reader *d)
{
	if (!d)
		return;
	vec_free(&d->known);
	map64_free(&d->places);
	free(d);
}

/* ---- reading ---- */

static uint64_t hash_of(const struct disk_key *key)
{
	return (uint64_t)key->disk << 32 | key->tgid;
}

static struct known_sums *known_of(struct disk_reader *d, const struct disk_key *key)
{
	uint64_t place;
	if (map64_get(&d->places, hash_of(key), &place))
		return &d->known.data[place];
	map64_set(&d->places, hash_of(key), d->known.len);
	struct known_sums *k = vec_push(&d->known);
	k->key = *key;
	return k;
}

/* What has come since it was read last; false: nothing. Leaves it as read. */
static bool since_last(struct known_sums *k, const struct disk_sums *now, uint32_t round,
		       struct disk_sums *ret)
{
	const struct disk_sums *was = &k->last;
	*ret = *now;
	ret->reads -= was->reads;
	ret->writes -= was->writes;
	ret->flushes -= was->flushes;
	ret->read_bytes -= was->read_bytes;
	ret->written_bytes -= was->written_bytes;
	ret->read_ns -= was->read_ns;
	ret->write_ns -= was->write_ns;
	ret->flush_ns -= was->flush_ns;
	ret->queued_ns -= was->queued_ns;
	ret->longest[0] = now->round[round & 1] == round ? now->longest[round & 1] : 0;
	k->last = *now;
	return ret->reads || ret->writes || ret->flushes;
}

static void forget_idle(struct disk_reader *d, int fd)
{
	size_t left = 0;
	for (size_t i = 0; i < d->known.len; i++) {
		struct known_sums *k = &d->known.data[i];
		if (k->idle >= IDLE_ROUNDS && !bpf_map_delete_elem(fd, &k->key))
			continue;
		d->known.data[left++] = *k;
	}
	if (left == d->known.len)
		return;
	d->known.len = left;
	map64_free(&d->places);
	for (size_t i = 0; i < left; i++)
		map64_set(&d->places, hash_of(&d->known.data[i].key), i);
}

/* A sum that grows while it is read has the rest in the next round. */
static void read_sums(struct disk_reader *d, int fd, struct disk_io *row, uint32_t round,
		      void (*visit)(void *ctx, const struct disk_io *row), void *ctx)
{
	struct disk_key key, *previous = NULL;
	struct disk_sums now;
	for (; !bpf_map_get_next_key(fd, previous, &key); previous = &key) {
		if (bpf_map_lookup_elem(fd, &key, &now))
			continue;
		struct known_sums *k = known_of(d, &key);
		bool any = since_last(k, &now, round, &row->sums);
		k->idle = any ? 0 : k->idle + 1;
		row->of = key;
		if (any)
			visit(ctx, row);
	}
}

void tracer_disk_io(struct tracer *t, void (*visit)(void *ctx, const struct disk_io *row),
		    void *ctx)
{
	struct disk_reader *d = t->disk_reader;
	uint64_t begun_ns = __atomic_load_n(&t->bpf->bss->disk_since_ns, __ATOMIC_SEQ_CST);
	if (!t->opts.disk_io || !begun_ns)
		return;
	int fd = bpf_map__fd(t->bpf->maps.disk_sums);
	uint32_t round = d->round++;
	struct disk_io row = {.since_ns = d->read_ns ? d->read_ns : begun_ns};
	__atomic_store_n(&t->bpf->bss->disk_round, d->round, __ATOMIC_SEQ_CST);
	row.until_ns = d->read_ns = monotonic_ns();
	read_sums(d, fd, &row, round, visit, ctx);
	forget_idle(d, fd);
}
