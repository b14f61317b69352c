/* interrupt.h - Ctrl-C while a file is written: the work ends between two blocks, so that the
 * temporary file is taken away. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* From now on SIGINT, SIGTERM and SIGHUP are taken down, those that are ignored are not. A reader
 * of a pipe that goes away, and a file that may not grow, are errors like a full disk. */
void interrupt_catch(void);

/* Shows progress (a struct progress); false when a signal came. Fits the `progress` of export and
 * merge. */
bool interrupt_go_on(void *progress, uint64_t done, uint64_t total);
