/* expected.h - the files that a command is expected to map, since it did the last time it was
 * traced: they are hooked and probed, and their unwinding rules copied, while it starts, so that it
 * is not held for that when it maps them.
 *
 * Only what an earlier session kept about a file is used (facts_cache.h): nothing is read of files
 * that nobody has mapped, and a file that changed since is dealt with when it is mapped. What the
 * command does not map this time is in no result. Internal to src/probe. */
#pragma once

#include <stdbool.h>

struct expected;
struct tracer;

/* Begins with what was kept of this command; path: of its executable. Where processes cannot be
 * held, or cannot be left out again, nothing is expected. */
void expected_begin(struct tracer *t, const char *path, char *const *command);
/* A small part of the work; true when there is more. */
bool expected_go_on(struct tracer *t);
/* Keeps what was mapped this time. */
void expected_keep(const struct tracer *t);
void expected_free(struct expected *x);
