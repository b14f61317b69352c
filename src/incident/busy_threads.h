/* busy_threads.h - which threads do a process's work: its main thread, and those that have a tenth
 * of its CPU time or more. What others wait for, pools and queues without work, is no time that was
 * lost. From samples of the CPU. Memory: a number for each thread. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/map64.h"
#include "events/rows.h"

struct busy_threads {
	struct map64 of_thread, of_process; /* CPU time, ns; by thread's index and by pid */
	uint32_t samples; /* since both were halved: what was long ago counts less */
};
void busy_threads_free(struct busy_threads *b);
/* A sample of that thread; those of waits are left alone. */
void busy_threads_add(struct busy_threads *b, const struct m_thread *t, const struct m_sample *s);
bool busy_threads_has(const struct busy_threads *b, const struct m_thread *t, uint32_t thread);
