/* owners.c - a sum for each owner against a share of the time. */
#include "parser/owners.h"

#include "base/clock.h"

#define OWNER_RATIO 0.02 /* of the time since the first look */

static uint64_t spent_by(const struct owners *o, uid_t owner)
{
	uint64_t ns = 0;
	map64_get(&o->spent_ns, owner, &ns);
	return ns;
}

bool owners_may(struct owners *o, uid_t owner)
{
	if (!o->start_ns)
		o->start_ns = monotonic_ns();
	double more_ns = OWNER_RATIO * (double)(monotonic_ns() - o->start_ns);
	return !owner || spent_by(o, owner) < o->most_ns + (uint64_t)more_ns;
}

void owners_spent(struct owners *o, uid_t owner, uint64_t ns)
{
	if (owner)
		map64_set(&o->spent_ns, owner, spent_by(o, owner) + ns);
}

void owners_free(struct owners *o)
{
	map64_free(&o->spent_ns);
}
