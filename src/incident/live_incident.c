/* live_incident.c - which piece of what was found the row at hand is of, and where the next begins.
 */
#include "incident/live_incident.h"

#include <math.h>
#include <string.h>

#define USUAL_NS  2000000000ULL /* before an incident: with less there is nothing to compare */
#define MORE_COST 1.2		/* what is told again, that went on after its end */
#define PIECE_NS  1000000000ULL /* how well it is known where a piece begins, at best */
#define BESIDES	  8		/* causes that are told beside those of an incident */
#define KEY_NS	  1000		/* between keys: who reads them as doubles tells them apart */

void live_incident_begin(struct live_incident *ret, uint64_t id, uint64_t told_ns)
{
	*ret = (struct live_incident){.id = id,
				      .told_ns = told_ns,
				      .key_ns = told_ns,
				      .last_key_ns = told_ns,
				      .ended_cost_ns = -1};
}

void live_incident_free(struct live_incident *w)
{
	incident_texts_free(&w->texts);
	for (size_t i = 0; i < w->besides.len; i++)
		incident_texts_free(&w->besides.data[i].texts);
	vec_free(&w->besides);
}

/* A time that is no key of one of its rows so far, from that on. */
static uint64_t free_key(struct live_incident *w, uint64_t told_ns)
{
	uint64_t next = w->last_key_ns + KEY_NS;
	w->last_key_ns = told_ns > next ? told_ns : next;
	return w->last_key_ns;
}

bool live_incident_has_cause(const struct live_incident *w)
{
	return w->known && w->caused_ns;
}

bool live_incident_lasts(const struct live_incident *w, const struct anomaly *anomalies, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (anomalies[i].incident == w->id && !anomalies[i].ended)
			return true;
	return w->stands;
}

static bool lasts(const struct live_incident *w, const struct live_findings *f)
{
	return live_incident_lasts(w, f->anomalies, f->anomalies_len);
}

static void put(const struct live_findings *f, struct live_incident *w, bool told)
{
	if (told)
		w->ended_cost_ns = w->row.ended ? w->row.cost_ns : -1;
	f->put(f->ctx, &(struct incident_said){.row = &w->row, .texts = &w->texts}, told);
}

/* ---- the row at hand ---- */

/* Whether a cause is another than what was told before. */
static bool is_new_cause(const struct live_incident *w, const struct diagnosed *in)
{
	const struct incident_said before = {.row = &w->row, .texts = &w->texts};
	return !w->known ||
	       strcmp(incident_text(&before, w->row.cause), cause_id(in->cause.cause)) != 0;
}

/* It may go on for a little after it was told that it is over: nobody needs to read that again. */
static bool is_news_of_end(const struct live_incident *w, const struct m_incident *row)
{
	return row->ended && !(row->cost_ns <= MORE_COST * w->ended_cost_ns);
}

static void take_found(struct live_incident *w, const struct diagnosed *in,
		       const struct live_findings *f, bool ended)
{
	struct m_incident row;
	struct incident_texts texts;
	const struct incident_said before = {.row = &w->row, .texts = &w->texts};
	if (in->blamed && is_new_cause(w, in))
		w->caused_ns = in->cause.cause == CAUSE_UNKNOWN ? 0 : f->now_ns;
	incident_to_row(&row, &texts, in, f->t, w->caused_ns, ended);
	row.told_ns = w->key_ns;
	if (!in->blamed) { /* who is its victim may not be known yet either */
		if (row.ended)
			f->put(f->ctx, &(struct incident_said){.row = &row, .texts = &texts},
			       false);
		incident_texts_free(&texts);
		return;
	}
	if (w->known && row.onset_ns > w->told_ns) /* its beginning is not looked at any more */
		row.onset_ns = w->row.onset_ns;
	const struct incident_said now = {.row = &row, .texts = &texts};
	bool news = !w->known || is_news_of_end(w, &row) ||
		    strcmp(incident_text(&before, w->row.what), incident_text(&now, row.what)) != 0;
	if (w->standing && row.pid != w->row.pid) { /* of another key */
		w->row.ended = true;
		put(f, w, false);
	}
	incident_texts_free(&w->texts);
	w->known = true;
	w->standing = false;
	w->row = row;
	w->texts = texts;
	put(f, w, news);
}

