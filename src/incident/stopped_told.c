/* stopped_told.c - a process that a signal or a debugger stopped for long, as an anomaly: ended,
 * with p 0, for it was found by rule: no model is asked. It does nothing meanwhile, so that no pace
 * or call tells it in time. */
#include <math.h>
#include <stdio.h>

#include "base/human.h"
#include "incident/detector_impl.h"
#include "wire/waits.h"

#define STOPPED_NS 1000000000ULL

/* A stop takes all threads of a process: its first one is looked at. */
void stopped_tell(struct detector *d, const struct detect_names *n, const struct m_wait *w)
{
	const struct m_thread *t = n->thread(n->ctx, w->thread);
	char length[HUMAN_BYTES];
	if (w->reason != WAIT_STOPPED || w->end_ns - w->start_ns < STOPPED_NS || !d->o.tell || !t ||
	    t->tid != t->pid)
		return;
	struct anomaly a = {.id = ++d->episodes.last_id,
			    .start_ns = w->start_ns,
			    .end_ns = w->end_ns,
			    .told_ns = w->end_ns,
			    .ended = true,
			    .layer = DETECT_HOST,
			    .pid = t->pid,
			    .gpu = -1,
			    .name = "stopped",
			    .score = NAN,
			    .lost_ns = (double)(w->end_ns - w->start_ns),
			    .windows = 1};
	snprintf(a.layer_name, sizeof(a.layer_name), "%s",
		 detect_layer_name(detect_keys_layers(d->known.keys), a.layer));
	human_ns(length, w->end_ns - w->start_ns);
	if (w->rival_pid)
		snprintf(a.why, sizeof(a.why), "%s (%u) stopped it for %s",
			 n->string(n->ctx, w->rival), w->rival_pid, length);
	else
		snprintf(a.why, sizeof(a.why), "a signal or a debugger stopped it for %s", length);
	incidents_told(&d->incidents, &a, t->pid);
	d->o.tell(d->o.tell_ctx, &a);
}
