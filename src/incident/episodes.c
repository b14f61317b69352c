/* episodes.c - rows that were not normal, put together to anomalies.
 *
 * An anomaly opens at an alarmed row, or beside one of its job (p below BESIDE_P), and begins where
 * the shift that the sum tells did; rows before it that are unlikely (p below NEAR_P, or that)
 * belong to it. It goes on to the last row where the
 * sum of the rows' evidence beyond ONSET_SLACK has risen by that of one such row, or that is as
 * rare as a sum counts (CUSUM_MOST), and has ended when more than GAP_ROWS rows after that have so
 * little of it that the sum has fallen by OVER. Rows that are half as rare as its own in the mean
 * are none for it: what lingers after a fault is not the fault. Rows within it that have not even
 * DOUBTFUL, nor that half, are none of it. It is told when it is found, and again when it has
 * ended.
 *
 * Where a job that is slow becomes far slower (JUMP), from one row to the next and for two of them,
 * something else has begun: all anomalies of its incident end there, and another incident begins.
 * One that stands for long would else hide a fault that comes after it. */
#include "incident/episodes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "incident/lost_in_line.h"

#define ONSET_SLACK 2.5
#define RARITY_MOST 24.0 /* what is rarer is no more so: of long tails little is known */
#define CALLS_MOST  64	 /* keys of an anomaly that are added up */
#define OVER	    3.0	 /* two normal rows have about as much */
#define DOUBTFUL    3.5	 /* -ln p: three rows in a hundred have more */
#define JUMP	    0.3	 /* more of ln time lost than before, and twice as much: a third longer */
#define JUMP_AFTER  2	 /* rows: the first that a fault is in, it may be in in part */

static void episode_free(struct episode *e)
{
	for (size_t i = 0; i < e->texts.len; i++)
		free(e->texts.data[i]);
	vec_free(&e->texts);
	vec_free(&e->calls);
	vec_free(&e->after);
	vec_free(&e->doubtful);
	free(e);
}

void episodes_free(struct episodes *s)
{
	for (size_t i = 0; i < s->list.len; i++)
		episode_free(s->list.data[i]);
	vec_free(&s->list);
}

static int by_key(const void *a, const void *b)
{
	const struct window_key *x = a, *y = b;
	return x->key < y->key ? -1 : x->key > y->key;
}

static struct window_key *call_of(const struct episode *e, const struct window_key *k)
{
	return e->calls.len ? bsearch(k, e->calls.data, e->calls.len, sizeof(*k), by_key) : NULL;
}

static void call_add(struct episode *e, const struct window_key *k)
{
	struct window_key *at = call_of(e, k);
	if (at) {
		at->calls += k->calls;
		at->total_ns += k->total_ns;
		at->usual_ns += k->usual_ns;
		at->gap_ns += k->gap_ns;
		at->usual_gap_ns += k->usual_gap_ns;
	} else if (e->calls.len < CALLS_MOST) {
		*vec_push(&e->calls) = *k;
		qsort(e->calls.data, e->calls.len, sizeof(*k), by_key);
	}
}

static void call_take_back(struct episode *e, const struct window_key *k)
{
	struct window_key *at = call_of(e, k);
	if (!at)
		return; /* there was no room */
	at->calls -= k->calls < at->calls ? k->calls : at->calls;
	at->total_ns -= k->total_ns;
	at->usual_ns -= k->usual_ns;
	at->gap_ns -= k->gap_ns;
	at->usual_gap_ns -= k->usual_gap_ns;
	if (at->calls)
		return;
	e->calls.len--;
	size_t behind = e->calls.len - (size_t)(at - e->calls.data);
	memmove(at, at + 1, behind * sizeof(*at));
}

static struct episode *episode_open(struct episodes *all, struct series *s, const struct judged *j)
{
	struct episode *e = xcalloc(1, sizeof(*e));
	e->series = s;
	e->process = j->row->pid ? j->row->pid : j->row->gpu_pid;
	e->beside = j->beside;
	e->a = (struct anomaly){.id = ++all->last_id,
				.start_ns = j->row->start_ns,
				.end_ns = j->row->end_ns,
				.told_ns = j->row->end_ns,
				.layer = s->layer,
				.pid = s->pid,
				.gpu = s->gpu,
				.name = "",
				.p_value = 2,
				.lost_ns = NAN,
				.lost_by_pace = true};
	snprintf(e->a.layer_name, sizeof(e->a.layer_name), "%s",
		 detect_layer_name(detect_keys_layers(all->known->keys), s->layer));
	*vec_push(&all->list) = e;
	s->open = e;
	return e;
}

/* Of a row that was not judged 0. */
static double rarity(double p)
{
	return isnan(p) ? 0 : fmin(-log(p), RARITY_MOST);
}