/* It costs so many times as much, by the same owners. */
static void scale(struct m_incident *row, double times)
{
	row->cost_ns *= times;
	row->usual_ns *= times;
	row->unexplained_ns *= times;
	for (size_t i = 0; i < MODEL_INCIDENT_OWNERS; i++)
		row->owner_ns[i] *= times;
}

/* What was found stays, of which there is more now. */
static void prolong(struct live_incident *w, const struct live_findings *f)
{
	double cost_ns = 0;
	for (size_t i = 0; i < f->anomalies_len; i++) {
		const struct anomaly *a = &f->anomalies[i];
		if (a->incident != w->id || a->end_ns <= w->from_ns)
			continue;
		w->row.end_ns = a->end_ns > w->row.end_ns ? a->end_ns : w->row.end_ns;
		if (a->start_ns >= w->from_ns && a->lost_ns > cost_ns) /* not of NaN */
			cost_ns = a->lost_ns;
	}
	/* Calls of many threads lose more than there is time. */
	cost_ns = fmin(cost_ns, (double)(w->row.end_ns - w->row.onset_ns));
	if (w->row.cost_ns > 0 && cost_ns > w->row.cost_ns)
		scale(&w->row, cost_ns / w->row.cost_ns);
	else if (cost_ns > 0 && !(w->row.cost_ns > 0))
		w->row.cost_ns = w->row.unexplained_ns = cost_ns;
}

/* Whether what was found can be why the job stood still: who was waited for was seen, and a
 * diagnosis that does not find that rank is wrong. */
static bool agrees(const struct live_incident *w, const struct diagnosed *in)
{
	const struct incident_said said = {.row = &w->row, .texts = &w->texts};
	uint32_t culprit = w->row.culprit_pid;
	return !culprit || in->pid == culprit ||
	       (in->cause.culprit.kind == CULPRIT_RANK && in->cause.culprit.pid == culprit) ||
	       !strcmp(incident_text(&said, w->row.cause), cause_id(in->cause.cause));
}

/* Whether what was found is better than what is known: it is of the same process, and there still
 * is what is usual, before the incident. */
static bool is_better(const struct live_incident *w, const struct diagnosed *in,
		      const struct live_findings *f)
{
	bool has_usual = f->begin_ns + USUAL_NS <= w->row.onset_ns;
	if (w->standing)
		return in->blamed && in->cause.cause != CAUSE_UNKNOWN && has_usual && agrees(w, in);
	return !w->known || (in->blamed && in->pid == w->row.pid && has_usual);
}

/* How long it stood still says the anomaly that was found by rule, once that has ended. */
static void end_standing(struct live_incident *w, const struct live_findings *f)
{
	struct m_incident *row = &w->row;
	for (size_t i = 0; i < f->anomalies_len; i++) {
		const struct anomaly *a = &f->anomalies[i];
		if (a->incident == w->id && a->ended && !(a->p_value > 0) &&
		    a->start_ns < row->end_ns && a->end_ns > row->end_ns)
			row->end_ns = a->end_ns;
	}
	row->cost_ns = row->unexplained_ns = (double)(row->end_ns - row->onset_ns);
}

/* has_next: another piece follows. */
static void tell_piece(struct live_incident *w, const struct diagnosed *in,
		       const struct live_findings *f, bool has_next)
{
	if (in && is_better(w, in, f)) {
		take_found(w, in, f, has_next || !lasts(w, f));
		return;
	}
	if (!w->known)
		return;
	if (w->standing)
		end_standing(w, f);
	else if (!has_next)
		prolong(w, f);
	else if (in)
		w->row.end_ns = in->end_ns;
	w->row.ended = has_next || !lasts(w, f);
	if (w->row.ended)
		put(f, w, is_news_of_end(w, &w->row));
}

