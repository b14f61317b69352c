/* collective_told.c - a wait for a rank as an anomaly: of the process that was waited for, ended,
 * with p 0, for it was found by rule. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "incident/detector_impl.h"

static const char *who(char ret[32], const struct collective_wait *w)
{
	if (w->rank >= 0)
		snprintf(ret, 32, "rank %d", w->rank);
	else
		snprintf(ret, 32, "process %u", w->pid);
	return ret;
}

/* A layer that is not judged has none of its own: it is the process that is told of. */
static enum detect_layer layer_of(struct detector *d, const char *name)
{
	enum detect_layer layer = detect_layer_add(detect_keys_layers(d->known.keys), name);
	return layer == DETECT_LAYERS ? DETECT_HOST : layer;
}

void collective_tell(void *ctx, const struct collective_wait *w)
{
	struct detector *d = ctx;
	char late[32], least[HUMAN_BYTES], most[HUMAN_BYTES];
	if (!d->o.tell)
		return;
	struct anomaly a = {.id = ++d->episodes.last_id,
			    .start_ns = w->start_ns,
			    .end_ns = w->came_ns,
			    .told_ns = w->end_ns,
			    .ended = true,
			    .layer = layer_of(d, w->layer),
			    .pid = w->pid,
			    .gpu = -1,
			    .name = w->name,
			    .score = NAN,
			    .lost_ns = (double)w->least_ns,
			    .windows = 1};
	snprintf(a.layer_name, sizeof(a.layer_name), "%s",
		 detect_layer_name(detect_keys_layers(d->known.keys), a.layer));
	human_ns(least, w->least_ns);
	human_ns(most, w->most_ns);
	bool alike = !strcmp(least, most);
	snprintf(a.why, sizeof(a.why), "%s came last into %.60s: %s waited for it, for %s%s%s",
		 who(late, w), w->name, w->waiters == 1 ? "the other one" : "all others", least,
		 alike ? "" : " to ", alike ? "" : most);
	incidents_told(&d->incidents, &a, w->pid);
	d->o.tell(d->o.tell_ctx, &a);
}