static double evidence(double p)
{
	return rarity(p) - ONSET_SLACK;
}

/* What a row before the one that alarmed has at least where it is of the same. By the pace half as
 * much: what was odd before a fault is not the fault. */
static double slack_of(const struct judged *j)
{
	return j->by_pace ? fmax(ONSET_SLACK, rarity(j->p) / 2) : ONSET_SLACK;
}

/* A sum may not have been back at zero for long before its shift began. The shift began where the
 * rows up to the alarm have most evidence beyond the slack each; since_ns where all of them do.
 * Beyond rows that would end an anomaly is another one. */
static uint64_t onset(const struct series *s, uint64_t since_ns, uint64_t alarmed_ns, double slack)
{
	double sum = 0, best = 0;
	uint64_t ret = alarmed_ns;
	uint32_t i = 0;
	for (; i < s->recent_len && series_recent(s, i)->start_ns >= since_ns; i++) {
		sum += rarity(series_recent(s, i)->p) - slack;
		if (sum < best - OVER)
			break;
		if (sum <= best)
			continue;
		best = sum;
		ret = series_recent(s, i)->start_ns;
	}
	bool reaches = i == RECENT_ROWS && ret == series_recent(s, i - 1)->start_ns;
	return reaches ? since_ns : ret;
}

static double loss_of(const struct recent_row *r)
{
	return -log1p(-fmin(0.99, r->calls.lost_ns / (double)(r->end_ns - r->start_ns)));
}

/* A row becomes one of the anomaly. Which of them are doubtful is asked for rows that are told
 * afterwards: live an anomaly may last for days. */
static void join_row(const struct episodes *all, struct episode *e, const struct recent_row *r)
{
	if (all->o->whole && rarity(r->p) < DOUBTFUL)
		*vec_push(&e->doubtful) =
			(struct doubtful_row){r->start_ns, r->end_ns, rarity(r->p)};
	if (isnan(r->p))
		return;
	for (uint32_t i = 0; i < r->calls.len; i++)
		call_add(e, &r->calls.keys[i]);
	e->a.windows++;
	e->rarity += rarity(r->p);
	if (isfinite(r->calls.lost_ns)) {
		e->a.lost_by_pace &= r->by_pace;
		e->a.lost_ns = (isfinite(e->a.lost_ns) ? e->a.lost_ns : 0) + r->calls.lost_ns;
		e->loss += loss_of(r);
		e->losses++;
	}
	e->last[e->last_at] = *r;
	e->last_at = (e->last_at + 1) % LAST_ROWS;
	e->last_len += e->last_len < LAST_ROWS;
}

static void leave_row(struct episode *e, const struct recent_row *r)
{
	for (uint32_t i = 0; i < r->calls.len; i++)
		call_take_back(e, &r->calls.keys[i]);
	e->a.windows--;
	e->rarity -= rarity(r->p);
	if (isfinite(r->calls.lost_ns)) {
		e->a.lost_ns = fmax(0, e->a.lost_ns - r->calls.lost_ns);
		e->loss -= loss_of(r);
		e->losses--;
	}
}

/* Rows that begin then or later are not of the anomaly, but perhaps of its series' next one. */
static void give_back_rows(struct episode *e, uint64_t from_ns)
{
	for (uint32_t back = e->last_len; back > 0; back--) {
		const struct recent_row *r = &e->last[(e->last_at + LAST_ROWS - back) % LAST_ROWS];
		if (r->start_ns < from_ns)
			continue;
		leave_row(e, r);
		series_recent_push(e->series, r);
	}
}

/* Rows before the alarmed one: those of its sum, and neighbours that are about as unlikely. */
static void join_recent(const struct episodes *all, struct episode *e, struct series *s,
			const struct judged *j)
{
	uint32_t n = 0;
	double slack = slack_of(j), near = fmax(slack, -log(j->alarmed ? NEAR_P : BESIDE_P));
	uint64_t since_ns = onset(s, j->since_ns, e->a.start_ns, slack);
	/* What is beside an incident does not begin before it. */
	uint64_t least_ns = j->alarmed ? 0 : incidents_since(all->incidents, e->process);
	while (n < s->recent_len && series_recent(s, n)->start_ns >= least_ns &&
	       (series_recent(s, n)->start_ns >= since_ns || rarity(series_recent(s, n)->p) > near))
		n++;
	if (n)
		e->a.start_ns = series_recent(s, n - 1)->start_ns;
	while (n > 0)
		join_row(all, e, series_recent(s, --n));
	s->recent_len = 0;
	if (since_ns < e->a.start_ns)
		e->a.start_ns = since_ns;
}

