/* outlook.c - series of counters: which value is of which, when each is judged, what is told of it
 * and when that has ended. What is worth a warning, outlook_rules.c says. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "incident/outlook_impl.h"

/* How often a value is judged, by its own times; how often in a row before it is told, and before
 * it is taken back: one odd value does neither. */
#define JUDGED_NS  (2 * S)
#define TOLD_AFTER 2
#define ENDS_AFTER 3

#define GOES_ON	     0.25 /* of the speed that was told; below that it has ended */
#define GOES_ON_NS   (10 * S)
#define RELEASE_NS   (2 * S)   /* what a process gives back as it ends comes at once */
#define SILENT_NS    (15 * S)  /* no value any more: what it was of has gone */
#define GONE_NS	     (120 * S) /* its room may be another's */
#define ERRORS_AGAIN 10	       /* times as many are told once more */

/* ---- telling ---- */

/* The process whose memory grows most, where that is most of what is told. */
static void name_grower(const struct outlook *o, const struct series *s, struct outlook_warning *w)
{
	struct trend_growth g;
	for (uint32_t i = 0; w->kind == OUTLOOK_RUNS_OUT && i < o->len; i++) {
		const struct series *p = o->series[i];
		bool fits = p->of && p->of->rule == outlook_leaks &&
			    (s->who.kind == ENTITY_GPU
				     ? p->of->of_pid && outlook_is_same_gpu(&p->who, &s->who)
				     : p->of->kind == ENTITY_PROCESS && s->who.kind == ENTITY_HOST);
		if (!fits || !trend_steady(&p->trend, &g) || g.per_s <= w->by_per_s ||
		    g.per_s < w->per_s / 2)
			continue;
		w->by_pid = p->who.pid;
		w->by_per_s = g.per_s;
	}
}

static void tell(struct outlook *o, struct series *s, const struct outlook_warning *w)
{
	uint64_t id = s->told ? s->warning.id : ++o->warnings;
	uint64_t since_ns = s->told ? s->warning.since_ns : w->since_ns;
	s->warning = *w;
	s->warning.id = id;
	s->warning.since_ns = since_ns;
	name_grower(o, s, &s->warning);
	s->told = !w->ended;
	o->options.tell(o->options.ctx, &s->warning);
}

static void tell_end(struct outlook *o, struct series *s)
{
	struct outlook_warning w = s->warning;
	w.ended = true;
	w.now_ns = s->last_ns;
	s->hits = s->misses = 0;
	tell(o, s, &w);
}

static bool is_forecast(const struct series *s)
{
	return s->of->rule && s->of->rule != outlook_resends;
}

/* Of what was told: whether it still grows, if not as steadily. What grows in steps has some in a
 * quarter of the time in which it was seen to grow. */
static bool goes_on(const struct series *s)
{
	const struct trend *t = &s->trend;
	uint64_t quarter_ns = (s->warning.now_ns - s->warning.since_ns) / 4;
	uint64_t window_ns = quarter_ns > GOES_ON_NS ? quarter_ns : GOES_ON_NS;
	const struct trend_point *p = trend_at(t, t->last_ns - window_ns);
	return p &&
	       t->last - p->low >= GOES_ON * s->warning.per_s * (double)(t->last_ns - p->ns) / 1e9;
}

static void judge(struct outlook *o, struct series *s)
{
	struct outlook_warning w;
	s->judged_ns = s->last_ns;
	bool holds = s->of->rule(o, s, &w);
	s->hits = holds ? s->hits + 1 : 0;
	if (!s->told) {
		if (s->hits >= TOLD_AFTER)
			tell(o, s, &w);
		return;
	}
	if (holds) { /* as it is now, for the end */
		w.id = s->warning.id;
		w.since_ns = s->warning.since_ns;
		w.by_pid = s->warning.by_pid;
		w.by_per_s = s->warning.by_per_s;
		s->warning = w;
	}
	s->misses = (is_forecast(s) ? goes_on(s) : holds) ? 0 : s->misses + 1;
	if (s->misses >= ENDS_AFTER)
		tell_end(o, s);
}

/* A count that fell began anew. */
static void count_errors(struct outlook *o, struct series *s, uint64_t ns, double value)
{
	struct outlook_warning w;
	if (isnan(s->first) || value < s->first) {
		s->first = value;
		s->again = 1;
	}
	s->trend.last = value;
	if (value - s->first < s->again)
		return;
	while (s->again <= value - s->first)
		s->again *= ERRORS_AGAIN;
	outlook_fill_in(s, NULL, &w);
	w.kind = OUTLOOK_ERRORS;
	w.value = value - s->first;
	w.from = s->first;
	w.since_ns = w.now_ns = ns;
	tell(o, s, &w);
}

