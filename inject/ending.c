/* ending.c - a lock, a condition, and who has said what. It ends nothing itself. */
#include "ending.h"

#include <pthread.h>
#include <time.h>

#define FLUSH_NS 100000000L
#define JOIN_S	 2

static struct {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool ending; /* the process */
	bool ended;  /* the thread has no more to do */
	bool thread_runs;
} end = {.lock = PTHREAD_MUTEX_INITIALIZER};

void ending_open(void)
{
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&end.wake, &attributes);
	pthread_condattr_destroy(&attributes);
}

void ending_close(void)
{
	pthread_cond_destroy(&end.wake);
}

void ending_set_thread(bool runs)
{
	end.thread_runs = runs;
}

bool ending_wait_a_while(void)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += FLUSH_NS;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_nsec -= 1000000000L;
		until.tv_sec++;
	}
	pthread_mutex_lock(&end.lock);
	while (!end.ending && !pthread_cond_timedwait(&end.wake, &end.lock, &until))
		;
	bool ending = end.ending;
	pthread_mutex_unlock(&end.lock);
	return ending;
}

bool ending_thread_is_done(void)
{
	pthread_mutex_lock(&end.lock);
	end.ended = true;
	pthread_cond_broadcast(&end.wake);
	bool ending = end.ending;
	pthread_mutex_unlock(&end.lock);
	return !ending;
}

bool ending_stop_thread(void)
{
	struct timespec until;
	if (!end.thread_runs)
		return true;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += JOIN_S;
	pthread_mutex_lock(&end.lock);
	bool had_ended = end.ended;
	end.ending = true;
	pthread_cond_broadcast(&end.wake);
	while (!end.ended && !pthread_cond_timedwait(&end.wake, &end.lock, &until))
		;
	bool ended = end.ended;
	pthread_mutex_unlock(&end.lock);
	return ended && !had_ended;
}
