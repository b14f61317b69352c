/* session_diagnose.c - anomalies come from another thread; rows from the session's. */
#include "session/session_diagnose.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "session/live_window.h"
#include "symbolize/demangle.h"

#define WINDOW_BYTES (128u << 20)
#define FIRST_NS     700000000ULL  /* after it was told: more of it is there */
#define SOON_NS	     1000000000ULL /* then while nothing is known, each time twice as long */
#define AGAIN_NS     5000000000ULL /* once something is, each time twice as long */
#define LATE_NS	     500000000ULL  /* after its end: what is late has come */
#define USUAL_NS     2000000000ULL /* before an incident: with less there is nothing to compare */
#define ENDED_MOST   64		   /* anomalies that are over: what was then is not usual */
#define LASTING_MOST 256
#define HURRY_NS     2000000000ULL /* at least between two times, where more of it comes */
#define OVER_MOST    64		   /* incidents that are over and may go on */
#define MORE_COST    1.2	   /* what is told again, that went on after its end */
#define PIECE_NS     1000000000ULL /* how well it is known where a piece of one begins */

struct watched_incident {
	uint64_t id, due_ns, wait_ns;
	uint64_t told_ns;   /* with its number and process a row's key: it stays */
	uint64_t caused_ns; /* when the cause that it has now was known */
	uint64_t looked_ns; /* when it was diagnosed last */
	bool over;
	uint64_t from_ns; /* pieces that began before have a row of their own */
	/* What was found last, with what it refers to; of a cause that is known. */
	bool known;
	double ended_cost_ns; /* when it was told last that it is over; below 0: never */
	struct m_incident row;
	struct incident_texts texts;
};

struct session_diagnose {
	incident_told_fn *tell;
	void *ctx;
	pthread_mutex_t lock;
	VEC(struct anomaly) came; /* under lock */

	VEC(struct anomaly) anomalies; /* without their strings */
	VEC(struct watched_incident) watched;
	struct live_window *window;
	const struct session_view *view; /* of this batch */
};

struct session_diagnose *session_diagnose_new(incident_told_fn *tell, void *ctx)
{
	struct session_diagnose *d = xcalloc(1, sizeof(*d));
	d->tell = tell;
	d->ctx = ctx;
	d->window = live_window_new(WINDOW_BYTES);
	pthread_mutex_init(&d->lock, NULL);
	return d;
}

void session_diagnose_free(struct session_diagnose *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->watched.len; i++)
		incident_texts_free(&d->watched.data[i].texts);
	vec_free(&d->watched);
	vec_free(&d->anomalies);
	vec_free(&d->came);
	live_window_free(d->window);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

void session_diagnose_anomaly(struct session_diagnose *d, const struct anomaly *a)
{
	struct anomaly row = *a;
	row.name = "";
	row.calls_len = row.features_len = 0;
	row.line.function = row.line.file = NULL;
	pthread_mutex_lock(&d->lock);
	*vec_push(&d->came) = row;
	pthread_mutex_unlock(&d->lock);
}

/* ---- what is watched ---- */

static bool lasts(const struct session_diagnose *d, uint64_t incident)
{
	for (size_t i = 0; i < d->anomalies.len; i++)
		if (d->anomalies.data[i].incident == incident && !d->anomalies.data[i].ended)
			return true;
	return false;
}

static void resume(struct watched_incident *w, const struct anomaly *a)
{
	w->over = false;
	w->due_ns = a->told_ns + FIRST_NS;
	w->wait_ns = SOON_NS;
}

/* What came may be because of something else. */
static void hurry(struct watched_incident *w, const struct anomaly *a)
{
	uint64_t soon_ns = a->told_ns + FIRST_NS;
	if (soon_ns < w->looked_ns + HURRY_NS)
		soon_ns = w->looked_ns + HURRY_NS;
	if (w->due_ns > soon_ns)
		w->due_ns = soon_ns;
}

