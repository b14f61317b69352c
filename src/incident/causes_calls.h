/* causes_calls.h - traced calls that became slower, each of them: for the rules of causes.c. No
 * I/O. */
#pragma once

#include "incident/evidence.h"

/* Whether a call's role is one of these; NULL ends them. */
bool causes_has_role(const struct evidence *e, const struct call_growth *c,
		     const char *const *roles);
/* Those calls added up: n and ns, now and usually. */
struct call_growth causes_calls_of(const struct evidence *e,
				   bool (*is)(const struct evidence *e,
					      const struct call_growth *c));

/* By how much they took longer by themselves, ns. Calls of the layers torch and cuda count that are
 * as many as usual; not those that wait for the GPU (reads, synchronization, copies). alike_ns:
 * what the job lost to what makes all calls longer alike, so much of which is theirs. *ret_top, if
 * not NULL: the calls of the function that has most of it; NULL: none has. */
double causes_slow_calls(const struct evidence *e, double alike_ns,
			 const struct call_growth **ret_top);
