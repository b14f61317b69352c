/* saves.h - when checkpoints were saved. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "detect/windows.h"
#include "incident/pieces.h"

struct saves {
	uint64_t window_ns;
	VEC(uint64_t) windows; /* numbers of those in which saving one ended, in order */
	pieces longer;	       /* those that are in several windows */
};

void saves_free(struct saves *s);
void saves_event(struct saves *s, const struct windows_event *e);
/* Whether a row is of a checkpoint's windows, and these are few. */
bool saves_cover(const struct saves *s, const struct feature_row *row);
/* Windows that ended long before have been judged. */
void saves_upto(struct saves *s, uint64_t now_ns);
