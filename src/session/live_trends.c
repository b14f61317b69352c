/* live_trends.c - rings of the last values, by what they are of. */
#include "session/live_trends.h"

#include <math.h>
#include <string.h>

#include "base/entity.h"

static uint64_t key_of(const struct live_metric *m)
{
	uint64_t key = hash_u64(((uint64_t)m->kind << 32) | m->pid);
	key = hash_u64(key ^ (((uint64_t)m->gpu << 32) | (uint32_t)m->instance));
	key = hash_u64(key ^ hash_bytes(m->label, strlen(m->label)));
	return hash_u64(key ^ hash_bytes(m->name, strlen(m->name)));
}

static bool is_kept(const struct live_series *s, const struct live_metric *m)
{
	if (!m->there || m->time_ns + SERIES_OLD_NS < s->now_ns)
		return false;
	if (m->kind == ENTITY_FILESYSTEM || m->kind == ENTITY_CGROUP || m->kind == ENTITY_OTHER)
		return false; /* they change slowly, and there may be many */
	const struct live_process *p =
		m->kind == ENTITY_PROCESS ? live_series_process(s, m->pid) : NULL;
	return m->kind != ENTITY_PROCESS || (p && p->called && !p->end_ns);
}

static struct live_trend *trend_of(struct live_trends *t, const struct live_metric *m)
{
	uint64_t key = key_of(m), at;
	if (map64_get(&t->place_of, key, &at))
		return &t->list.data[at];
	if (t->list.len >= TRENDS) {
		t->left_out++;
		return NULL;
	}
	map64_set(&t->place_of, key, t->list.len);
	struct live_trend *ret = vec_push(&t->list);
	*ret = (struct live_trend){.kind = m->kind,
				   .unit = m->unit,
				   .pid = m->pid,
				   .gpu = m->gpu,
				   .instance = m->instance,
				   .label = xstrdup(m->label),
				   .name = xstrdup(m->name)};
	for (size_t i = 0; i < TREND_POINTS; i++)
		ret->values[i] = NAN;
	return ret;
}

static void trend_free(struct live_trend *t)
{
	free(t->label);
	free(t->name);
}

/* Those that have nothing left in their rings. */
static void forget_old(struct live_trends *t)
{
	size_t kept = 0;
	for (size_t i = 0; i < t->list.len; i++) {
		struct live_trend *of = &t->list.data[i];
		if (of->last + TREND_POINTS > t->ticks)
			t->list.data[kept++] = *of;
		else
			trend_free(of);
	}
	if (kept == t->list.len)
		return;
	t->list.len = kept;
	map64_free(&t->place_of);
	for (size_t i = 0; i < kept; i++) {
		const struct live_trend *of = &t->list.data[i];
		const struct live_metric same = {.kind = of->kind,
						 .pid = of->pid,
						 .gpu = of->gpu,
						 .instance = of->instance,
						 .label = of->label,
						 .name = of->name};
		map64_set(&t->place_of, key_of(&same), i);
	}
}

bool live_trends_tick(struct live_trends *t, const struct live_series *s, uint64_t now_ns)
{
	if (t->ticks && now_ns < t->last_ns + TREND_EACH_NS)
		return false;
	uint64_t tick = t->ticks++;
	bool late = !tick || now_ns - t->last_ns >= 2 * TREND_EACH_NS;
	t->last_ns = late ? now_ns : t->last_ns + TREND_EACH_NS;
	t->left_out = 0;
	forget_old(t);
	for (size_t i = 0; i < t->list.len; i++)
		t->list.data[i].values[tick % TREND_POINTS] = NAN;
	for (size_t i = 0; i < s->metrics.len; i++) {
		const struct live_metric *m = &s->metrics.data[i];
		struct live_trend *of = is_kept(s, m) ? trend_of(t, m) : NULL;
		if (!of)
			continue;
		of->values[tick % TREND_POINTS] = (float)m->value;
		of->last = tick;
	}
	return true;
}

static void begin_steps(struct live_step_trend *s, const struct live_steps_view *now)
{
	s->pid = now->pid;
	s->count = now->count;
	for (size_t i = 0; i < TREND_POINTS; i++)
		s->mean[i] = s->longest[i] = NAN;
}

static bool has_steps(const struct live_jobs *jobs, uint32_t pid)
{
	for (uint32_t i = 0; i < jobs->len; i++)
		if (jobs->of[i].pid == pid)
			return true;
	return false;
}

/* There are as many as there may be jobs: where none is free, one is whose job has gone. */
static struct live_step_trend *steps_of(struct live_trends *t, const struct live_jobs *jobs,
					const struct live_steps_view *now)
{
	struct live_step_trend *gone = NULL;
	for (size_t i = 0; i < t->steps.len; i++) {
		struct live_step_trend *s = &t->steps.data[i];
		if (s->pid == now->pid)
			return s;
		if (!has_steps(jobs, s->pid))
			gone = s;
	}
	struct live_step_trend *made = t->steps.len < LIVE_JOBS ? vec_push(&t->steps) : gone;
	if (made)
		begin_steps(made, now);
	return made;
}

static void add_steps(struct live_step_trend *s, const struct live_steps_view *now, size_t at)
{
	if (now->count < s->count || !now->history.len)
		begin_steps(s, now); /* other steps: their times are not comparable */
	uint64_t ended = now->count - s->count;
	uint32_t n = ended < now->history.len ? (uint32_t)ended : now->history.len;
	double sum = 0, longest = 0;
	for (uint32_t i = now->history.len - n; i < now->history.len; i++) {
		double ns = live_history_at(&now->history, i);
		sum += ns;
		longest = fmax(longest, ns);
	}
	if (n) {
		s->mean[at] = (float)(sum / n);
		s->longest[at] = (float)longest;
	}
	s->count = now->count;
	snprintf(s->marker, sizeof(s->marker), "%s", now->marker);
}

void live_trends_steps(struct live_trends *t, const struct live_jobs *jobs)
{
	size_t at = (t->ticks - 1) % TREND_POINTS;
	for (size_t i = 0; i < t->steps.len; i++)
		t->steps.data[i].mean[at] = t->steps.data[i].longest[at] = NAN;
	for (uint32_t i = 0; i < jobs->len; i++) {
		struct live_step_trend *s = steps_of(t, jobs, &jobs->of[i]);
		if (s)
			add_steps(s, &jobs->of[i], at);
	}
}

void live_trends_free(struct live_trends *t)
{
	for (size_t i = 0; i < t->list.len; i++)
		trend_free(&t->list.data[i]);
	vec_free(&t->list);
	vec_free(&t->steps);
	map64_free(&t->place_of);
}

uint32_t live_trends_points(const struct live_trends *t)
{
	return t->ticks < TREND_POINTS ? (uint32_t)t->ticks : TREND_POINTS;
}

double live_trend_value(const struct live_trends *t, const float *values, uint32_t i)
{
	uint64_t first = t->ticks - live_trends_points(t);
	return (double)values[(first + i) % TREND_POINTS];
}
