/* turned_down.h - which functions a budget has on in bursts alone, as a session's rows say it. Who
 * compares a job with what it did before passes over their calls: how many of them there are says
 * when bursts were. Likewise over the times in which all functions were on. Decides nothing:
 * budget.h does. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "session/session_live.h"

/* Zeroed at first. */
struct turned_down {
	VEC(bool) probes;
	uint32_t len;		  /* that are turned down now */
	VEC(struct m_call) calls; /* the last batch's, without theirs */
	struct feed_batch batch;
};

/* Of a batch. Returns whether others are turned down than before. */
bool turned_down_take(struct turned_down *t, const struct feed_batch *b);

static inline bool turned_down_has(const struct turned_down *t, uint32_t probe)
{
	return t->len && probe < t->probes.len && t->probes.data[probe];
}

/* A batch that was taken, as it would be without functions that are turned down; valid until the
 * next call, and as long as the batch. */
const struct feed_batch *turned_down_without(struct turned_down *t, const struct feed_batch *b);
/* Whether all functions were on at some time since then, because of what had happened: the job was
 * slower for it. */
bool turned_down_was_raised(const struct session_view *v, uint64_t since_ns);
void turned_down_free(struct turned_down *t);