/* What its row says stays, of the time until another piece began. */
static void end_row(struct live_incident *w, const struct live_findings *f, uint64_t end_ns)
{
	struct m_incident *row = &w->row;
	if (end_ns > row->onset_ns && end_ns < row->end_ns) {
		scale(row,
		      (double)(end_ns - row->onset_ns) / (double)(row->end_ns - row->onset_ns));
		row->end_ns = end_ns;
	}
	row->ended = true;
	put(f, w, is_news_of_end(w, row));
}

/* A row of its own for what follows. */
static void begin_row(struct live_incident *w, uint64_t onset_ns, uint64_t told_ns)
{
	incident_texts_free(&w->texts);
	w->known = w->standing = false;
	w->ended_cost_ns = -1;
	w->caused_ns = 0;
	w->from_ns = onset_ns;
	w->told_ns = told_ns > w->told_ns ? told_ns : w->told_ns;
	w->key_ns = free_key(w, told_ns);
}

/* ---- pieces ---- */

/* Of an incident's pieces the one that cost most. */
static const struct diagnosed *dearest(const struct diagnosis *found, uint64_t id)
{
	const struct diagnosed *ret = NULL;
	for (size_t i = 0; i < found->incidents.len; i++) {
		const struct diagnosed *in = &found->incidents.data[i];
		if (in->id == id && !in->beside &&
		    (!ret || in->blamed > ret->blamed ||
		     (in->blamed == ret->blamed && in->cost_ns > ret->cost_ns)))
			ret = in;
	}
	return ret;
}

/* How well it is known where a piece begins: at a step, or at a slice (diagnosis_cut.c). */
static uint64_t known_within_ns(const struct diagnosed *in)
{
	uint64_t step_ns = in->blamed && in->evidence.n_slow
				   ? (in->end_ns - in->onset_ns) / in->evidence.n_slow
				   : 0;
	return 2 * step_ns > PIECE_NS ? 2 * step_ns : PIECE_NS;
}

static uint64_t onsets_apart_ns(const struct diagnosed *in, const struct m_incident *row)
{
	return in->onset_ns > row->onset_ns ? in->onset_ns - row->onset_ns
					    : row->onset_ns - in->onset_ns;
}

/* The piece that the row is of: until when it goes on was not known. NULL: it is not found any
 * more. */