/* ---- series ---- */

enum part { VALUE, BESIDE, INSTEAD };
#define NOT_ASKED UINT64_MAX

static uint64_t place_of(uint32_t at, uint32_t turn, enum part part)
{
	return (uint64_t)turn << 32 | (uint64_t)at << 2 | part;
}

static bool fits(const struct thing *t, const struct m_metric *m)
{
	return m->kind == t->kind && (m->kind != ENTITY_GPU || (m->pid != 0) == t->of_pid);
}

static const struct thing *thing_of(const struct m_metric *m, const char *name, enum part *ret)
{
	for (size_t i = 0; i < outlook_things_len; i++) {
		const struct thing *t = &outlook_things[i];
		if (!fits(t, m))
			continue;
		*ret = VALUE;
		if (!strcmp(name, t->name))
			return t;
		*ret = t->beside && !strcmp(name, t->beside) ? BESIDE : INSTEAD;
		if (*ret == BESIDE || (t->instead && !strcmp(name, t->instead)))
			return t;
	}
	return NULL;
}

static bool is_of(const struct series *s, const struct thing *t, const struct entity *e)
{
	return s->of == t && s->who.pid == e->pid && s->who.gpu == e->gpu &&
	       s->who.instance == e->instance && !strcmp(s->who.label, e->label) &&
	       s->who.host_len == e->host_len && !memcmp(s->who.host, e->host, e->host_len);
}

static uint64_t name_hash(const struct thing *t, const struct entity *e)
{
	uint64_t h = hash_u64((uint64_t)(t - outlook_things) << 32 | e->pid);
	h = hash_u64(h ^ ((uint64_t)e->gpu << 32 | (uint32_t)e->instance));
	h = hash_u64(h ^ hash_bytes(e->label, strlen(e->label)));
	return hash_u64(h ^ hash_bytes(e->host, e->host_len));
}

static void clear(struct series *s)
{
	uint32_t turn = s->turn + 1;
	free((char *)(uintptr_t)s->who.label);
	free((char *)(uintptr_t)s->who.host);
	*s = (struct series){.turn = turn};
}

static void end_one(struct outlook *o, struct series *s)
{
	struct outlook_warning w;
	if (is_forecast(s)) {
		trend_drop_fall(&s->trend, RELEASE_NS);
		if (s->of->rule(o, s, &w))
			tell(o, s, &w);
	} else if (s->told) { /* what it came to */
		w = s->warning;
		w.now_ns = s->last_ns;
		if (!s->of->rule)
			w.value = s->trend.last - s->first;
		tell(o, s, &w);
	}
}

/* Gives away the room of what has gone; seldom, where there is none. */
static void sweep(struct outlook *o, uint64_t now_ns)
{
	if (o->swept_ns && now_ns - o->swept_ns < GONE_NS / 10)
		return;
	o->swept_ns = now_ns;
	for (uint32_t i = 0; i < o->len; i++) {
		struct series *s = o->series[i];
		if (!s->of || s->last_ns + GONE_NS > now_ns)
			continue;
		if (o->options.whole && s->first_ns)
			end_one(o, s);
		map64_del(&o->by_name, name_hash(s->of, &s->who));
		clear(s);
		o->vacant++;
	}
}

static struct series *room(struct outlook *o, uint64_t now_ns, uint32_t *ret_at)
{
	if (o->len < OUTLOOK_SERIES_MOST) {
		*ret_at = o->len;
		o->series[o->len] = xcalloc(1, sizeof(struct series));
		return o->series[o->len++];
	}
	sweep(o, now_ns);
	for (uint32_t i = 0; o->vacant && i < o->len; i++) {
		*ret_at = i;
		if (!o->series[i]->of) {
			o->vacant--;
			return o->series[i];
		}
	}
	return NULL;
}

static struct series *series_of(struct outlook *o, const struct thing *t, const struct entity *e,
				uint64_t now_ns, uint32_t *ret_at)
{
	uint64_t at, hash = name_hash(t, e);
	if (map64_get(&o->by_name, hash, &at) && is_of(o->series[at], t, e)) {
		*ret_at = (uint32_t)at;
		return o->series[at];
	}
	struct series *s = room(o, now_ns, ret_at);
	if (!s)
		return NULL;
	map64_set(&o->by_name, hash, *ret_at);
	char *host = xcalloc(1, e->host_len + 1);
	memcpy(host, e->host, e->host_len);
	s->of = t;
	s->who = *e;
	s->who.label = xstrdup(e->label);
	s->who.host = host;
	s->beside = s->first = NAN;
	s->last_ns = now_ns;
	return s;
}

