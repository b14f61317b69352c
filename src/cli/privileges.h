/* privileges.h - what eacgm keeps of root's rights while it traces, and why. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/sandbox.h"

/* Gives up the rest, for good and for all that this process forks from now on. attaches: libraries
 * are brought into processes that run. Only while there is one thread. */
int privileges_give_up(bool attaches, struct err *e);

/* What is kept by who attaches: the most. */
const struct sandbox *privileges_kept(void);
