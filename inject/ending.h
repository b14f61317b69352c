/* ending.h - where the thread that flushes and whoever ends the process meet: one of both ends the
 * recording. */
#pragma once

#include <stdbool.h>

/* Before the thread is there, and when it is not any more. */
void ending_open(void);
void ending_close(void);

/* The thread runs. */
void ending_set_thread(bool runs);

/* Of the thread, between two flushes. True when the process ends. */
bool ending_wait_a_while(void);

/* Of the thread, which has no more to do: whoever ends the process waits for this. True when nobody
 * does. */
bool ending_thread_is_done(void);

/* Of whoever ends the process. True when the thread left the end of recording to us. One that hangs
 * in CUPTI does not keep the process from its end. */
bool ending_stop_thread(void);
