/* session_diagnose.c - anomalies come from another thread; rows from the session's. */
#include "session/session_diagnose.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "incident/kept_anomaly.h"
#include "incident/live_incident.h"
#include "session/live_window.h"
#include "session/quiet_jobs.h"
#include "session/thread_now.h"
#include "session/turned_down.h"
#include "symbolize/demangle.h"

#define FIRST_NS     700000000ULL   /* after it was told: more of it is there */
#define SOON_NS	     1000000000ULL  /* then while nothing is known, each time twice as long */
#define AGAIN_NS     2000000000ULL  /* once something is, each time twice as long */
#define YOUNG_NS     30000000000ULL /* since it was told: what it is may change */
#define OFTEN_NS     4000000000ULL  /* meanwhile at least so often */
#define LATE_NS	     500000000ULL   /* after its end: what is late has come */
#define ENDED_MOST   64		    /* anomalies that are over: what was then is not usual */
#define LASTING_MOST 256
#define HURRY_NS     2000000000ULL /* at least between two times, where more of it comes */
#define RESUMED_NS   3000000000ULL /* what stood still has gone on: it is over */
#define OVER_MOST    64		   /* incidents that are over and may go on */
#define PASSED_MOST  256	   /* times in which a budget had all on */
#define REST_TIMES   4		   /* after each: of the time that it took */

struct watched_incident {
	struct live_incident rows;
	uint64_t due_ns, wait_ns;
	uint64_t looked_ns; /* when it was diagnosed last */
	uint64_t began_ns;  /* when it was told first */
	bool over;
};

/* The thread of a loop, as it was seen last. */
struct seen_thread {
	uint32_t pid, tid;
	struct thread_now now;
};

/* A job that was found to stand still. */
struct found_standing {
	struct job_standing told;
	VEC(struct standing_process) processes; /* as they were then: their calls go */
	uint64_t resumed_ns;			/* one of them has called again; 0: none has */
};

struct session_diagnose {
	incident_told_fn *tell;
	void *ctx;
	pthread_mutex_t lock;
	VEC(struct anomaly) came;	    /* under lock, */
	VEC(struct job_standing) standings; /* likewise */

	VEC(struct anomaly) anomalies; /* kept_anomaly.h */
	VEC(struct watched_incident) watched;
	struct live_window *window;
	struct turned_down down;
	VEC(struct unjudged_time) unjudged;
	struct quiet_jobs quiet;
	VEC(struct seen_thread) seen; /* of processes that are quiet */
	VEC(struct found_standing) standing;
	uint64_t upto_ns;		 /* of the last batch */
	uint64_t done_ns, took_ns;	 /* the last diagnosis */
	const struct session_view *view; /* of this batch */
};

struct session_diagnose *session_diagnose_new(size_t window_bytes, size_t raw_bytes,
					      uint64_t packed_ns, incident_told_fn *tell, void *ctx)
{
	struct session_diagnose *d = xcalloc(1, sizeof(*d));
	d->tell = tell;
	d->ctx = ctx;
	d->window = live_window_new(window_bytes);
	if (packed_ns)
		live_window_pack(d->window, raw_bytes, packed_ns);
	pthread_mutex_init(&d->lock, NULL);
	return d;
}

void session_diagnose_free(struct session_diagnose *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->watched.len; i++)
		live_incident_free(&d->watched.data[i].rows);
	for (size_t i = 0; i < d->anomalies.len; i++)
		kept_anomaly_free(&d->anomalies.data[i]);
	for (size_t i = 0; i < d->came.len; i++)
		kept_anomaly_free(&d->came.data[i]);
	vec_free(&d->watched);
	vec_free(&d->anomalies);
	vec_free(&d->came);
	for (size_t i = 0; i < d->standing.len; i++)
		vec_free(&d->standing.data[i].processes);
	vec_free(&d->unjudged);
	vec_free(&d->seen);
	vec_free(&d->standing);
	vec_free(&d->standings);
	quiet_jobs_free(&d->quiet);
	live_window_free(d->window);
	turned_down_free(&d->down);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

void session_diagnose_anomaly(struct session_diagnose *d, const struct anomaly *a)
{
	struct anomaly row = kept_anomaly(a);
	pthread_mutex_lock(&d->lock);
	*vec_push(&d->came) = row;
	pthread_mutex_unlock(&d->lock);
}

