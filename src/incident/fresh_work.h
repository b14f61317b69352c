/* fresh_work.h - windows in which a process began something new. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "detect/windows.h"

struct fresh_work {
	uint64_t window_ns;
	uint32_t keys_known;	  /* of the model: keys with higher numbers are new */
	VEC(uint64_t) first_seen; /* of each new key */
	/* Process and window to events of keys that are new; few have any. The second: of those
	 * told before window `from` was. */
	struct map64 counts[2];
	uint64_t from;
};

void fresh_work_free(struct fresh_work *f);
void fresh_work_event(struct fresh_work *f, const struct windows_event *e);
bool fresh_work_covers(const struct fresh_work *f, const struct feature_row *row);
/* Windows that ended before have been judged. */
void fresh_work_upto(struct fresh_work *f, uint64_t now_ns);
