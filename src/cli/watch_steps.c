/* watch_steps.c - finds steps in windows of rows, and counts the calls that mark them. */
#include "cli/watch_steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map64.h"
#include "cli/watch_learn.h"
#include "report/steps_words.h"
#include "symbolize/proc_program.h"
#include "wire/event.h"

#define SECOND_NS      1000000000ULL
#define FIRST_LOOK_NS  (3 * SECOND_NS) /* each look is twice as long as the one before it */
#define LAST_LOOK_NS   (60 * SECOND_NS)
#define REST_NS	       (20 * SECOND_NS)	 /* between looks that found nothing */
#define AGAIN_NS       (300 * SECOND_NS) /* likewise of a process, beside others that have steps */
#define TRIED_MOST     1024		 /* processes without steps that are remembered */
#define LOOK_CALLS     250000		 /* 28 MB, of which most are compressed */
#define LEAST_CALLS    32
#define LEAST_PARTIAL  8	       /* likewise, of what a budget leaves: one or two a step */
#define LEAST_OPS      8	       /* of a process that is waited for */
#define PHASES_NS      (5 * SECOND_NS) /* the interval where steps were found, or 8 usual ones */
#define PHASES_REST_NS (15 * SECOND_NS)
#define PHASES_STEPS   8
#define PHASES_CALLS   65536
#define GONE_NS	       (10 * SECOND_NS) /* no step for so long, or 20 usual ones, */
#define GONE_STEPS     20		/* while it has steps that look otherwise */
#define ENDED_NS       (5 * SECOND_NS)	/* one that has ended is told so long */
_Static_assert(STEPS_PHASES <= LIVE_STEP_PHASES, "phases of a step");

/* A process that has steps, or had some. */
struct job {
	uint32_t pid;
	uint64_t ended_ns; /* 0: it lives */
	bool found;	   /* its marker is known: */
	struct watch_marker marker;
	uint64_t found_ns;
	uint32_t count;	   /* of markers since the last step's end */
	uint64_t step_ns;  /* end of the last step, 0 = none yet */
	uint64_t first_ns; /* the first that came: none before it is told */
	bool sorted;	   /* the view's median is that of its history */
	struct live_steps_view view;
};

struct watch_steps {
	struct session_window *window;
	bool looks;	  /* the window is open */
	uint64_t end_ns;  /* of this look */
	uint64_t look_ns; /* how long it is */
	uint64_t rest_ns; /* until then none begins */
	bool looked;	  /* at least once to the end */
	bool waits;	  /* some process may have steps that a longer look finds */
	uint32_t sharers; /* processes that a window is for */
	struct live_phases phases;
	struct map64 tried; /* pid -> until then no longer look is for it */
	struct job *jobs;
	uint32_t len, most, left_out;
	VEC(uint8_t) marks;  /* by probe: it marks steps of some job */
	struct map64 job_of; /* thread that called one -> place of its job + 1, 0 nobody's */
	struct watch_steps_told told; /* ended NULL: nobody is */
};

struct watch_steps *watch_steps_new(uint32_t most)
{
	struct watch_steps *w = xcalloc(1, sizeof(*w));
	w->window = session_window_new();
	w->look_ns = FIRST_LOOK_NS;
	w->sharers = 1;
	w->most = most;
	w->jobs = xcalloc(most, sizeof(*w->jobs));
	return w;
}

void watch_steps_free(struct watch_steps *w)
{
	session_window_free(w->window);
	map64_free(&w->tried);
	map64_free(&w->job_of);
	vec_free(&w->marks);
	free(w->jobs);
	free(w);
}

void watch_steps_tell(struct watch_steps *w, const struct watch_steps_told *who)
{
	w->told = *who;
}

/* ---- jobs and what marks their steps ---- */

static struct job *job_of(struct watch_steps *w, uint32_t pid)
{
	for (uint32_t i = 0; i < w->len; i++)
		if (w->jobs[i].pid == pid && !w->jobs[i].ended_ns)
			return &w->jobs[i];
	return NULL;
}

/* Markers have changed: which calls are some is found anew. */
static void mark_probes(struct watch_steps *w)
{
	map64_free(&w->job_of);
	w->marks.len = 0;
	for (uint32_t i = 0; i < w->len; i++) {
		if (!w->jobs[i].found)
			continue;
		while (w->marks.len <= w->jobs[i].marker.probe)
			*vec_push(&w->marks) = false;
		w->marks.data[w->jobs[i].marker.probe] = true;
	}
}

static bool is_gone(const struct job *j, uint64_t now_ns)
{
	uint64_t patience_ns = GONE_STEPS * j->marker.usual_ns;
	patience_ns = patience_ns > GONE_NS ? patience_ns : GONE_NS;
	return now_ns > (j->step_ns ? j->step_ns : j->found_ns) + patience_ns;
}