static struct recent_row row_of(const struct judged *j)
{
	struct recent_row r = {.start_ns = j->row->start_ns,
			       .end_ns = j->row->end_ns,
			       .p = j->p,
			       .calls = j->made->calls,
			       .by_pace = !isnan(j->lost_ns)};
	if (!isnan(j->lost_ns))
		r.calls.lost_ns = j->lost_ns;
	return r;
}

static void hand_out(const struct episodes *all, struct episode *e)
{
	/* who reads a file is told once, at the end */
	episode_describe(all->known, e, !all->o->whole);
	incidents_told(all->incidents, &e->a, e->process);
	e->a.lost_until_ns = e->a.end_ns;
	struct anomaly told = e->a;
	struct anomaly_line line;
	if (all->lines &&
	    line_times_most(all->lines, told.pid, told.start_ns, told.end_ns, &line)) {
		/* of a long one the last minute is known */
		double length = (double)(told.end_ns - told.start_ns);
		told.lost_ns *= fmin(1, (double)LINE_TIMES_NS / fmax(length, 1));
		lost_in_line(&told, &line);
		told.lost_ns = e->a.lost_ns;
	}
	if (all->o->tell)
		all->o->tell(all->o->tell_ctx, &told);
}

/* Takes the rows after its last. */
static void take_after(const struct episodes *all, struct episode *e)
{
	for (size_t i = 0; i < e->after.len; i++) {
		join_row(all, e, &e->after.data[i]);
		e->a.end_ns = e->after.data[i].end_ns;
	}
	e->after.len = 0;
	e->quiet = 0;
	e->evidence = 0;
}

/* Takes the row, and those in between that were quiet. */
static void extend(const struct episodes *all, struct episode *e, const struct judged *j)
{
	take_after(all, e);
	e->a.end_ns = j->row->end_ns;
	struct recent_row row = row_of(j);
	join_row(all, e, &row);
	if (j->p >= e->a.p_value)
		return;
	e->a.p_value = j->p;
	e->a.score = -log10(j->p);
	episode_features(all->known, e, j);
}

/* Half of what its rows have in the mean: rows that have less are less than wholly in it. */
static double half_rarity(const struct episode *e)
{
	return e->a.windows ? e->rarity / e->a.windows / 2 : 0;
}

/* Its time less its rows that are as usual. */
static void pieces_of(const struct episode *e, pieces *ret)
{
	double usual = half_rarity(e);
	uint64_t at = e->a.start_ns, end_ns = e->a.end_ns;
	for (size_t i = 0; i < e->doubtful.len && at < end_ns; i++) {
		const struct doubtful_row *r = &e->doubtful.data[i];
		if (r->rarity >= usual || r->end_ns <= at)
			continue;
		if (r->start_ns > at)
			*vec_push(ret) =
				(struct piece){at, r->start_ns < end_ns ? r->start_ns : end_ns};
		at = r->end_ns;
	}
	if (at < end_ns)
		*vec_push(ret) = (struct piece){at, end_ns};
}

static void cover_rows(const struct episodes *all, const struct episode *e)
{
	pieces parts = {0};
	pieces_of(e, &parts);
	told_rows_cover(all->rows, &e->a, &parts);
	vec_free(&parts);
}

void episode_end(struct episodes *all, struct series *s)
{
	struct episode *e = s->open;
	if (e->jump_ns) /* it was one row, and the last */
		take_after(all, e);
	s->open = NULL;
	s->cusum = (struct cusum){0};
	e->a.ended = true;
	if (all->o->whole)
		cover_rows(all, e);
	hand_out(all, e);
	if (all->o->event)
		return; /* events are looked for in it: event_reread.c */
	for (size_t i = 0; i < all->list.len; i++)
		if (all->list.data[i] == e)
			all->list.data[i--] = all->list.data[--all->list.len];
	episode_free(e);
}

static void open_at(struct episodes *all, struct series *s, const struct judged *j)
{
	struct episode *e = episode_open(all, s, j);
	join_recent(all, e, s, j);
	extend(all, e, j);
	hand_out(all, e);
}

static bool is_jump(const struct episode *e, const struct judged *j)
{
	if (!j->by_pace || !j->alarmed || isnan(j->lost_ns) || e->losses < JUMP_AFTER)
		return false;
	struct recent_row row = row_of(j);
	double before = e->loss / e->losses, now = loss_of(&row);
	return now >= 2 * before && now >= before + JUMP;
}

static void end_at(struct episodes *all, struct episode *e, uint64_t end_ns)
{
	e->a.end_ns = e->a.end_ns < end_ns ? e->a.end_ns : end_ns;
	e->after.len = 0;
	e->jump_ns = 0;
	give_back_rows(e, end_ns);
	episode_end(all, e->series);
}

