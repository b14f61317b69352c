/* nap.c - a condition that comes true once. */
#include "base/nap.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"

void nap_init(struct nap *n)
{
	pthread_mutex_init(&n->lock, NULL);
	pthread_cond_init(&n->woken, NULL);
	n->ended = false;
}

void nap_free(struct nap *n)
{
	pthread_cond_destroy(&n->woken);
	pthread_mutex_destroy(&n->lock);
}

void nap_for(struct nap *n, uint64_t ns)
{
	uint64_t until_ns = monotonic_ns() + ns;
	const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
				       .tv_nsec = (long)(until_ns % 1000000000)};
	int rc = 0;
	pthread_mutex_lock(&n->lock);
	while (!n->ended && rc != ETIMEDOUT)
		rc = pthread_cond_clockwait(&n->woken, &n->lock, CLOCK_MONOTONIC, &until);
	pthread_mutex_unlock(&n->lock);
}

void nap_end(struct nap *n)
{
	pthread_mutex_lock(&n->lock);
	n->ended = true;
	pthread_cond_broadcast(&n->woken);
	pthread_mutex_unlock(&n->lock);
}
