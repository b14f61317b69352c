/* python_calls.h - calls of Python functions: which are open, and what goes into the ring of their
 * thread. Knows nothing of the interpreter. */
#pragma once

#include "calls.h"

/* The calling thread, or NULL where its calls are not recorded: then one is counted, if a call
 * begins. */
struct call_thread *python_thread(bool begins);

/* Whether eacgm wants no more. */
bool python_has_stopped(void);

/* A function is entered, or resumed. frame: its address, which no other call that goes on
 * has (one that was lost to view may have had it); 0 where there is none to be had. */
void python_enter(struct call_thread *t, uint32_t code, uint64_t frame);

/* It returns, yields, or an exception leaves it. One that was entered before anybody looked is
 * nobody's. */
void python_leave(struct call_thread *t, uint32_t code, uint64_t frame);

/* All that is open goes on unseen. */
void python_lose_sight(struct call_thread *t);

/* A new number for a code, once what it is has been told. file: its text is cut. 0: there was no
 * room, which is counted. */
uint32_t python_tell_code(struct call_thread *t, const char *name, const char *file, uint32_t line);

/* Whether the number is this process's own: a child has its parent's from before. */
bool python_code_is_told(uint32_t code);

/* For eacgm. */
void python_tell_state(enum call_python state);
void python_count_yield(void);
void python_count_late(uint32_t threads);
