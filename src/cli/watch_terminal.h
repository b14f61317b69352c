/* watch_terminal.h - the terminal of `eacgm watch`: a second screen without a cursor, keys as they
 * are pressed, and everything as it was at the end, however the program ends (but for SIGKILL). */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "cli/watch_screen.h"

/* Whether both sides are terminals that can be drawn on. */
bool watch_terminal_usable(void);

/* The second screen. Once; it is left by itself at exit. */
void watch_terminal_enter(void);
void watch_terminal_leave(void);

/* As it is now: it may change at any time. */
void watch_terminal_size(struct watch_size *ret);

/* Replaces what is shown by lines as watch_render makes them. Does not wait: where the terminal has
 * not taken what was shown before, these are left out. */
void watch_terminal_show(const struct buf *lines, const struct watch_size *size);

/* The next key, 0 when none came within timeout_ms. */
int watch_terminal_key(int timeout_ms);
