/* line_times.c - times of lines of Python as they come. */
#include "incident/line_times.h"

#include <math.h>

#define HELD (2 * LINE_TIMES_NS) /* samples that are older than this are given up at once */

void line_times_free(struct line_times *l)
{
	map64_free(&l->at);
	map64_free(&l->since);
	vec_free(&l->totals);
	vec_free(&l->recent);
	*l = (struct line_times){0};
}

/* By its place, not by its frame: of a session that keeps nothing that is another after a while. A
 * text has one address. */
static uint64_t key_of(uint32_t pid, const struct detect_line *line)
{
	uint64_t parts[] = {pid, line->line, (uintptr_t)line->function, (uintptr_t)line->file};
	return hash_bytes(parts, sizeof(parts));
}

/* Keeps the totals that `keep` says, and the samples of these. */
static void keep_totals(struct line_times *l,
			bool (*keep)(const struct line_total *t, double limit), double limit)
{
	uint32_t *place = xcalloc(l->totals.len + 1, sizeof(*place)), n = 0;
	map64_free(&l->at);
	for (size_t i = 0; i < l->totals.len; i++) {
		const struct line_total t = l->totals.data[i];
		place[i] = UINT32_MAX;
		if (!keep(&t, limit))
			continue;
		place[i] = n;
		map64_set(&l->at, key_of(t.pid, &t.line), n);
		l->totals.data[n++] = t;
	}
	l->totals.len = n;
	n = 0;
	for (size_t i = 0; i < l->recent.len; i++) {
		struct line_sample s = l->recent.data[i];
		s.total = place[s.total];
		if (s.total != UINT32_MAX)
			l->recent.data[n++] = s;
	}
	l->recent.len = n;
	free(place);
}

static bool is_above(const struct line_total *t, double ns)
{
	return t->ns > ns;
}

static bool is_not_of(const struct line_total *t, double pid)
{
	return t->pid != (uint32_t)pid;
}

/* Lines that took less than the mean go; where all are alike, all do. */
static void make_room(struct line_times *l)
{
	double sum = 0;
	for (size_t i = 0; i < l->totals.len; i++)
		sum += l->totals.data[i].ns;
	keep_totals(l, is_above, sum / (double)l->totals.len);
}

static void forget_old(struct line_times *l)
{
	size_t n = 0;
	bool many = l->recent.len >= LINE_TIMES_SAMPLES;
	bool old = l->recent.len && l->last_ns >= HELD &&
		   l->recent.data[0].time_ns < l->last_ns - HELD;
	if (!many && !old)
		return;
	for (size_t i = many ? l->recent.len / 2 : 0; i < l->recent.len; i++)
		if (many || l->recent.data[i].time_ns >= l->last_ns - LINE_TIMES_NS)
			l->recent.data[n++] = l->recent.data[i];
	l->recent.len = n;
}

void line_times_add(struct line_times *l, uint32_t pid, const struct detect_line *line,
		    uint64_t time_ns, uint64_t weight_ns)
{
	uint64_t at;
	if (!map64_get(&l->at, key_of(pid, line), &at)) {
		if (l->totals.len == LINE_TIMES_MOST)
			make_room(l);
		at = l->totals.len;
		map64_set(&l->at, key_of(pid, line), at);
		*vec_push(&l->totals) = (struct line_total){.pid = pid, .line = *line};
	}
	l->totals.data[at].ns += (double)weight_ns;
	uint32_t total = (uint32_t)at;
	if (!map64_get(&l->since, pid, &at))
		map64_set(&l->since, pid, time_ns);
	l->last_ns = time_ns > l->last_ns ? time_ns : l->last_ns;
	forget_old(l);
	*vec_push(&l->recent) =
		(struct line_sample){time_ns, total, line->called, (double)weight_ns};
}

bool line_times_most(const struct line_times *l, uint32_t pid, uint64_t start_ns, uint64_t end_ns,
		     struct anomaly_line *ret)
{
	struct line_sum {
		double ns, called_ns, later_ns;
	} *sums = xcalloc(l->totals.len + 1, sizeof(*sums));
	*ret = (struct anomaly_line){0};
	if (end_ns > LINE_TIMES_NS && start_ns < end_ns - LINE_TIMES_NS)
		start_ns = end_ns - LINE_TIMES_NS;
	for (size_t i = 0; i < l->recent.len; i++) {
		const struct line_sample *s = &l->recent.data[i];
		if (s->time_ns >= end_ns)
			sums[s->total].later_ns += s->ns;
		if (s->time_ns < start_ns || s->time_ns >= end_ns)
			continue;
		sums[s->total].ns += s->ns;
		sums[s->total].called_ns += s->called ? s->ns : 0;
	}
	uint64_t since = 0;
	double length = (double)(end_ns - start_ns), others = 0;
	if (map64_get(&l->since, pid, &since))
		others = (double)l->last_ns - (double)since - length;
	/* what is slow may go on after what is asked for */
	double before = (double)start_ns - (double)since;
	bool is_before = since && before >= length;
	others = is_before ? before : others;
	for (size_t i = 0; i < l->totals.len && others >= length; i++) {
		const struct line_total *t = &l->totals.data[i];
		double rest_ns = t->ns - sums[i].ns - (is_before ? sums[i].later_ns : 0);
		double usual = rest_ns * length / others;
		if (t->pid != pid || sums[i].ns - usual <= ret->ns - ret->usual_ns)
			continue;
		*ret = (struct anomaly_line){.function = t->line.function,
					     .file = t->line.file,
					     .line = t->line.line,
					     .ns = sums[i].ns,
					     .called_ns = sums[i].called_ns,
					     .usual_ns = usual};
	}
	free(sums);
	return ret->function;
}

void line_times_forget(struct line_times *l, uint32_t pid)
{
	map64_del(&l->since, pid);
	for (size_t i = 0; i < l->totals.len; i++)
		if (l->totals.data[i].pid == pid) {
			keep_totals(l, is_not_of, pid);
			return;
		}
}