/* A place for another process; NULL: all are taken by those that go on. */
static struct job *job_new(struct watch_steps *w, uint32_t pid, uint64_t now_ns)
{
	uint32_t at = w->len;
	for (uint32_t i = 0; w->len == w->most && i < w->len; i++)
		if (!w->jobs[i].found || is_gone(&w->jobs[i], now_ns)) {
			at = i;
			break;
		}
	if (at == w->most)
		return NULL;
	w->len += at == w->len;
	w->jobs[at] = (struct job){.pid = pid};
	return &w->jobs[at];
}

static void take_marker(struct job *j, const struct watch_marker *m, uint64_t now_ns)
{
	bool same = j->found && m->tid == j->marker.tid && m->probe == j->marker.probe &&
		    m->name == j->marker.name;
	if (!same) { /* other steps: their times are not comparable */
		j->view.history = (struct live_history){0};
		j->step_ns = j->count = 0;
		j->sorted = false;
	}
	j->marker = *m;
	j->found = true;
	j->found_ns = now_ns;
	j->view.pid = m->pid;
	j->view.tid = m->tid;
	snprintf(j->view.kind, sizeof(j->view.kind), "%s", m->kind);
	snprintf(j->view.marker, sizeof(j->view.marker), "%s", m->label);
}

static void learn(struct watch_steps *w, const struct row_source *rows,
		  const struct steps_process *p, uint64_t now_ns)
{
	struct job *j = job_of(w, p->pid);
	struct watch_marker m;
	if (j && j->found && !is_gone(j, now_ns))
		return;
	if (!watch_learn_find(w->window, rows, p, &m))
		return;
	j = j ? j : job_new(w, p->pid, now_ns);
	if (j)
		take_marker(j, &m, now_ns);
	else
		w->left_out++;
}

/* ---- looking for steps ---- */

static bool has_steps(const struct watch_steps *w, const struct steps_process *p)
{
	const struct steps_loop *loop = steps_main_loop(p);
	return loop && loop->kind != STEPS_LOADING && session_window_lives(w->window, p->pid);
}

/* The main one first; alone where only one is counted. */
static void learn_each(struct watch_steps *w, const struct row_source *rows, const struct steps *s,
		       uint64_t now_ns)
{
	size_t n = w->most > 1 ? s->processes.len : 1;
	w->left_out = 0;
	for (size_t i = 0; i < n; i++) {
		size_t at = i ? i - (i <= s->main) : s->main;
		if (has_steps(w, &s->processes.data[at]))
			learn(w, rows, &s->processes.data[at], now_ns);
	}
	mark_probes(w);
}

static void say_phases(void *ctx, uint32_t pid, const char *text)
{
	struct watch_steps *w = ctx;
	struct live_phases *all = &w->phases;
	struct job *j = job_of(w, pid);
	char *name = proc_program("/proc", (pid_t)pid);
	char *line = xasprintf("%s (%u): %s", name, pid, text);
	if (j)
		snprintf(j->view.phases, sizeof(j->view.phases), "%s", line);
	if (all->len == LIVE_PHASES)
		all->more++;
	else
		snprintf(all->of[all->len++], LIVE_PHASE_BYTES, "%s", line);
	free(line);
	free(name);
}

/* By a part of its calls it cannot be told what a step does when. */
static void forget_phases(struct watch_steps *w)
{
	for (uint32_t i = 0; i < w->len; i++) {
		w->jobs[i].view.phase_len = 0;
		w->jobs[i].view.phases[0] = 0;
	}
}

/* The shares of a step's phases in this interval. */
static void take_phases(struct watch_steps *w, const struct steps *s)
{
	for (size_t i = 0; i < s->processes.len; i++) {
		const struct steps_process *p = &s->processes.data[i];
		const struct steps_loop *loop = steps_main_loop(p);
		struct job *j = loop && loop->mean_ns > 0 ? job_of(w, p->pid) : NULL;
		if (!j)
			continue;
		j->view.phase_len = 0;
		for (int k = 0; k < STEPS_PHASES; k++)
			if (loop->phase_mean_ns[k] > 0)
				j->view.phase[j->view.phase_len++] = (struct live_phase){
					steps_phase_words(p, (enum steps_phase)k),
					(float)(loop->phase_mean_ns[k] / loop->mean_ns)};
	}
}

/* Whether there is a process that calls as those with steps do, and has none that were found; given
 * up: for a while such ones are not waited for. */
