/* flight_recent.c - holds a trigger against the files that there are lately. What a file has needs
 * no other, whosever it is. What none has makes one, but for two bounds: of the same, one each
 * least_apart_ns; and in that time no more than may stay, lest a file drive out one as young.
 * Knows nothing of rows, and locks nothing: flight.c. */
#include <stdio.h>
#include <string.h>

#include "session/flight_impl.h"

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static struct flight_recent *place_of(struct flight_recents *r, uint64_t number)
{
	return &r->list[number % FLIGHT_RECENT];
}

struct flight_recent *flight_recents_at(struct flight_recents *r, uint64_t number)
{
	struct flight_recent *ret = place_of(r, number);
	return number && ret->number == number ? ret : NULL;
}

/* The first number that is there still. */
static uint64_t first_of(const struct flight_recents *r)
{
	return r->last > FLIGHT_RECENT ? r->last - FLIGHT_RECENT + 1 : 1;
}

static bool holds(const struct flight_recent *f, uint64_t time_ns)
{
	return f->stage != FLIGHT_FAILED && f->from_ns <= time_ns && time_ns <= f->until_ns;
}

/* Of the files whose time a moment lies in the one whose own is nearest, or NULL. */
static struct flight_recent *find_holder(struct flight_recents *r, uint64_t time_ns)
{
	struct flight_recent *ret = NULL;
	for (uint64_t number = r->last; number && number >= first_of(r); number--) {
		struct flight_recent *f = place_of(r, number);
		if (holds(f, time_ns) &&
		    (!ret || apart(f->at_ns, time_ns) < apart(ret->at_ns, time_ns)))
			ret = f;
	}
	return ret;
}

/* The latest moment of those of the same that are too near, or NULL. */
static struct flight_recent *find_same(struct flight_recents *r, const struct flight_options *o,
				       uint64_t time_ns, const char *of)
{
	struct flight_recent *ret = NULL;
	for (uint64_t number = r->last; number && number >= first_of(r); number--) {
		struct flight_recent *f = place_of(r, number);
		if (!strcmp(f->of, of) && apart(f->at_ns, time_ns) < o->least_apart_ns &&
		    (!ret || f->at_ns > ret->at_ns))
			ret = f;
	}
	return ret;
}

/* How many are near, *ret_first_ns: the first moment of them. */
static uint32_t count_near(struct flight_recents *r, const struct flight_options *o,
			   uint64_t time_ns, uint64_t *ret_first_ns)
{
	uint32_t ret = 0;
	*ret_first_ns = UINT64_MAX;
	for (uint64_t number = r->last; number && number >= first_of(r); number--) {
		const struct flight_recent *f = place_of(r, number);
		if (apart(f->at_ns, time_ns) >= o->least_apart_ns)
			continue;
		ret++;
		*ret_first_ns = f->at_ns < *ret_first_ns ? f->at_ns : *ret_first_ns;
	}
	return ret;
}

static bool is_held_off(struct flight_recents *r, const struct flight_options *o, uint64_t time_ns,
			const char *of, struct flight_verdict *ret)
{
	const struct flight_recent *same = find_same(r, o, time_ns, of);
	uint32_t most =
		o->most_files && o->most_files < FLIGHT_RECENT ? o->most_files : FLIGHT_RECENT;
	uint64_t first_ns;
	if (same) {
		ret->hold = FLIGHT_HOLD_SAME;
		ret->near_ns = same->at_ns;
		ret->next_ns = same->at_ns + o->least_apart_ns;
		memcpy(ret->file, same->file, sizeof(ret->file));
		return true;
	}
	if (count_near(r, o, time_ns, &first_ns) < most)
		return false;
	ret->hold = FLIGHT_HOLD_MANY;
	ret->next_ns = first_ns + o->least_apart_ns;
	return true;
}

void flight_recents_judge(struct flight_recents *r, const struct flight_options *o,
			  uint64_t time_ns, const char *of, struct flight_verdict *ret,
			  uint64_t *ret_number)
{
	const struct flight_recent *holder = find_holder(r, time_ns);
	*ret = (struct flight_verdict){.time_ns = time_ns};
	*ret_number = holder ? holder->number : 0;
	if (holder) {
		ret->taken = holder->stage == FLIGHT_PENDING ? FLIGHT_JOINS : FLIGHT_LATE;
		memcpy(ret->file, holder->file, sizeof(ret->file));
	} else if (is_held_off(r, o, time_ns, of, ret)) {
		ret->taken = FLIGHT_HELD_OFF;
	} else {
		ret->taken = FLIGHT_OWN;
	}
}

uint64_t flight_recents_add(struct flight_recents *r, const struct flight_options *o,
			    uint64_t time_ns, const char *of)
{
	struct flight_recent *f = &r->list[++r->last % FLIGHT_RECENT];
	*f = (struct flight_recent){.number = r->last,
				    .at_ns = time_ns,
				    .from_ns = time_ns > o->before_ns ? time_ns - o->before_ns : 0,
				    .until_ns = time_ns + o->after_ns};
	snprintf(f->of, sizeof(f->of), "%s", of);
	return r->last;
}

void flight_recents_span(const struct flight_recents *r, struct flight_found *file)
{
	for (size_t i = 0; i < FLIGHT_RECENT; i++) {
		const struct flight_recent *f = &r->list[i];
		if (f->stage != FLIGHT_THERE || strcmp(f->file, file->name) != 0)
			continue;
		file->from_ns = f->from_ns;
		file->until_ns = f->until_ns;
	}
}