void session_diagnose_standings(struct session_diagnose *d,
				void (*take)(void *ctx, const struct job_standing *j), void *ctx)
{
	VEC(struct job_standing) found = {0};
	pthread_mutex_lock(&d->lock);
	memcpy(&found, &d->standings, sizeof(found));
	memset(&d->standings, 0, sizeof(d->standings));
	pthread_mutex_unlock(&d->lock);
	for (size_t i = 0; i < found.len; i++)
		take(ctx, &found.data[i]);
	vec_free(&found);
}

/* ---- what is watched ---- */

static bool lasts(const struct session_diagnose *d, const struct watched_incident *w)
{
	return live_incident_lasts(&w->rows, d->anomalies.data, d->anomalies.len);
}

/* What lasts and was found by rule is looked at at once: all of it is there. */
static uint64_t first_ns(const struct anomaly *a)
{
	return a->told_ns + (a->p_value > 0 || a->ended ? FIRST_NS : 0);
}

static void resume(struct watched_incident *w, const struct anomaly *a)
{
	w->over = false;
	w->due_ns = first_ns(a);
	w->wait_ns = SOON_NS;
}

/* What came may be because of something else. */
static void hurry(struct watched_incident *w, const struct anomaly *a)
{
	uint64_t soon_ns = first_ns(a);
	if (soon_ns < w->looked_ns + HURRY_NS)
		soon_ns = w->looked_ns + HURRY_NS;
	if (w->due_ns > soon_ns)
		w->due_ns = soon_ns;
}

static void watch(struct session_diagnose *d, const struct anomaly *a, bool is_new)
{
	for (size_t i = 0; i < d->watched.len; i++) {
		struct watched_incident *w = &d->watched.data[i];
		if (w->rows.id != a->incident)
			continue;
		if (w->over)
			resume(w, a);
		else if (is_new)
			hurry(w, a);
		return;
	}
	uint64_t told_ns = a->told_ns; /* of those that began together the first */
	for (size_t i = 0; i < d->anomalies.len; i++)
		if (d->anomalies.data[i].incident == a->incident &&
		    d->anomalies.data[i].told_ns < told_ns)
			told_ns = d->anomalies.data[i].told_ns;
	struct watched_incident *w = vec_push(&d->watched);
	*w = (struct watched_incident){.began_ns = a->told_ns};
	resume(w, a);
	live_incident_begin(&w->rows, a->incident, told_ns);
}

/* Has its strings from now on. Returns whether it was not known. */
static bool take_anomaly(struct session_diagnose *d, struct anomaly *a)
{
	for (size_t i = 0; i < d->anomalies.len; i++)
		if (d->anomalies.data[i].id == a->id) {
			kept_anomaly_free(&d->anomalies.data[i]);
			d->anomalies.data[i] = *a;
			return false;
		}
	if (d->anomalies.len < LASTING_MOST + ENDED_MOST)
		*vec_push(&d->anomalies) = *a;
	else
		kept_anomaly_free(a);
	return true;
}

/* Of those that are over the latest stay. */
static void forget_ended(struct session_diagnose *d)
{
	size_t ended = 0, left = 0;
	for (size_t i = 0; i < d->anomalies.len; i++)
		ended += d->anomalies.data[i].ended;
	for (size_t i = 0; i < d->anomalies.len; i++)
		if (!d->anomalies.data[i].ended || ended-- <= ENDED_MOST)
			d->anomalies.data[left++] = d->anomalies.data[i];
		else
			kept_anomaly_free(&d->anomalies.data[i]);
	d->anomalies.len = left;
}

static void take_anomalies(struct session_diagnose *d)
{
	VEC(struct anomaly) came = {0};
	pthread_mutex_lock(&d->lock);
	memcpy(&came, &d->came, sizeof(came));
	memset(&d->came, 0, sizeof(d->came));
	pthread_mutex_unlock(&d->lock);
	for (size_t i = 0; i < came.len; i++) {
		bool is_new = take_anomaly(d, &came.data[i]);
		if (came.data[i].incident)
			watch(d, &came.data[i], is_new);
	}
	vec_free(&came);
	forget_ended(d);
}

/* ---- diagnosing ---- */

static void event(struct session_diagnose *d, const struct incident_said *said)
{
	struct buf text = {0};
	char entity[32];
	snprintf(entity, sizeof(entity), "pid %u", said->row->pid);
	incident_line(&text, said);
	buf_byte(&text, 0);
	pipeline_event(d->view->pipeline, monotonic_ns(), entity, "cause", (const char *)text.data);
	buf_free(&text);
}