static void watch(struct session_diagnose *d, const struct anomaly *a, bool is_new)
{
	for (size_t i = 0; i < d->watched.len; i++) {
		struct watched_incident *w = &d->watched.data[i];
		if (w->id != a->incident)
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
	*vec_push(&d->watched) = (struct watched_incident){.id = a->incident,
							   .due_ns = a->told_ns + FIRST_NS,
							   .wait_ns = SOON_NS,
							   .told_ns = told_ns,
							   .ended_cost_ns = -1};
}

/* Returns whether it was not known. */
static bool take_anomaly(struct session_diagnose *d, const struct anomaly *a)
{
	for (size_t i = 0; i < d->anomalies.len; i++)
		if (d->anomalies.data[i].id == a->id) {
			d->anomalies.data[i] = *a;
			return false;
		}
	if (d->anomalies.len < LASTING_MOST + ENDED_MOST)
		*vec_push(&d->anomalies) = *a;
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

static void put(struct session_diagnose *d, const struct m_incident *row,
		const struct incident_texts *texts)
{
	pipeline_row(d->view->pipeline, ROW_INCIDENT, row, (const char *const *)texts->of,
		     texts->len);
}

static void tell(struct session_diagnose *d, struct watched_incident *w)
{
	const struct incident_said said = {.row = &w->row, .texts = &w->texts};
	if (w->row.ended)
		w->ended_cost_ns = w->row.cost_ns;
	put(d, &w->row, &w->texts);
	event(d, &said);
	d->tell(d->ctx, &said);
}

/* What was found stays, of which there is more now. */
static void prolong(struct session_diagnose *d, struct watched_incident *w)
{
	double cost_ns = 0;
	for (size_t i = 0; i < d->anomalies.len; i++) {
		const struct anomaly *a = &d->anomalies.data[i];
		if (a->incident != w->id)
			continue;
		w->row.end_ns = a->end_ns > w->row.end_ns ? a->end_ns : w->row.end_ns;
		if (a->lost_ns > cost_ns) /* not of NaN */
			cost_ns = a->lost_ns;
	}
	w->row.cost_ns = cost_ns > w->row.cost_ns ? cost_ns : w->row.cost_ns;
}

/* Whether a cause is another than what was told before. */
static bool is_new_cause(const struct watched_incident *w, const struct diagnosed *in)
{
	const struct incident_said before = {.row = &w->row, .texts = &w->texts};
	return !w->known ||
	       strcmp(incident_text(&before, w->row.cause), cause_id(in->cause.cause)) != 0;
}

/* It may go on for a little after it was told that it is over: nobody needs to read that again. */
static bool is_news_of_end(const struct watched_incident *w, const struct m_incident *row)
{
	return row->ended && !(row->cost_ns <= MORE_COST * w->ended_cost_ns);
}

static void take_found(struct session_diagnose *d, struct watched_incident *w,
		       const struct diagnosed *in, const struct rec_tables *t, bool ended)
{
	struct m_incident row;
	struct incident_texts texts;
	const struct incident_said before = {.row = &w->row, .texts = &w->texts};
	if (in->blamed && is_new_cause(w, in))
		w->caused_ns = monotonic_ns();
	incident_to_row(&row, &texts, in, t, w->caused_ns, ended);
	row.told_ns = w->told_ns;
	if (!in->blamed) { /* who is its victim may not be known yet either */
		if (row.ended)
			put(d, &row, &texts);
		incident_texts_free(&texts);
		return;
	}
	const struct incident_said now = {.row = &row, .texts = &texts};
	bool news = !w->known || is_news_of_end(w, &row) ||
		    strcmp(incident_text(&before, w->row.what), incident_text(&now, row.what)) != 0;
	incident_texts_free(&w->texts);
	if (!w->known)
		w->wait_ns = AGAIN_NS;
	w->known = true;
	w->row = row;
	w->texts = texts;
	if (news)
		tell(d, w);
	else
		put(d, &w->row, &w->texts);
}

/* Of an incident's pieces the one that cost most. */
static const struct diagnosed *dearest(const struct diagnosis *found, uint64_t id)
{
	const struct diagnosed *ret = NULL;
	for (size_t i = 0; i < found->incidents.len; i++) {
		const struct diagnosed *in = &found->incidents.data[i];
		if (in->id == id && (!ret || in->blamed > ret->blamed ||
				     (in->blamed == ret->blamed && in->cost_ns > ret->cost_ns)))
			ret = in;
	}
	return ret;
}

static uint64_t onsets_apart_ns(const struct diagnosed *in, const struct m_incident *row)
{
	return in->onset_ns > row->onset_ns ? in->onset_ns - row->onset_ns
					    : row->onset_ns - in->onset_ns;
}

/* The piece that the row is of: until when it goes on was not known. NULL: it is not found any
 * more.
 */
static const struct diagnosed *piece_of_row(const struct diagnosis *found,
					    const struct watched_incident *w)
{
	const struct diagnosed *ret = NULL;
	for (size_t i = 0; i < found->incidents.len; i++) {
		const struct diagnosed *in = &found->incidents.data[i];
		if (in->id == w->id && in->onset_ns + PIECE_NS > w->from_ns &&
		    in->onset_ns < w->row.end_ns && in->end_ns > w->row.onset_ns &&
		    (!ret || onsets_apart_ns(in, &w->row) < onsets_apart_ns(ret, &w->row)))
			ret = in;
	}
	return ret;
}

/* The first piece that follows, if it is long enough to be one. */
static const struct diagnosed *piece_behind(const struct diagnosis *found, uint64_t id,
					    uint64_t end_ns)
{
	for (size_t i = 0; i < found->incidents.len; i++) {
		const struct diagnosed *in = &found->incidents.data[i];
		if (in->id == id && in->blamed && in->onset_ns + PIECE_NS > end_ns &&
		    in->end_ns - in->onset_ns >= PIECE_NS)
			return in;
	}
	return NULL;
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

static bool is_due(const struct watched_incident *w, uint64_t now_ns)
{
	return !w->over && w->due_ns <= now_ns;
}

/* Whether what was found is better than what is known: it is of the same process, and the window
 * still has what is usual, before the incident. */
static bool is_better(const struct watched_incident *w, const struct diagnosed *in,
		      uint64_t begin_ns)
{
	return !w->known ||
	       (in->blamed && in->pid == w->row.pid && begin_ns + USUAL_NS <= w->row.onset_ns);
}

/* A row of its own for the piece that follows. */
static void begin_row(struct watched_incident *w, const struct diagnosed *in)
{
	incident_texts_free(&w->texts);
	w->known = false;
	w->ended_cost_ns = -1;
	w->from_ns = in->onset_ns;
	w->told_ns = in->told_ns > w->told_ns ? in->told_ns : w->told_ns + 1; /* a key */
}

/* What its row says stays, until another piece began. */
static void end_row(struct session_diagnose *d, struct watched_incident *w, uint64_t end_ns)
{
	if (w->row.end_ns > end_ns)
		w->row.end_ns = end_ns;
	w->row.ended = true;
	put(d, &w->row, &w->texts);
}

static void tell_piece(struct session_diagnose *d, struct watched_incident *w,
		       const struct diagnosed *in, const struct rec_tables *t, uint64_t begin_ns,
		       bool has_next)
{
	if (in && is_better(w, in, begin_ns)) {
		take_found(d, w, in, t, has_next || !lasts(d, w->id));
		return;
	}
	if (!w->known)
		return;
	if (!has_next)
		prolong(d, w);
	w->row.ended = has_next || !lasts(d, w->id);
	if (!w->row.ended)
		return;
	if (is_news_of_end(w, &w->row))
		tell(d, w);
	else
		put(d, &w->row, &w->texts);
}

/* Piece after piece: what it went on as has a row of its own, by which its first is over. */
static void tell_incident(struct session_diagnose *d, struct watched_incident *w,
			  const struct diagnosis *found, const struct rec_tables *t,
			  uint64_t begin_ns)
{
	const struct diagnosed *in = w->known ? piece_of_row(found, w) : dearest(found, w->id);
	if (w->known && in && in->blamed &&
	    in->onset_ns > w->told_ns) { /* that was something else */
		end_row(d, w, in->onset_ns);
		begin_row(w, in);
	}
	for (;;) {
		uint64_t end_ns = in ? in->end_ns : w->row.end_ns;
		const struct diagnosed *next =
			w->known || in ? piece_behind(found, w->id, end_ns) : NULL;
		tell_piece(d, w, in, t, begin_ns, next != NULL);
		if (!next || !w->known)
			return;
		begin_row(w, next);
		in = next;
	}
}

static void tell_found(struct session_diagnose *d, const struct diagnosis *found,
		       const struct rec_tables *t, uint64_t begin_ns, uint64_t now_ns)
{
	for (size_t i = 0; i < d->watched.len; i++) {
		struct watched_incident *w = &d->watched.data[i];
		if (!is_due(w, now_ns))
			continue;
		w->looked_ns = now_ns;
		tell_incident(d, w, found, t, begin_ns);
	}
}

static void diagnose(struct session_diagnose *d, uint64_t now_ns)
{
	uint64_t begin_ns;
	const struct row_source *s = live_window_rows(d->window, &begin_ns);
	struct anomaly_list list = {0};
	struct timeline timeline;
	struct steps steps;
	struct diagnosis found;
	list_anomalies(d, &list, now_ns);
	timeline_make(&timeline, s, &(struct timeline_options){.demangle = demangle});
	steps_make(&steps, s, NULL);
	diagnosis_make(&found, s, &timeline, &steps, &list, &(struct diagnosis_options){0});
	tell_found(d, &found, s->tables, begin_ns, now_ns);
	diagnosis_free(&found);
	steps_free(&steps);
	timeline_free(&timeline);
	vec_free(&list.rows);
}

/* Of those that are over the latest stay. */
static void forget_over(struct session_diagnose *d)
{
	size_t over = 0, left = 0;
	for (size_t i = 0; i < d->watched.len; i++)
		over += d->watched.data[i].over;
	for (size_t i = 0; i < d->watched.len; i++) {
		struct watched_incident *w = &d->watched.data[i];
		if (w->over && over-- > OVER_MOST)
			incident_texts_free(&w->texts);
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
		w->over = !lasts(d, w->id);
		w->due_ns = now_ns + w->wait_ns;
		w->wait_ns *= 2;
	}
	forget_over(d);
}

static void look(struct session_diagnose *d, uint64_t now_ns)
{
	bool due = false;
	for (size_t i = 0; i < d->watched.len; i++) {
		struct watched_incident *w = &d->watched.data[i];
		uint64_t soon_ns = now_ns + LATE_NS;
		if (!w->over && !lasts(d, w->id) && w->due_ns > soon_ns)
			w->due_ns = soon_ns;
		due |= is_due(w, now_ns);
	}
	if (!due)
		return;
	diagnose(d, now_ns);
	go_on(d, now_ns);
}

void session_diagnose_batch(void *ctx, const struct session_view *v)
{
	struct session_diagnose *d = ctx;
	d->view = v;
	live_window_take(d->window, v);
	take_anomalies(d);
	if (d->watched.len)
		look(d, v->batch->upto_ns);
}

void session_diagnose_end(void *ctx, const struct session_view *v)
{
	struct session_diagnose *d = ctx;
	d->view = v;
	take_anomalies(d);
	for (size_t i = 0; i < d->watched.len; i++)
		d->watched.data[i].due_ns = 0;
	if (d->watched.len)
		diagnose(d, monotonic_ns());
}
