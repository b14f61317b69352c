/* watch_steps.c - finds steps in windows of rows, and counts the calls that mark them. */
#include "cli/watch_steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/watch_learn.h"
#include "report/steps_words.h"
#include "symbolize/proc_program.h"
#include "wire/event.h"

#define SECOND_NS     1000000000ULL
#define FIRST_LOOK_NS (3 * SECOND_NS) /* each look is twice as long as the one before it */
#define LAST_LOOK_NS  (60 * SECOND_NS)
#define REST_NS	      (20 * SECOND_NS) /* between looks that found nothing */
#define LOOK_CALLS    250000	       /* 28 MB */
#define LEAST_CALLS   32
#define PHASES_NS     (5 * SECOND_NS) /* the interval where steps were found, or 8 usual ones */
#define PHASES_STEPS  8
#define PHASES_CALLS  65536
#define GONE_NS	      (10 * SECOND_NS) /* no step for so long, or 20 usual ones: */
#define GONE_STEPS    20
#define GONE_CALLS    5000 /* and the job goes on: its steps look otherwise now */

struct watch_steps {
	struct session_window *window;
	bool looks;	  /* the window is open */
	uint64_t end_ns;  /* of this look */
	uint64_t look_ns; /* how long it is */
	uint64_t rest_ns; /* until then none begins */
	bool looked;	  /* at least once to the end */
	bool found;
	struct watch_marker marker;
	uint32_t thread;      /* index, UINT32_MAX not met yet */
	uint32_t count;	      /* of markers since the last step's end */
	uint64_t other_calls; /* of the process since then */
	uint64_t step_ns;     /* end of the last step, 0 = none yet */
	struct live_steps_view view;
	struct watch_steps_told told; /* ended NULL: nobody is */
};

struct watch_steps *watch_steps_new(void)
{
	struct watch_steps *w = xcalloc(1, sizeof(*w));
	w->window = session_window_new();
	w->look_ns = FIRST_LOOK_NS;
	w->thread = UINT32_MAX;
	return w;
}

void watch_steps_free(struct watch_steps *w)
{
	session_window_free(w->window);
	free(w);
}

void watch_steps_tell(struct watch_steps *w, const struct watch_steps_told *who)
{
	w->told = *who;
}

/* ---- looking for steps ---- */

static void take_marker(struct watch_steps *w, const struct watch_marker *m)
{
	bool same = w->found && m->pid == w->marker.pid && m->tid == w->marker.tid &&
		    m->probe == w->marker.probe && m->name == w->marker.name;
	if (!same) { /* other steps: their times are not comparable */
		w->view.history = (struct live_history){0};
		w->step_ns = w->count = 0;
		w->thread = UINT32_MAX;
	}
	w->marker = *m;
	w->found = true;
	w->other_calls = 0;
}

static bool is_gone(const struct watch_steps *w, uint64_t now_ns)
{
	uint64_t patience_ns = GONE_STEPS * w->marker.usual_ns;
	patience_ns = patience_ns > GONE_NS ? patience_ns : GONE_NS;
	return w->other_calls > GONE_CALLS && w->step_ns && now_ns > w->step_ns + patience_ns;
}

static void say_phases(void *ctx, uint32_t pid, const char *text)
{
	struct live_steps_view *view = ctx;
	if (view->phases_len == LIVE_PHASES) {
		view->phases_more++;
		return;
	}
	char *name = proc_program("/proc", (pid_t)pid);
	snprintf(view->phases[view->phases_len++], LIVE_PHASE_BYTES, "%s (%u): %s", name, pid,
		 text);
	free(name);
}

static bool find_steps(struct watch_steps *w, uint64_t now_ns)
{
	const struct row_source *rows = session_window_rows(w->window);
	struct steps steps = {.main = SIZE_MAX};
	struct watch_marker m;
	if (session_window_calls(w->window) >= LEAST_CALLS)
		steps_make(&steps, rows, NULL);
	w->view.phases_len = w->view.phases_more = 0;
	steps_say_each(&steps, say_phases, &w->view);
	w->view.intervals += w->view.phases_len != 0;
	bool found = steps.main != SIZE_MAX;
	if (found && (!w->found || is_gone(w, now_ns))) {
		found = watch_learn_find(w->window, rows, &steps, &m);
		if (found)
			take_marker(w, &m);
	}
	steps_free(&steps);
	session_window_close(w->window);
	return found;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void end_look(struct watch_steps *w, uint64_t now_ns)
{
	if (find_steps(w, now_ns)) {
		uint64_t phases_ns = PHASES_STEPS * w->marker.usual_ns;
		w->look_ns = at_most(phases_ns > PHASES_NS ? phases_ns : PHASES_NS, LAST_LOOK_NS);
		w->rest_ns = w->end_ns;
	} else {
		w->look_ns = at_most(w->look_ns * 2, LAST_LOOK_NS);
		w->rest_ns = w->look_ns > LAST_LOOK_NS / 2 ? now_ns + REST_NS : now_ns;
	}
	w->looked = true;
	w->looks = false;
}

static void look(struct watch_steps *w, const struct session_view *v, uint64_t now_ns)
{
	if (!w->looks && now_ns >= w->rest_ns && v->batch->calls.len) {
		session_window_begin(w->window, w->found ? PHASES_CALLS : LOOK_CALLS, now_ns);
		w->end_ns = now_ns + w->look_ns;
		w->looks = true;
	}
	if (w->looks && (session_window_take(w->window, v) || now_ns > w->end_ns))
		end_look(w, now_ns);
}

/* ---- counting ---- */

static void tell(struct watch_steps *w, uint64_t ns)
{
	struct live_steps_view *view = &w->view;
	if (!w->told.ended)
		return;
	view->pid = w->marker.pid;
	snprintf(view->kind, sizeof(view->kind), "%s", w->marker.kind);
	snprintf(view->marker, sizeof(view->marker), "%s", w->marker.label);
	w->told.ended(w->told.ctx, view, ns, !w->step_ns);
}

static void end_step(struct watch_steps *w, uint64_t ns)
{
	w->count = 0;
	w->other_calls = 0;
	tell(w, ns);
	if (w->step_ns && ns > w->step_ns) {
		w->view.last_ns = ns - w->step_ns;
		w->view.count++;
		live_history_add(&w->view.history, (double)w->view.last_ns);
	}
	w->step_ns = ns;
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
	session_window_see(w->window, v);
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

void watch_steps_get(const struct watch_steps *w, struct live_steps_view *ret)
{
	float sorted[LIVE_HISTORY];
	uint32_t n = w->view.history.len;
	*ret = w->view;
	ret->looking = !w->looked || (!w->found && w->looks);
	ret->pid = w->marker.pid;
	ret->tid = w->marker.tid;
	ret->since_ns = w->step_ns;
	snprintf(ret->kind, sizeof(ret->kind), "%s", w->marker.kind);
	snprintf(ret->marker, sizeof(ret->marker), "%s", w->marker.label);
	if (!n)
		return;
	for (uint32_t i = 0; i < n; i++)
		sorted[i] = (float)live_history_at(&w->view.history, i);
	qsort(sorted, n, sizeof(*sorted), compare);
	ret->median_ns = (uint64_t)sorted[n / 2];
	ret->longest_ns = (uint64_t)sorted[n - 1];
}
