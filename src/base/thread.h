/* thread.h - threads that leave the program's signals to others. */
#pragma once

#include <pthread.h>

/* As pthread_create(3), with all signals blocked but those of its own faults. name: what top(1)
 * shows, 15 characters of it. 0, or negative errno. */
int thread_start(pthread_t *ret, void *(*run)(void *ctx), void *ctx, const char *name);