/* Ends all that lasts of an incident at that time. What began later is of the next one. */
static void end_incident(struct episodes *all, uint64_t incident, uint64_t end_ns)
{
	for (size_t i = 0; i < all->list.len; i++) {
		struct anomaly *a = &all->list.data[i]->a;
		if (a->ended || a->incident != incident || a->start_ns < end_ns)
			continue;
		incidents_leave(all->incidents, incident);
		a->incident = 0; /* until the next one is told */
	}
	for (size_t i = all->list.len; i-- > 0;) {
		struct episode *e = all->list.data[i];
		if (!e->a.ended && e->a.incident == incident)
			end_at(all, e, end_ns);
	}
	incidents_close(all->incidents, incident);
}

/* Whether anything tells of an incident that is not beside it: another rank may be slow still. */
static bool is_told_still(const struct episodes *all, uint64_t incident)
{
	for (size_t i = 0; i < all->list.len; i++) {
		const struct episode *e = all->list.data[i];
		if (!e->a.ended && !e->beside && e->a.incident == incident)
			return true;
	}
	return false;
}

void episodes_end_beside(struct episodes *all, uint64_t incident, uint64_t end_ns)
{
	if (is_told_still(all, incident))
		return;
	for (size_t i = all->list.len; i-- > 0;) {
		struct episode *e = all->list.data[i];
		if (!e->a.ended && e->beside && e->a.incident == incident)
			end_at(all, e, end_ns > e->a.start_ns ? end_ns : e->a.end_ns);
	}
}

/* The second such row: the incident ends before the first of them, and another begins. */
static void jump(struct episodes *all, struct series *s, const struct judged *j)
{
	struct recent_row first = s->open->after.data[s->open->after.len - 1];
	struct judged begins = *j;
	begins.since_ns = first.start_ns;
	end_incident(all, s->open->a.incident, first.start_ns);
	series_recent_push(s, &first);
	open_at(all, s, &begins);
	for (size_t i = 0; i < all->list.len; i++) {
		struct episode *e = all->list.data[i];
		e->a.moved = !e->a.incident;
		if (e->a.moved)
			hand_out(all, e);
		e->a.moved = false;
	}
}

/* A row after the last one of the anomaly: it goes on up to here, may do so, or has ended. */
static bool follow(struct episodes *all, struct series *s, const struct judged *j)
{
	struct episode *e = s->open;
	if (is_jump(e, j)) {
		if (e->jump_ns) {
			jump(all, s, j);
			return true;
		}
		e->jump_ns = j->row->start_ns;
		*vec_push(&e->after) = row_of(j);
		return true;
	}
	if (e->jump_ns) { /* it was one row */
		e->jump_ns = 0;
		take_after(all, e);
	}
	double of_row = rarity(j->p) - fmax(ONSET_SLACK, half_rarity(e));
	e->evidence += of_row;
	bool by_itself = e->evidence > evidence(NEAR_P) || rarity(j->p) >= CUSUM_MOST;
	if (by_itself || j->beside) {
		extend(all, e, j);
		return by_itself;
	}
	*vec_push(&e->after) = row_of(j);
	e->quiet++;
	if (e->quiet > GAP_ROWS && (e->evidence < -OVER || e->quiet >= RECENT_ROWS))
		episode_end(all, s);
	return false;
}

static bool is_beyond(const struct episode *e, const struct feature_row *row)
{
	uint64_t length = row->end_ns - row->start_ns;
	return row->start_ns > e->a.end_ns + (e->quiet + GAP_ROWS + 1) * length;
}

static bool is_after_pause(uint64_t end_ns, const struct feature_row *row)
{
	return row->start_ns > end_ns + PAUSE_ROWS * (row->end_ns - row->start_ns);
}

void episode_unjudged(struct episodes *all, struct series *s, const struct feature_row *row)
{
	struct recent_row r = {.start_ns = row->start_ns, .end_ns = row->end_ns, .p = NAN};
	if (!s->open) {
		s->recent_len = 0;
		s->cusum = (struct cusum){0};
	} else if (is_beyond(s->open, row)) {
		episode_end(all, s);
	} else {
		if (s->open->jump_ns) { /* it was one row, as far as is known */
			s->open->jump_ns = 0;
			take_after(all, s->open);
		}
		*vec_push(&s->open->after) = r;
	}
}

bool episode_row(struct episodes *all, struct series *s, const struct judged *j)
{
	struct episode *e = s->open;
	if (e && is_beyond(e, j->row)) {
		episode_end(all, s);
		e = NULL;
	}
	if (s->recent_len && is_after_pause(series_recent(s, 0)->end_ns, j->row))
		s->recent_len = 0;
	if (e)
		return follow(all, s, j);
	if (!j->alarmed && !j->beside) {
		struct recent_row r = row_of(j);
		series_recent_push(s, &r);
		return false;
	}
	open_at(all, s, j);
	return j->alarmed;
}
