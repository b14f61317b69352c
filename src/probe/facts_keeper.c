/* facts_keeper.c - a queue and a thread. */
#include "probe/facts_keeper.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "probe/facts_cache.h"

#define WAITING_MOST	   256
#define WAITING_BYTES_MOST ((size_t)64 << 20)
#define LAST_NS		   2000000000ULL /* for what waits at the end */

struct answer {
	int fd;
	struct buf key, bytes;
};

struct facts_keeper {
	struct facts_cache *cache; /* the thread's */
	pthread_t thread;
	bool runs;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t wake;
	VEC(struct answer) waiting;
	size_t waiting_bytes;
	uint64_t stop_ns; /* from then on nothing more is written; 0 = it is to go on */
};

static void answer_free(struct answer *a)
{
	close(a->fd);
	buf_free(&a->key);
	buf_free(&a->bytes);
}

/* With the lock held; false when it is to stop. */
static bool next_answer(struct facts_keeper *k, struct answer *ret)
{
	while (!k->stop_ns && !k->waiting.len)
		pthread_cond_wait(&k->wake, &k->lock);
	if (!k->waiting.len || (k->stop_ns && monotonic_ns() > k->stop_ns))
		return false;
	*ret = k->waiting.data[--k->waiting.len];
	k->waiting_bytes -= ret->bytes.len;
	return true;
}

static void *keep(void *arg)
{
	struct facts_keeper *k = arg;
	struct answer a;
	pthread_mutex_lock(&k->lock);
	while (next_answer(k, &a)) {
		pthread_mutex_unlock(&k->lock);
		facts_cache_store(k->cache, a.fd, &a.key, &a.bytes);
		answer_free(&a);
		pthread_mutex_lock(&k->lock);
	}
	pthread_mutex_unlock(&k->lock);
	return NULL;
}

struct facts_keeper *facts_keeper_new(void)
{
	struct facts_keeper *k = xcalloc(1, sizeof(*k));
	pthread_mutex_init(&k->lock, NULL);
	pthread_cond_init(&k->wake, NULL);
	return k;
}

static void start(struct facts_keeper *k)
{
	k->cache = facts_cache_open(NULL, 0);
	k->runs = !thread_start(&k->thread, keep, k, "eacgm-facts");
}

void facts_keeper_store(struct facts_keeper *k, int fd, struct buf *key, struct buf *answer)
{
	struct answer a = {.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3), .key = *key, .bytes = *answer};
	*key = *answer = (struct buf){0};
	if (!k->cache)
		start(k);
	pthread_mutex_lock(&k->lock);
	bool has_room = k->runs && a.fd >= 0 && a.key.len && k->waiting.len < WAITING_MOST &&
			k->waiting_bytes + a.bytes.len <= WAITING_BYTES_MOST;
	if (has_room) {
		*vec_push(&k->waiting) = a;
		k->waiting_bytes += a.bytes.len;
		pthread_cond_signal(&k->wake);
	}
	pthread_mutex_unlock(&k->lock);
	if (!has_room)
		answer_free(&a);
}

void facts_keeper_free(struct facts_keeper *k)
{
	if (!k)
		return;
	pthread_mutex_lock(&k->lock);
	k->stop_ns = monotonic_ns() + LAST_NS;
	pthread_cond_signal(&k->wake);
	pthread_mutex_unlock(&k->lock);
	if (k->runs)
		pthread_join(k->thread, NULL);
	for (size_t i = 0; i < k->waiting.len; i++)
		answer_free(&k->waiting.data[i]);
	vec_free(&k->waiting);
	facts_cache_close(k->cache);
	pthread_mutex_destroy(&k->lock);
	pthread_cond_destroy(&k->wake);
	free(k);
}
