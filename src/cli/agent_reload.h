/* agent_reload.h - what another file of options changes: what an agent that runs takes over, and
 * what only another session can do. */
#pragma once

#include "cli/options.h"

/* Names of options, "--freeze-files, --budget"; "" where there are none. Both end in a NUL. */
struct agent_changes {
	struct buf taken; /* that a running agent takes over */
	struct buf anew;  /* that ask for another start */
	bool listens;	  /* of these first ones, some say how it serves; or there are files of it,
			   * which may have others' content */
};

/* catalogs_differ: their files have other content. */
void agent_changes_make(struct agent_changes *ret, const struct args *was, const struct args *now,
			bool catalogs_differ);
void agent_changes_free(struct agent_changes *c);

static inline bool agent_changes_any(const struct buf *of)
{
	return of->len > 1;
}
