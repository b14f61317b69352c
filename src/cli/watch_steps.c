/* watch_steps.c - counts the calls that mark steps. */
#include "cli/watch_steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/watch_learn.h"
#include "wire/event.h"

#define SECOND_NS     1000000000ULL
#define FIRST_LOOK_NS (3 * SECOND_NS) /* each look is twice as long as the one before it */
#define LAST_LOOK_NS  (60 * SECOND_NS)
#define REST_NS	      (20 * SECOND_NS) /* between looks that found nothing */
#define GONE_NS	      (10 * SECOND_NS) /* no step for so long, or 20 usual ones: */
#define GONE_STEPS    20
#define GONE_CALLS    5000 /* and the job goes on: its steps look otherwise now */

struct watch_steps {
	struct watch_learn *learn; /* NULL: not looking */
	uint64_t look_end_ns;
	uint64_t look_ns; /* how long this look is */
	uint64_t rest_ns; /* until then none begins */
	bool looked;	  /* at least once to the end */
	bool found;
	struct watch_marker marker;
	uint32_t thread;      /* index, UINT32_MAX not met yet */
	uint32_t count;	      /* of markers since the last step's end */
	uint64_t other_calls; /* of the process since then */
	uint64_t end_ns;      /* of the last step, 0 = none yet */
	uint64_t steps;
	uint64_t last_ns;
	struct watch_history history;
};

struct watch_steps *watch_steps_new(void)
{
	struct watch_steps *w = xcalloc(1, sizeof(*w));
	w->look_ns = FIRST_LOOK_NS;
	w->thread = UINT32_MAX;
	return w;
}

void watch_steps_free(struct watch_steps *w)
{
	watch_learn_free(w->learn);
	free(w);
}

/* ---- looking for the marker ---- */

static void take_marker(struct watch_steps *w, const struct watch_marker *m)
{
	bool same = w->found && m->pid == w->marker.pid && m->tid == w->marker.tid &&
		    m->probe == w->marker.probe && m->name == w->marker.name;
	if (!same) { /* other steps: their times are not comparable */
		w->history = (struct watch_history){0};
		w->end_ns = w->count = 0;
		w->thread = UINT32_MAX;
	}
	w->marker = *m;
	w->found = true;
	w->other_calls = 0;
	w->look_ns = FIRST_LOOK_NS;
}

static void end_look(struct watch_steps *w, uint64_t now_ns)
{
	struct watch_marker m;
	if (watch_learn_find(w->learn, &m)) {
		take_marker(w, &m);
	} else {
		w->look_ns = w->look_ns * 2 < LAST_LOOK_NS ? w->look_ns * 2 : LAST_LOOK_NS;
		w->rest_ns = w->look_ns > LAST_LOOK_NS / 2 ? now_ns + REST_NS : now_ns;
		w->other_calls = 0;
	}
	watch_learn_free(w->learn);
	w->learn = NULL;
	w->looked = true;
}

static bool wants_look(const struct watch_steps *w, uint64_t now_ns)
{
	if (now_ns < w->rest_ns)
		return false;
	if (!w->found)
		return true;
	uint64_t patience_ns = GONE_STEPS * w->marker.usual_ns;
	patience_ns = patience_ns > GONE_NS ? patience_ns : GONE_NS;
	return w->other_calls > GONE_CALLS && w->end_ns && now_ns > w->end_ns + patience_ns;
}

static void look(struct watch_steps *w, const struct session_view *v, uint64_t now_ns)
{
	if (!w->learn && wants_look(w, now_ns) && v->batch->calls.len) {
		w->learn = watch_learn_new();
		w->look_end_ns = now_ns + w->look_ns;
		if (!w->learn)
			w->rest_ns = now_ns + REST_NS;
	}
	if (w->learn && (watch_learn_take(w->learn, v) || now_ns > w->look_end_ns))
		end_look(w, now_ns);
}

/* ---- counting ---- */

static void end_step(struct watch_steps *w, uint64_t ns)
{
	w->count = 0;
	w->other_calls = 0;
	if (w->end_ns && ns > w->end_ns) {
		w->last_ns = ns - w->end_ns;
		w->steps++;
		watch_history_add(&w->history, (double)w->last_ns);
	}
	w->end_ns = ns;
}

static bool is_marker(const struct watch_steps *w, const struct session_view *v,
		      const struct m_call *c)
{
	const struct watch_marker *m = &w->marker;
	if (c->probe != m->probe || c->flags & CALL_NESTED)
		return false;
	if (!m->name)
		return true;
	const struct m_probe *probe = v->names->probe(v->names->ctx, c->probe);
	return probe->name_arg >= 0 && probe->name_arg < MODEL_MAX_ARGS &&
	       c->args[probe->name_arg] == m->name;
}

static void count(struct watch_steps *w, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->calls.len; i++) {
		const struct m_call *c = &v->batch->calls.data[i];
		if (w->thread == UINT32_MAX) {
			const struct m_thread *t = v->names->thread(v->names->ctx, c->thread);
			if (!t || t->pid != w->marker.pid || t->tid != w->marker.tid)
				continue;
			w->thread = c->thread;
		}
		w->other_calls++;
		if (c->thread == w->thread && is_marker(w, v, c) &&
		    ++w->count >= w->marker.per_step)
			end_step(w, c->start_ns + c->dur_ns);
	}
	for (size_t i = 0; i < v->batch->threads_gone.len; i++)
		if (v->batch->threads_gone.data[i] == w->thread)
			w->found = false;
}

void watch_steps_batch(struct watch_steps *w, const struct session_view *v, uint64_t now_ns)
{
	if (w->found)
		count(w, v);
	look(w, v, now_ns);
}

/* ---- what is shown ---- */

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return x < y ? -1 : x > y;
}

void watch_steps_get(const struct watch_steps *w, struct watch_steps_view *ret)
{
	float sorted[WATCH_HISTORY];
	uint32_t n = w->history.len;
	*ret = (struct watch_steps_view){
		.looking = !w->looked || w->learn,
		.count = w->steps,
		.pid = w->marker.pid,
		.tid = w->marker.tid,
		.last_ns = w->last_ns,
		.since_ns = w->end_ns,
		.history = w->history,
	};
	snprintf(ret->kind, sizeof(ret->kind), "%s", w->marker.kind);
	snprintf(ret->marker, sizeof(ret->marker), "%s", w->marker.label);
	if (!n)
		return;
	for (uint32_t i = 0; i < n; i++)
		sorted[i] = (float)watch_history_at(&w->history, i);
	qsort(sorted, n, sizeof(*sorted), compare);
	ret->median_ns = (uint64_t)sorted[n / 2];
	ret->longest_ns = (uint64_t)sorted[n - 1];
}
