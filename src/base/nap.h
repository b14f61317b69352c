/* nap.h - sleep that others can end for good: who joins a thread does not wait for its pauses. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct nap {
	pthread_mutex_t lock;
	pthread_cond_t woken;
	bool ended;
};

void nap_init(struct nap *n);
void nap_free(struct nap *n);

/* Sleeps, or returns at once when naps have ended. */
void nap_for(struct nap *n, uint64_t ns);
/* From now on nobody sleeps. */
void nap_end(struct nap *n);