/* Also makes it; NULL: nobody asks for it, or there is no room. */
static struct series *look_up(struct outlook *o, const struct detect_names *n,
			      const struct m_counter *c, enum part *ret)
{
	uint64_t place;
	uint32_t at;
	if (map64_get(&o->by_number, c->metric, &place)) {
		if (place == NOT_ASKED)
			return NULL;
		struct series *s = o->series[(uint32_t)place >> 2];
		*ret = (enum part)(place & 3);
		if (s->of && s->turn == place >> 32)
			return s;
	}
	const struct m_metric *m = n->metric(n->ctx, c->metric);
	if (!m)
		return NULL;
	const struct thing *t = thing_of(m, n->string(n->ctx, m->name), ret);
	if (!t) {
		map64_set(&o->by_number, c->metric, NOT_ASKED);
		return NULL;
	}
	char *label = xstrdup(n->string(n->ctx, m->label));
	const char *host = n->string(n->ctx, m->host);
	struct entity e = {.kind = m->kind,
			   .pid = m->pid,
			   .gpu = m->gpu,
			   .instance = m->instance,
			   .label = label,
			   .host = host,
			   .host_len = strlen(host)};
	struct series *s = series_of(o, t, &e, c->time_ns, &at);
	if (s)
		map64_set(&o->by_number, c->metric, place_of(at, s->turn, *ret));
	free(label);
	return s;
}

/* A process that was not told of for so long is another of its number. */
static void begin_anew(struct outlook *o, struct series *s)
{
	if (s->told)
		tell_end(o, s);
	s->trend = (struct trend){0};
	s->hits = s->misses = 0;
	s->first_ns = s->judged_ns = 0;
}

static void take(struct outlook *o, struct series *s, uint64_t ns, double value)
{
	if (s->who.kind == ENTITY_PROCESS && s->of->rule == outlook_leaks && s->first_ns &&
	    ns > s->last_ns + SILENT_NS)
		begin_anew(o, s);
	if (s->of->is_rate)
		value = s->sum += s->first_ns ? value * (double)(ns - s->last_ns) / 1e9 : 0;
	s->last_ns = ns;
	if (!s->first_ns)
		s->first_ns = s->judged_ns = ns;
	if (!s->of->rule) {
		count_errors(o, s, ns, value);
		return;
	}
	trend_add(&s->trend, ns, s->of->falls ? -value : value, s->beside);
	if (ns - s->judged_ns >= JUDGED_NS && !(o->options.whole && is_forecast(s)))
		judge(o, s);
}

void outlook_counter(struct outlook *o, const struct detect_names *n, const struct m_counter *c)
{
	enum part part;
	struct series *s = look_up(o, n, c, &part);
	if (!s) {
		uint64_t place;
		o->left_out += !map64_get(&o->by_number, c->metric, &place);
		return;
	}
	if (!isfinite(c->value) || c->value < 0 || (s->first_ns && c->time_ns < s->last_ns))
		return;
	if (part == BESIDE) {
		s->beside = c->value;
		return;
	}
	if (part == INSTEAD && s->own_name)
		return;
	if (part == VALUE && !s->own_name && s->first_ns)
		begin_anew(o, s); /* what was taken in its place is not the same */
	s->own_name |= part == VALUE;
	take(o, s, c->time_ns, c->value);
}

void outlook_metric_gone(struct outlook *o, uint32_t metric)
{
	map64_del(&o->by_number, metric);
}

void outlook_upto(struct outlook *o, uint64_t now_ns)
{
	if (now_ns < o->looked_ns + S)
		return;
	o->looked_ns = now_ns;
	for (uint32_t i = 0; i < o->len; i++) {
		struct series *s = o->series[i];
		if (s->of && s->told && s->of->rule && s->last_ns + SILENT_NS < now_ns)
			tell_end(o, s);
	}
}

void outlook_end(struct outlook *o)
{
	for (uint32_t i = 0; i < o->len && o->options.whole; i++)
		if (o->series[i]->of && o->series[i]->first_ns)
			end_one(o, o->series[i]);
}

uint64_t outlook_left_out(const struct outlook *o)
{
	return o->left_out;
}

struct outlook *outlook_new(const struct outlook_options *options)
{
	struct outlook *o = xcalloc(1, sizeof(*o));
	o->options = *options;
	return o;
}

void outlook_free(struct outlook *o)
{
	if (!o)
		return;
	for (uint32_t i = 0; i < o->len; i++) {
		clear(o->series[i]);
		free(o->series[i]);
	}
	map64_free(&o->by_number);
	map64_free(&o->by_name);
	free(o);
}
