/* threads.h - the parts of threads.c that gate.c calls, with the registers of vectors kept. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Gives the calling thread a slot, or the struct of those who have none; ret: struct call_thread
 * **.
 */
void threads_begin(void *ret);

/* Makes a file in the folder, in which nothing is recorded yet; threads that were here for an eacgm
 * before begin anew with it. Not of a thread that is at work here. */
void threads_attach(const char *folder);

/* Whether eacgm is there; thread: struct call_thread *. */
void threads_look(void *thread);

/* calls_more_hists; what: struct more_hists *. */
struct more_hists {
	struct call_thread *thread;
	uint32_t first, n;
	bool done;
};
void threads_more_hists(void *what);
