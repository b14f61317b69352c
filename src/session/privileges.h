/* privileges.h - what eacgm keeps of root's rights while it traces, and why. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/sandbox.h"
#include "probe/attach.h"

struct privileges {
	struct sandbox_capability capabilities[16];
	struct sandbox sandbox; /* points to them */
};

/* What is kept here. attaches: libraries are brought into processes that run. */
void privileges_choose(struct privileges *ret, bool attaches, enum attach_method method);

/* Gives up the rest, for good and for all that this process forks from now on. Only while there is
 * one thread. */
int privileges_give_up(bool attaches, enum attach_method method, struct err *e);
