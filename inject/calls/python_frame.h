/* python_frame.h - which of its frames an interpreter runs, from 3.12 on. */
#pragma once

#include <stdint.h>

/* Once python_api_version() has said which it is. */
void python_frame_begin(void);

/* Of the calling thread, which has the interpreter's lock: a number that no other frame has while
 * this one is there. 0: not known in this build. */
uint64_t python_frame_now(void);