static void put(void *ctx, const struct incident_said *said, bool told)
{
	struct session_diagnose *d = ctx;
	pipeline_row(d->view->pipeline, ROW_INCIDENT, said->row,
		     (const char *const *)said->texts->of, said->texts->len);
	if (!told)
		return;
	event(d, said);
	d->tell(d->ctx, said);
}

static int by_start(const void *a, const void *b)
{
	const struct listed_anomaly *x = a, *y = b;
	return x->a.start_ns < y->a.start_ns ? -1 : x->a.start_ns > y->a.start_ns;
}

/* What lasts goes on until now. */
static void list_anomalies(const struct session_diagnose *d, struct anomaly_list *ret,
			   uint64_t now_ns)
{
	for (size_t i = 0; i < d->anomalies.len; i++) {
		struct listed_anomaly *l = vec_push(&ret->rows);
		*l = (struct listed_anomaly){.a = d->anomalies.data[i]};
		if (!l->a.ended && l->a.end_ns < now_ns)
			l->a.end_ns = now_ns;
	}
	if (ret->rows.len)
		qsort(ret->rows.data, ret->rows.len, sizeof(*ret->rows.data), by_start);
}

/* In these seconds calls were dearer, and their probes are the cause: as the detector does, they
 * are passed over. The latest stay. */
static void note_unjudged(struct session_diagnose *d, const struct session_view *v)
{
	size_t n = d->unjudged.len;
	struct unjudged_time *last = n ? &d->unjudged.data[n - 1] : NULL;
	uint64_t from_ns = d->upto_ns, to_ns = v->batch->upto_ns;
	d->upto_ns = to_ns;
	if (!from_ns || to_ns <= from_ns || !turned_down_was_raised(v, from_ns))
		return;
	if (last && last->to_ns == from_ns) {
		last->to_ns = to_ns;
		return;
	}
	if (n == PASSED_MOST) {
		d->unjudged.len--;
		memmove(d->unjudged.data, d->unjudged.data + 1,
			d->unjudged.len * sizeof(*d->unjudged.data));
	}
	*vec_push(&d->unjudged) = (struct unjudged_time){from_ns, to_ns};
}

static bool is_due(const struct watched_incident *w, uint64_t now_ns)
{
	return !w->over && w->due_ns <= now_ns;
}

static const struct thread_now *seen_before(const struct session_diagnose *d,
					    const struct standing_process *p)
{
	for (size_t i = 0; i < d->seen.len; i++)
		if (d->seen.data[i].pid == p->pid && d->seen.data[i].tid == p->tid)
			return &d->seen.data[i].now;
	return NULL;
}

/* Its incident is looked at again soon: whether it moves is known then, or why it stood still. */
static void look_soon(struct session_diagnose *d, uint64_t incident, uint64_t now_ns)
{
	for (size_t i = 0; i < d->watched.len; i++) {
		struct watched_incident *w = &d->watched.data[i];
		if (w->rows.id != incident)
			continue;
		if (w->wait_ns > SOON_NS)
			w->wait_ns = SOON_NS;
		if (w->due_ns > now_ns + SOON_NS)
			w->due_ns = now_ns + SOON_NS;
	}
}

/* What stands still or may soon; with what of it was known before. */
static void make_standings(struct session_diagnose *d, struct standings *ret,
			   const struct row_source *s, const struct steps *steps, uint64_t now_ns)
{
	VEC(struct standing_process) known = {0};
	for (size_t i = 0; i < d->standing.len; i++)
		for (size_t k = 0; k < d->standing.data[i].processes.len; k++)
			*vec_push(&known) = d->standing.data[i].processes.data[k];
	standings_make(ret, s,
		       &(struct standings_asked){.steps = steps,
						 .anomalies = d->anomalies.data,
						 .anomalies_len = d->anomalies.len,
						 .known = known.data,
						 .known_len = known.len,
						 .now_ns = now_ns});
	vec_free(&known);
}

/* What threads of quiet loops do now. Of one that has not moved what was seen first stays. */
static void see_threads(struct session_diagnose *d, struct standings *all)
{
	VEC(struct seen_thread) seen = {0};
	for (size_t i = 0; i < all->processes.len; i++) {
		struct standing_process *p = &all->processes.data[i];
		struct seen_thread see = {.pid = p->pid, .tid = p->tid};
		if (!standing_is_quiet(all, p) ||
		    thread_now_read(&see.now, "/proc", p, all->children.data))
			continue;
		const struct thread_now *before = seen_before(d, p);
		standing_saw(p, before, &see.now);
		if (!before && p->incident)
			look_soon(d, p->incident, all->now_ns);
		if (before && before->switches == see.now.switches)
			see.now = *before;
		*vec_push(&seen) = see;
	}
	vec_free(&d->seen);
	memcpy(&d->seen, &seen, sizeof(d->seen));
}

