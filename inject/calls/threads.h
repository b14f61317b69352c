/* threads.h - the parts of threads.c that gate.c calls, with the registers of vectors kept. */
#pragma once

/* Gives the calling thread a slot, or the struct of those who have none; ret: struct call_thread
 * **.
 */
void threads_begin(void *ret);

/* Whether eacgm is there; thread: struct call_thread *. */
void threads_look(void *thread);