static const struct diagnosed *piece_of_row(const struct diagnosis *found,
					    const struct live_incident *w)
{
	const struct diagnosed *ret = NULL;
	for (size_t i = 0; i < found->incidents.len; i++) {
		const struct diagnosed *in = &found->incidents.data[i];
		if (in->id == w->id && !in->beside &&
		    in->onset_ns + known_within_ns(in) > w->from_ns &&
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
		if (in->id == id && !in->beside && in->blamed && in->onset_ns + PIECE_NS > end_ns &&
		    in->end_ns >= in->onset_ns + PIECE_NS)
			return in;
	}
	return NULL;
}

/* The piece that the row at hand is of, or is to be of from now on; NULL: none. */
static const struct diagnosed *piece_to_tell(struct live_incident *w, const struct live_findings *f)
{
	const struct diagnosed *in =
		w->known ? piece_of_row(f->found, w) : dearest(f->found, w->id);
	if (!in || in->onset_ns < w->told_ns)
		return in;
	if (!w->known) { /* what was told first is no part of it */
		w->from_ns = in->onset_ns;
		if (in->told_ns > w->told_ns) {
			w->told_ns = in->told_ns;
			w->key_ns = free_key(w, in->told_ns);
		}
	} else if (in->blamed && is_new_cause(w, in)) {
		end_row(w, f, in->onset_ns);
		begin_row(w, in->onset_ns, in->told_ns);
	}
	return in;
}

/* ---- what came beside ---- */

/* NULL: it was not found before. */
static struct live_beside *known_beside(struct live_incident *w, const struct diagnosed *in)
{
	for (size_t i = 0; i < w->besides.len; i++) {
		struct live_beside *b = &w->besides.data[i];
		const struct incident_said said = {.row = &b->row, .texts = &b->texts};
		if (in->pid == b->row.pid && in->onset_ns < b->row.end_ns + PIECE_NS &&
		    b->row.onset_ns < in->end_ns + PIECE_NS &&
		    !strcmp(incident_text(&said, b->row.cause), cause_id(in->cause.cause)))
			return b;
	}
	return NULL;
}

static void put_beside(const struct live_findings *f, struct live_beside *b, bool is_new)
{
	bool news = is_new || (b->row.ended && !(b->row.cost_ns <= MORE_COST * b->ended_cost_ns));
	if (news)
		b->ended_cost_ns = b->row.ended ? b->row.cost_ns : -1;
	f->put(f->ctx, &(struct incident_said){.row = &b->row, .texts = &b->texts}, news);
}

/* It is over where a second of what it came to followed. */
static bool beside_is_over(const struct live_incident *w, const struct diagnosed *in,
			   const struct live_findings *f)
{
	const struct diagnosed *to = diagnosis_came_to(f->found, in);
	return !lasts(w, f) || (to && in->end_ns + PIECE_NS <= to->end_ns);
}

static struct live_beside *first_ended(struct live_incident *w)
{
	struct live_beside *ret = NULL;
	for (size_t i = 0; i < w->besides.len; i++) {
		struct live_beside *b = &w->besides.data[i];
		if (b->row.ended && (!ret || b->row.end_ns < ret->row.end_ns))
			ret = b;
	}
	return ret;
}

/* Where there is no room that which ended first gives its own. NULL: all go on. */
static struct live_beside *new_beside(struct live_incident *w)
{
	bool has_room = w->besides.len < BESIDES;
	struct live_beside *ret = has_room ? vec_push(&w->besides) : first_ended(w);
	if (!ret)
		return NULL;
	incident_texts_free(&ret->texts);
	*ret = (struct live_beside){.ended_cost_ns = -1};
	return ret;
}

/* Its beginning is not looked at any more: what it cost goes on as it is found now. */
static void prolong_beside(struct live_beside *b, const struct diagnosed *in)
{
	struct m_incident *row = &b->row;
	if (in->end_ns <= row->end_ns)
		return;
	double more = (double)(in->end_ns - row->end_ns) / (double)(in->end_ns - in->onset_ns);
	double cost_ns = row->cost_ns + fmin(more, 1) * in->cost_ns;
	if (row->cost_ns > 0 && cost_ns > row->cost_ns)
		scale(row, cost_ns / row->cost_ns);
	row->end_ns = in->end_ns;
}

static void tell_beside(struct live_incident *w, const struct diagnosed *in,
			const struct live_findings *f)
{
	struct live_beside *b = known_beside(w, in);
	bool is_new = !b;
	if (is_new && !(b = new_beside(w)))
		return;
	b->found_ns = f->now_ns;
	if (!is_new && f->begin_ns + USUAL_NS > b->row.onset_ns) {
		prolong_beside(b, in);
		b->row.ended = beside_is_over(w, in, f);
		put_beside(f, b, false);
		return;
	}
	uint64_t onset_ns = is_new ? in->onset_ns : b->row.onset_ns;
	uint64_t key = is_new ? free_key(w, in->told_ns) : b->row.told_ns;
	b->caused_ns = is_new ? f->now_ns : b->caused_ns;
	incident_texts_free(&b->texts);
	incident_to_row(&b->row, &b->texts, in, f->t, b->caused_ns, beside_is_over(w, in, f));
	if (b->row.onset_ns > key) /* it was told before */
		b->row.onset_ns = onset_ns;
	b->row.told_ns = key;
	put_beside(f, b, is_new);
}

static void tell_besides(struct live_incident *w, const struct live_findings *f)
{
	uint64_t upto_ns = 0; /* of the incident's pieces */
	for (size_t i = 0; i < f->found->incidents.len; i++) {
		const struct diagnosed *in = &f->found->incidents.data[i];
		if (in->id == w->id && !in->beside && in->end_ns > upto_ns)
			upto_ns = in->end_ns;
		if (in->id == w->id && in->beside && in->blamed)
			tell_beside(w, in, f);
	}
	for (size_t i = 0; i < w->besides.len; i++) {
		struct live_beside *b = &w->besides.data[i];
		bool gone = b->found_ns != f->now_ns && b->row.end_ns + PIECE_NS <= upto_ns;
		if (b->row.ended || (lasts(w, f) && !gone))
			continue;
		b->row.ended = true;
		put_beside(f, b, false);
	}
}

static void tell_pieces(struct live_incident *w, const struct live_findings *f)
{
	const struct diagnosed *in = piece_to_tell(w, f);
	for (;;) {
		uint64_t end_ns = in ? in->end_ns : w->row.end_ns;
		const struct diagnosed *next =
			w->known || in ? piece_behind(f->found, w->id, end_ns) : NULL;
		tell_piece(w, in, f, next != NULL);
		if (!next || !w->known)
			return;
		begin_row(w, next->onset_ns, next->told_ns);
		in = next;
	}
}

/* ---- what stands still ---- */

/* A row that has no cause becomes its own; one with a cause is of the time before. */
static void begin_standing(struct live_incident *w, const struct live_findings *f,
			   const struct standing *s)
{
	bool begins_later = s->since_ns >= w->told_ns;
	if (w->known && live_incident_has_cause(w)) {
		end_row(w, f, s->since_ns);
		begin_row(w, s->since_ns, f->now_ns);
	} else if (begins_later) { /* what was told first is no part of it */
		w->from_ns = s->since_ns;
		w->told_ns = f->now_ns;
		w->key_ns = w->known ? w->key_ns : free_key(w, f->now_ns);
	}
	w->caused_ns = f->now_ns;
}

static void take_standing(struct live_incident *w, const struct live_findings *f,
			  const struct standing *s)
{
	const struct diagnosed *in = dearest(f->found, w->id);
	uint32_t culprit_pid = w->row.culprit_pid, pid = w->known ? w->row.pid : in ? in->pid : 0;
	bool is_new = !w->standing;
	struct m_incident row;
	struct incident_texts texts;
	if (is_new)
		begin_standing(w, f, s);
	standing_to_row(&row, &texts, s, f->t, pid);
	if (w->known)
		row.pid = w->row.pid;
	row.id = w->id;
	row.told_ns = w->key_ns;
	row.caused_ns = w->caused_ns;
	incident_texts_free(&w->texts);
	w->known = w->standing = true;
	w->row = row;
	w->texts = texts;
	put(f, w, is_new || row.culprit_pid != culprit_pid);
}

/* Whether the incident's job stands still: what a diagnosis finds meanwhile is of the time before.
 */
static bool stands_still(struct live_incident *w, const struct live_findings *f)
{
	struct standing s;
	if (!f->standings || !lasts(w, f))
		return w->stands = false;
	bool caused = live_incident_has_cause(w) && !w->standing;
	w->stands = standing_of(&s, f->standings, standings_job(f->standings, w->id), caused) &&
		    (!caused || s.since_ns > w->row.onset_ns);
	if (w->stands)
		take_standing(w, f, &s);
	standing_free(&s);
	return w->stands;
}

void live_incident_find(struct live_incident *w, const struct live_findings *f)
{
	if (!stands_still(w, f))
		tell_pieces(w, f);
	tell_besides(w, f);
}