static bool wait_for_others(struct watch_steps *w, const struct steps *s, bool given_up,
			    uint64_t now_ns)
{
	bool ret = false;
	if (w->tried.len > TRIED_MOST)
		map64_free(&w->tried);
	for (size_t i = 0; i < s->processes.len; i++) {
		const struct steps_process *p = &s->processes.data[i];
		uint64_t until_ns = 0;
		if (p->loops.len || p->ops < LEAST_OPS || job_of(w, p->pid) ||
		    !session_window_lives(w->window, p->pid))
			continue;
		map64_get(&w->tried, p->pid, &until_ns);
		if (given_up && until_ns <= now_ns)
			map64_set(&w->tried, p->pid, now_ns + AGAIN_NS);
		ret |= !given_up && until_ns <= now_ns;
	}
	return ret;
}

static bool find_steps(struct watch_steps *w, uint64_t now_ns)
{
	const struct row_source *rows = session_window_rows(w->window);
	struct steps steps = {.main = SIZE_MAX};
	bool partial = session_window_is_partial(w->window);
	if (session_window_calls(w->window) >= (partial ? LEAST_PARTIAL : LEAST_CALLS))
		steps_make(&steps, rows, NULL);
	bool found = steps.main != SIZE_MAX;
	if (found)
		learn_each(w, rows, &steps, now_ns);
	w->phases.len = w->phases.more = 0;
	if (partial)
		forget_phases(w);
	else
		steps_say_each(&steps, say_phases, w);
	if (found && !partial)
		take_phases(w, &steps);
	w->phases.intervals += w->phases.len != 0;
	w->waits = w->most > 1 && wait_for_others(w, &steps, w->look_ns >= LAST_LOOK_NS, now_ns);
	w->sharers = w->most > 1 && steps.processes.len ? (uint32_t)steps.processes.len : 1;
	steps_free(&steps);
	session_window_close(w->window);
	return found;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The longest steps that are counted. */
static uint64_t phases_ns(const struct watch_steps *w)
{
	uint64_t ret = PHASES_NS;
	for (uint32_t i = 0; i < w->len; i++) {
		uint64_t ns = PHASES_STEPS * w->jobs[i].marker.usual_ns;
		ret = w->jobs[i].found && ns > ret ? ns : ret;
	}
	return at_most(ret, LAST_LOOK_NS);
}

static bool counts(const struct watch_steps *w)
{
	for (uint32_t i = 0; i < w->len; i++)
		if (w->jobs[i].found)
			return true;
	return false;
}

static void end_look(struct watch_steps *w, uint64_t now_ns)
{
	if (find_steps(w, now_ns)) {
		w->look_ns = w->waits ? at_most(w->look_ns * 2, LAST_LOOK_NS) : phases_ns(w);
		/* phases are shown for as long; several are looked at now and then */
		w->rest_ns = w->end_ns + (w->most > 1 && !w->waits ? PHASES_REST_NS : 0);
	} else {
		w->look_ns = at_most(w->look_ns * 2, LAST_LOOK_NS);
		w->rest_ns = w->look_ns > LAST_LOOK_NS / 2 ? now_ns + REST_NS : now_ns;
	}
	w->looked = true;
	w->looks = false;
}

static void begin_look(struct watch_steps *w, uint64_t now_ns)
{
	uint64_t calls = counts(w) && !w->waits ? PHASES_CALLS : LOOK_CALLS;
	uint64_t share = calls / w->sharers;
	session_window_begin(w->window, calls, share ? share : 1, now_ns);
	w->end_ns = now_ns + w->look_ns;
	w->looks = true;
}

/* A budget changed what is seen: what was seen so far tells of that. */
static void void_look(struct watch_steps *w, uint64_t now_ns)
{
	session_window_close(w->window);
	begin_look(w, now_ns);
}

static void look(struct watch_steps *w, const struct session_view *v, uint64_t now_ns)
{
	if (!w->looks && now_ns >= w->rest_ns && v->batch->calls.len)
		begin_look(w, now_ns);
	if (w->looks && session_window_is_broken(w->window))
		void_look(w, now_ns);
	if (w->looks && (session_window_take(w->window, v) || now_ns > w->end_ns))
		end_look(w, now_ns);
}

/* ---- counting ---- */

/* A phase is named by what a process does: one whose kind of steps changes has had others. */
static void add_phase(struct live_steps_view *view, const struct live_phase *phase, uint64_t ns)
{
	uint32_t i = 0;
	while (i < view->phase_sum_len && strcmp(view->phase_sum[i].name, phase->name))
		i++;
	if (i == LIVE_STEP_SUMS)
		return;
	if (i == view->phase_sum_len)
		view->phase_sum[view->phase_sum_len++] =
			(struct live_phase_sum){.name = phase->name};
	view->phase_sum[i].ns += (double)phase->share * (double)ns;
}

static void end_step(struct watch_steps *w, struct job *j, uint64_t ns)
{
	struct live_steps_view *view = &j->view;
	j->count = 0;
	if (!j->step_ns)
		j->first_ns = ns;
	else if (ns < j->first_ns) /* rings are read one after the other: it came late */
		return;
	if (w->told.ended)
		w->told.ended(w->told.ctx, view, ns, !j->step_ns);
	if (j->step_ns && ns > j->step_ns) {
		view->last_ns = ns - j->step_ns;
		view->count++;
		live_history_add(&view->history, (double)view->last_ns);
		for (uint32_t i = 0; i < view->phase_len; i++)
			add_phase(view, &view->phase[i], view->last_ns);
		j->sorted = false;
	}
	j->step_ns = view->since_ns = ns;
}

/* Whose steps are counted on a thread, or NULL. */
static struct job *job_at(struct watch_steps *w, const struct session_view *v, uint32_t thread)
{
	uint64_t at = 0;
	if (!map64_get(&w->job_of, thread, &at)) {
		const struct m_thread *t = v->names->thread(v->names->ctx, thread);
		if (!t)
			return NULL;
		struct job *j = job_of(w, t->pid);
		at = j && j->found && j->marker.tid == t->tid ? (uint64_t)(j - w->jobs) + 1 : 0;
		map64_set(&w->job_of, thread, at);
	}
	return at ? &w->jobs[at - 1] : NULL;
}

static bool is_marker(const struct job *j, const struct session_view *v, const struct m_call *c)
{
	const struct watch_marker *m = &j->marker;
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
		if (c->probe >= w->marks.len || !w->marks.data[c->probe])
			continue;
		struct job *j = job_at(w, v, c->thread);
		if (j && is_marker(j, v, c) && ++j->count >= j->marker.per_step)
			end_step(w, j, c->start_ns + c->dur_ns);
	}
}

