/* unpacker.c - a context of zstd in a key of the thread. */
#include "events/unpacker.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void unpacker_free(void *d)
{
	ZSTD_freeDCtx(d);
}

static void make_key(void)
{
	if (pthread_key_create(&key, unpacker_free))
		abort(); /* the first keys of a program are always there */
}

ZSTD_DCtx *unpacker(void)
{
	pthread_once(&once, make_key);
	ZSTD_DCtx *d = pthread_getspecific(key);
	if (!d) {
		d = ZSTD_createDCtx();
		pthread_setspecific(key, d);
	}
	return d;
}
