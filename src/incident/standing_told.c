/* standing_told.c - a job that stands still as an anomaly: of a process of it, with p 0, for it was
 * found by rule. No window tells it in time: what makes no calls has none. */
#include <math.h>
#include <stdio.h>

#include "base/human.h"
#include "incident/detector_impl.h"

static struct anomaly *of_process(struct detector *d, uint32_t pid)
{
	for (size_t i = 0; i < d->standing.len; i++)
		if (d->standing.data[i].pid == pid)
			return &d->standing.data[i];
	return NULL;
}

static void tell(struct detector *d, struct anomaly *a, const char *words)
{
	char length[HUMAN_BYTES];
	a->lost_ns = (double)(a->end_ns - a->start_ns);
	snprintf(a->why, sizeof(a->why), "%s for %s", words,
		 human_ns(length, a->end_ns - a->start_ns));
	incidents_told(&d->incidents, a, a->pid);
	d->o.tell(d->o.tell_ctx, a);
}

static void begin(struct detector *d, const struct job_standing *j)
{
	struct anomaly *a = vec_push(&d->standing);
	*a = (struct anomaly){.id = ++d->episodes.last_id,
			      .start_ns = j->since_ns,
			      .end_ns = j->now_ns,
			      .told_ns = j->now_ns,
			      .layer = DETECT_HOST,
			      .pid = j->pid,
			      .gpu = -1,
			      .name = "standing_still",
			      .score = NAN,
			      .windows = 1};
	snprintf(a->layer_name, sizeof(a->layer_name), "%s",
		 detect_layer_name(detect_keys_layers(d->known.keys), a->layer));
	tell(d, a, "it waits, and has made no call");
}

static void end(struct detector *d, struct anomaly *a, uint64_t end_ns)
{
	a->ended = true;
	a->end_ns = end_ns > a->end_ns ? end_ns : a->end_ns;
	tell(d, a, "it waited, and made no call");
	*a = d->standing.data[--d->standing.len];
}

void detector_standing(struct detector *d, const struct job_standing *j)
{
	struct anomaly *known = of_process(d, j->pid);
	if (!d->o.tell)
		return;
	if (known && j->ended)
		end(d, known, j->now_ns);
	else if (!known && !j->ended)
		begin(d, j);
}

void standing_tell_ends(struct detector *d)
{
	while (d->standing.len && d->o.tell)
		end(d, &d->standing.data[0], d->upto_ns);
	vec_free(&d->standing);
}