static void tell_found(struct session_diagnose *d, const struct diagnosis *found,
		       const struct standings *standings, const struct rec_tables *t,
		       uint64_t begin_ns, uint64_t now_ns)
{
	const struct live_findings f = {.found = found,
					.t = t,
					.begin_ns = begin_ns,
					.now_ns = monotonic_ns(),
					.standings = standings,
					.anomalies = d->anomalies.data,
					.anomalies_len = d->anomalies.len,
					.put = put,
					.ctx = d};
	for (size_t i = 0; i < d->watched.len; i++) {
		struct watched_incident *w = &d->watched.data[i];
		if (!is_due(w, now_ns))
			continue;
		w->looked_ns = now_ns;
		live_incident_find(&w->rows, &f);
	}
}

static void diagnose(struct session_diagnose *d, uint64_t now_ns)
{
	uint64_t begin_ns, began_ns = monotonic_ns();
	const struct row_source *s = live_window_rows(d->window, &begin_ns);
	struct anomaly_list list = {0};
	struct timeline timeline;
	struct steps steps;
	struct standings standings;
	struct diagnosis found;
	list_anomalies(d, &list, now_ns);
	list.unjudged = d->unjudged.data;
	list.unjudged_len = d->unjudged.len;
	timeline_make(&timeline, s, &(struct timeline_options){.demangle = demangle});
	steps_make(&steps, s, NULL);
	diagnosis_make(&found, s, &timeline, &steps, &list,
		       &(struct diagnosis_options){.besides = true});
	make_standings(d, &standings, s, &steps, now_ns);
	see_threads(d, &standings);
	tell_found(d, &found, &standings, s->tables, begin_ns, now_ns);
	standings_free(&standings);
	diagnosis_free(&found);
	steps_free(&steps);
	timeline_free(&timeline);
	vec_free(&list.rows);
	d->done_ns = monotonic_ns();
	d->took_ns = d->done_ns - began_ns;
}

/* ---- jobs that stand still ---- */

static void post(struct session_diagnose *d, const struct job_standing *j)
{
	pthread_mutex_lock(&d->lock);
	*vec_push(&d->standings) = *j;
	pthread_mutex_unlock(&d->lock);
}

static bool was_found(const struct session_diagnose *d, uint32_t pid)
{
	for (size_t i = 0; i < d->standing.len; i++)
		for (size_t k = 0; k < d->standing.data[i].processes.len; k++)
			if (d->standing.data[i].processes.data[k].pid == pid)
				return true;
	return false;
}

static void find_standing(struct session_diagnose *d, const struct standing *s)
{
	struct found_standing f = {.told = {.pid = standing_victim(s, 0)->pid,
					    .since_ns = s->since_ns,
					    .now_ns = s->now_ns}};
	for (size_t i = 0; i < s->processes.len; i++)
		if (was_found(d, s->processes.data[i]->pid))
			return;
	for (size_t i = 0; i < s->processes.len; i++)
		*vec_push(&f.processes) = *s->processes.data[i];
	*vec_push(&d->standing) = f;
	post(d, &f.told);
}

static bool trains(const void *ctx, uint32_t pid)
{
	const struct standings *all = ctx;
	for (size_t i = 0; i < all->processes.len; i++)
		if (all->processes.data[i].pid == pid)
			return true;
	return false;
}

static void look_at_quiet(struct session_diagnose *d, uint64_t now_ns)
{
	uint64_t begin_ns, began_ns = monotonic_ns();
	const struct row_source *s = live_window_rows(d->window, &begin_ns);
	struct steps steps;
	struct standings all;
	steps_make(&steps, s, NULL);
	make_standings(d, &all, s, &steps, now_ns);
	see_threads(d, &all);
	for (uint32_t job = 0; job < all.processes.len; job++) {
		struct standing standing;
		if (standing_of(&standing, &all, job, false))
			find_standing(d, &standing);
		standing_free(&standing);
	}
	quiet_jobs_looked(&d->quiet, now_ns, trains, &all);
	standings_free(&all);
	steps_free(&steps);
	d->done_ns = monotonic_ns();
	d->took_ns = d->done_ns - began_ns;
}

