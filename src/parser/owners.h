/* owners.h - how long reading the files of an owner has taken: anybody may make a file that is slow
 * to read, and as many as he likes. Root's are read whatever it takes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map64.h"

struct owners {
	uint64_t most_ns;      /* of each, in sum; and a part of the time since the first look */
	uint64_t start_ns;     /* of the first look; 0 = none yet */
	struct map64 spent_ns; /* uid -> */
};

/* Whether another of his files may be read. */
bool owners_may(struct owners *o, uid_t owner);
void owners_spent(struct owners *o, uid_t owner, uint64_t ns);
void owners_free(struct owners *o);
