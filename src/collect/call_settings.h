/* call_settings.h - the files through which a session says to its processes how they are to count
 * calls (struct call_settings of wire/call_ring.h): one in each folder that they make theirs in.
 * They can only read it. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "wire/call_ring.h"
#include "wire/ticks.h"

/* Measures the rate for some milliseconds, since it has to be there before the first process is. */
void call_settings_begin(struct call_settings *ret);

/* By a line from ticks to nanoseconds, a the earlier; 0: it cannot be told. */
uint64_t call_settings_rate(const struct ticks_pair *a, const struct ticks_pair *b);

/* Makes a file in a folder. Its descriptor; it goes with the folder. */
int call_settings_make(const struct call_settings *s, int folder_fd, struct err *e);

/* The same as a user: in a folder of somebody whose file system may not answer. */
int call_settings_make_as(const struct call_settings *s, int folder_fd, uid_t uid, struct err *e);

/* Writes a word of the settings there. */
void call_settings_put(int fd, const struct call_settings *s, size_t offset, size_t size);

/* A process that goes on keeps it mapped: its memory is given back, but for the first page. */
void call_settings_close(int fd);