/* One of them has called since, or has ended. */
static bool goes_on(const struct session_diagnose *d, const struct found_standing *f)
{
	for (size_t i = 0; i < f->processes.len; i++) {
		uint64_t last_ns = quiet_jobs_last_ns(&d->quiet, f->processes.data[i].pid);
		if (!last_ns || last_ns > f->told.now_ns)
			return true;
	}
	return false;
}

/* Its incident lasts for a little: the step that had not ended is looked at. */
static void find_resumed(struct session_diagnose *d, uint64_t now_ns)
{
	for (size_t i = d->standing.len; i-- > 0;) {
		struct found_standing *f = &d->standing.data[i];
		if (!f->resumed_ns && goes_on(d, f)) {
			f->resumed_ns = now_ns;
			for (size_t k = 0; k < d->anomalies.len; k++)
				if (d->anomalies.data[k].pid == f->told.pid)
					look_soon(d, d->anomalies.data[k].incident, now_ns);
		}
		if (!f->resumed_ns || now_ns < f->resumed_ns + RESUMED_NS)
			continue;
		f->told.ended = true;
		f->told.now_ns = f->resumed_ns;
		post(d, &f->told);
		vec_free(&f->processes);
		*f = d->standing.data[--d->standing.len];
	}
}

/* ---- when ---- */

/* Of those that are over the latest stay. */
static void forget_over(struct session_diagnose *d)
{
	size_t over = 0, left = 0;
	for (size_t i = 0; i < d->watched.len; i++)
		over += d->watched.data[i].over;
	for (size_t i = 0; i < d->watched.len; i++) {
		struct watched_incident *w = &d->watched.data[i];
		if (w->over && over-- > OVER_MOST)
			live_incident_free(&w->rows);
		else
			d->watched.data[left++] = *w;
	}
	d->watched.len = left;
}

/* Those that were told of are due again later; of those that are over nothing more is told, unless
 * they go on. */
static void go_on(struct session_diagnose *d, uint64_t now_ns)
{
	for (size_t i = 0; i < d->watched.len; i++) {
		struct watched_incident *w = &d->watched.data[i];
		if (!is_due(w, now_ns))
			continue;
		w->over = !lasts(d, w);
		if (live_incident_has_cause(&w->rows) && w->wait_ns < AGAIN_NS)
			w->wait_ns = AGAIN_NS;
		w->due_ns = now_ns + w->wait_ns;
		w->wait_ns *= 2;
		if (w->wait_ns > OFTEN_NS && now_ns < w->began_ns + YOUNG_NS)
			w->wait_ns = OFTEN_NS;
	}
	forget_over(d);
}

static bool has_rested(const struct session_diagnose *d)
{
	return monotonic_ns() >= d->done_ns + REST_TIMES * d->took_ns;
}

static void look(struct session_diagnose *d, uint64_t now_ns)
{
	bool due = false;
	for (size_t i = 0; i < d->watched.len; i++) {
		struct watched_incident *w = &d->watched.data[i];
		uint64_t soon_ns = now_ns + LATE_NS;
		if (!w->over && !lasts(d, w) && w->due_ns > soon_ns)
			w->due_ns = soon_ns;
		due |= is_due(w, now_ns);
	}
	if (!due || !has_rested(d))
		return;
	diagnose(d, now_ns);
	go_on(d, now_ns);
}

void session_diagnose_batch(void *ctx, const struct session_view *v)
{
	struct session_diagnose *d = ctx;
	struct session_view mine = *v;
	if (v->held_until_ns) {
		if (turned_down_take(&d->down, v->batch)) /* calls of before are not comparable */
			live_window_begin_anew(d->window);
		mine.batch = turned_down_without(&d->down, v->batch);
	}
	d->view = &mine;
	note_unjudged(d, v);
	live_window_take(d->window, &mine);
	quiet_jobs_take(&d->quiet, &mine);
	take_anomalies(d);
	find_resumed(d, v->batch->upto_ns);
	if (d->watched.len)
		look(d, v->batch->upto_ns);
	if (quiet_jobs_due(&d->quiet, v->batch->upto_ns) && has_rested(d))
		look_at_quiet(d, v->batch->upto_ns);
}

void session_diagnose_end(void *ctx, const struct session_view *v)
{
	struct session_diagnose *d = ctx;
	d->view = v;
	take_anomalies(d);
	bool due = false;
	for (size_t i = 0; i < d->watched.len; i++) {
		d->watched.data[i].due_ns = 0;
		due |= !d->watched.data[i].over;
	}
	if (due)
		diagnose(d, monotonic_ns());
}