/* Whose marker is seen in part is not counted: its steps would be as long as the gaps. */
static void forget_unseen(struct watch_steps *w)
{
	bool some = false;
	for (uint32_t i = 0; i < w->len; i++) {
		struct job *j = &w->jobs[i];
		if (!j->found || session_window_sees(w->window, j->marker.probe))
			continue;
		j->found = false;
		some = true;
	}
	if (some)
		mark_probes(w);
}

static void forget_ended(struct watch_steps *w, const struct session_view *v, uint64_t now_ns)
{
	bool some = false;
	for (size_t i = 0; i < v->batch->threads_gone.len; i++) {
		uint32_t thread = v->batch->threads_gone.data[i];
		uint64_t at = 0;
		map64_get(&w->job_of, thread, &at);
		map64_del(&w->job_of, thread);
		if (at)
			w->jobs[at - 1].found = false;
		some |= at != 0;
	}
	for (size_t i = 0; i < v->batch->processes.len; i++) {
		const struct m_process *p = &v->batch->processes.data[i];
		struct job *j = p->end_ns ? job_of(w, p->pid) : NULL;
		if (!j)
			continue;
		j->ended_ns = now_ns;
		j->found = false;
		some = true;
	}
	if (some)
		mark_probes(w);
}

void watch_steps_batch(struct watch_steps *w, const struct session_view *v, uint64_t now_ns)
{
	session_window_see(w->window, v);
	if (v->batch->coverages.len)
		forget_unseen(w);
	if (w->marks.len)
		count(w, v);
	forget_ended(w, v, now_ns);
	look(w, v, now_ns);
}

/* ---- what is shown ---- */

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return x < y ? -1 : x > y;
}

/* The view, with what is made of its history. */
static const struct live_steps_view *view_of(struct job *j)
{
	float sorted[LIVE_HISTORY];
	uint32_t n = j->view.history.len;
	if (j->sorted)
		return &j->view;
	j->sorted = true;
	for (uint32_t i = 0; i < n; i++)
		sorted[i] = (float)live_history_at(&j->view.history, i);
	qsort(sorted, n, sizeof(*sorted), compare);
	j->view.median_ns = n ? (uint64_t)sorted[n / 2] : 0;
	j->view.longest_ns = n ? (uint64_t)sorted[n - 1] : 0;
	return &j->view;
}

void watch_steps_get(struct watch_steps *w, struct live_steps_view *ret,
		     struct live_phases *ret_phases)
{
	*ret = w->len ? *view_of(&w->jobs[0]) : (struct live_steps_view){0};
	*ret_phases = w->phases;
	ret_phases->looking = !w->looked || (!counts(w) && w->looks);
}

void watch_steps_jobs(struct watch_steps *w, struct live_jobs *ret, uint64_t now_ns)
{
	ret->len = 0;
	ret->left_out = w->left_out;
	for (uint32_t i = 0; i < w->len; i++) {
		struct job *j = &w->jobs[i];
		if (j->ended_ns ? now_ns < j->ended_ns + ENDED_NS && !job_of(w, j->pid) : j->found)
			ret->of[ret->len++] = *view_of(j);
	}
}
