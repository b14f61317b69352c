/* presence.h - whether the eacgm that has us here is there still. */
#pragma once

#include <stdbool.h>

/* The session's folder, its first len bytes. False where the path is too long, or eacgm has ended
 * already. */
bool presence_set(const char *folder, int len);

bool presence_has_ended(void);
