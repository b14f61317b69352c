/* live_comms.c - a list: communicators are made and destroyed rarely, and asked for more rarely. */
#include "session/live_comms.h"

#include <stdlib.h>

#include "base/map64.h"

struct live_comms *live_comms_new(void)
{
	struct live_comms *c = xcalloc(1, sizeof(*c));
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

void live_comms_free(struct live_comms *c)
{
	if (!c)
		return;
	vec_free(&c->list);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* ---- what comes ---- */

/* Another may lie where one was: when it was made tells them apart. */
static bool is_same(const struct live_comm *c, const struct m_comm *row)
{
	return c->pid == row->pid && c->handle == row->handle && c->start_ns == row->start_ns;
}

static void take_comm(struct live_comms *c, const struct m_comm *row)
{
	size_t i = 0;
	while (i < c->list.len && !is_same(&c->list.data[i], row))
		i++;
	bool known = i < c->list.len;
	if (row->end_ns && known)
		c->list.data[i] = c->list.data[--c->list.len];
	else if (known)
		c->list.data[i].size = row->size;
	else if (!row->end_ns && row->hash && i < LIVE_COMMS)
		*vec_push(&c->list) = (struct live_comm){row->hash, row->handle, row->start_ns,
							 row->pid, row->size};
}

/* Calls may be read after the end of their process was told. */
static bool has_ended(const struct live_series *s, uint32_t pid)
{
	const struct live_process *p = live_series_process(s, pid);
	return p && p->end_ns;
}

static void forget_process(struct live_comms *c, uint32_t pid)
{
	size_t kept = 0;
	for (size_t i = 0; i < c->list.len; i++)
		if (c->list.data[i].pid != pid)
			c->list.data[kept++] = c->list.data[i];
	c->list.len = kept;
}

void live_comms_batch(struct live_comms *c, const struct session_view *v,
		      const struct live_series *s)
{
	const struct feed_batch *b = v->batch;
	if (!b->comms.len && !b->processes.len)
		return;
	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < b->comms.len; i++)
		if (!has_ended(s, b->comms.data[i].pid))
			take_comm(c, &b->comms.data[i]);
	for (size_t i = 0; i < b->processes.len && c->list.len; i++)
		if (b->processes.data[i].end_ns)
			forget_process(c, b->processes.data[i].pid);
	pthread_mutex_unlock(&c->lock);
}

/* ---- what is asked ---- */

bool live_comms_have(struct live_comms *c, const uint64_t *hashes, size_t n)
{
	struct map64 asked = {0};
	uint64_t unused;
	bool ret = false;
	for (size_t i = 0; i < n; i++)
		map64_set(&asked, hashes[i], 1);
	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < c->list.len && !ret; i++)
		ret = map64_get(&asked, c->list.data[i].hash, &unused);
	pthread_mutex_unlock(&c->lock);
	map64_free(&asked);
	return ret;
}

static int by_size(const void *a, const void *b)
{
	const struct live_comm *x = a, *y = b;
	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* A copy, each once. */
static size_t copy_of(struct live_comms *c, uint32_t pid, struct live_comm **ret)
{
	struct map64 seen = {0};
	uint64_t at;
	size_t n = 0;
	pthread_mutex_lock(&c->lock);
	*ret = xcalloc(c->list.len + 1, sizeof(**ret));
	for (size_t i = 0; i < c->list.len; i++) {
		const struct live_comm *from = &c->list.data[i];
		if (pid && from->pid != pid)
			continue;
		if (!map64_get(&seen, from->hash, &at)) {
			at = n++;
			(*ret)[at] = *from;
			map64_set(&seen, from->hash, at);
		} else if ((*ret)[at].size < from->size) {
			(*ret)[at].size = from->size; /* other ranks may not know it yet */
		}
	}
	pthread_mutex_unlock(&c->lock);
	map64_free(&seen);
	return n;
}

size_t live_comms_of(struct live_comms *c, uint32_t pid, uint64_t *ret, size_t most)
{
	struct live_comm *copy;
	size_t n = copy_of(c, pid, &copy);
	qsort(copy, n, sizeof(*copy), by_size);
	n = n < most ? n : most;
	for (size_t i = 0; i < n; i++)
		ret[i] = copy[i].hash;
	free(copy);
	return n;
}
