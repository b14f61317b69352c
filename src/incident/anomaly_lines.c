/* anomaly_lines.c - times of Python lines inside and outside of anomalies. */
#include "incident/anomaly_lines.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "detect/names.h"
#include "incident/busy_threads.h"

struct line_time {
	size_t anomaly;
	uint32_t frame;
	double ns, called_ns;
};

struct search {
	const struct rec_tables *t;
	struct anomaly_lines *all;
	size_t n;
	struct map64 outside;	/* by process and frame: index into outside_ns, from 0 */
	VEC(double) outside_ns; /* of samples in no anomaly */
	struct map64 *inside;	/* of each anomaly, by frame: index into times, from 0 */
	VEC(struct line_time) times;
	uint64_t first_ns, last_ns; /* of all samples */
	struct busy_threads busy;
};

static void add_inside(struct search *s, size_t anomaly, const struct detect_line *line, double ns)
{
	double called_ns = line->called ? ns : 0;
	uint64_t at;
	if (map64_get(&s->inside[anomaly], line->frame, &at)) {
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): what was met has an entry */
		s->times.data[at].ns += ns;
		s->times.data[at].called_ns += called_ns;
		return;
	}
	map64_set(&s->inside[anomaly], line->frame, s->times.len);
	*vec_push(&s->times) = (struct line_time){anomaly, line->frame, ns, called_ns};
}

/* pid 0: of all processes. */
static void add_outside(struct search *s, uint32_t pid, uint32_t frame, double ns)
{
	uint64_t key = (uint64_t)pid << 32 | frame, at;
	if (map64_get(&s->outside, key, &at)) {
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): likewise */
		s->outside_ns.data[at] += ns;
		return;
	}
	map64_set(&s->outside, key, s->outside_ns.len);
	*vec_push(&s->outside_ns) = ns;
}

/* A wait is counted where it ended. */
static void add_sample(struct search *s, const struct m_sample *sample)
{
	struct detect_line line;
	const struct m_thread *thread = &s->t->threads.data[sample->thread];
	uint32_t pid = thread->pid;
	bool outside = true;
	if (!s->first_ns || sample->time_ns < s->first_ns)
		s->first_ns = sample->time_ns;
	if (sample->time_ns > s->last_ns)
		s->last_ns = sample->time_ns;
	if (!busy_threads_has(&s->busy, thread, sample->thread) ||
	    !detect_line_of_stack(s->t, sample->stack, &line))
		return;
	for (size_t i = 0; i < s->n; i++) {
		const struct anomaly_lines *a = &s->all[i];
		if (sample->time_ns < a->start_ns || sample->time_ns >= a->end_ns)
			continue;
		outside = false;
		if (!a->pid || a->pid == pid)
			add_inside(s, i, &line, (double)sample->weight_ns);
	}
	if (outside) {
		add_outside(s, pid, line.frame, (double)sample->weight_ns);
		add_outside(s, 0, line.frame, (double)sample->weight_ns);
	}
}

static void add_cpu(struct search *s, const struct m_sample *sample)
{
	busy_threads_add(&s->busy, &s->t->threads.data[sample->thread], sample);
}

static void read_samples(struct search *s, const struct row_source *r,
			 void (*each)(struct search *s, const struct m_sample *sample))
{
	struct m_samples samples = {0};
	for (size_t i = 0; i < source_sample_blocks(r); i++) {
		if (source_read_samples(r, i, &samples, NULL))
			continue;
		for (size_t k = 0; k < samples.len; k++)
			each(s, &samples.rows[k]);
	}
	m_samples_free(&samples);
}

static int by_start(const void *a, const void *b)
{
	const struct anomaly_lines *x = *(const struct anomaly_lines *const *)a;
	const struct anomaly_lines *y = *(const struct anomaly_lines *const *)b;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Of the recording's time, what lies in no anomaly. */
static double time_outside(const struct search *s)
{
	const struct anomaly_lines **sorted = xcalloc(s->n + 1, sizeof(*sorted));
	uint64_t at = s->first_ns, sum = 0;
	for (size_t i = 0; i < s->n; i++)
		sorted[i] = &s->all[i];
	qsort(sorted, s->n, sizeof(*sorted), by_start);
	for (size_t i = 0; i < s->n && sorted[i]->start_ns < s->last_ns; i++) {
		if (sorted[i]->start_ns > at)
			sum += sorted[i]->start_ns - at;
		if (sorted[i]->end_ns > at)
			at = sorted[i]->end_ns;
	}
	if (s->last_ns > at)
		sum += s->last_ns - at;
	free(sorted);
	return (double)sum;
}

static double beyond_usual(const struct anomaly_lines *a, uint32_t i)
{
	return a->lines[i].ns - a->lines[i].usual_ns;
}

/* Puts a line among those that took the most beyond what is usual. */
static void keep_line(const struct search *s, struct anomaly_lines *a, const struct line_time *l,
		      double usual_ns)
{
	const struct m_frame *f = &s->t->frames.data[l->frame];
	uint32_t at = a->lines_len;
	if (at == ANOMALY_LINES && beyond_usual(a, --at) >= l->ns - usual_ns)
		return;
	a->lines_len = at + 1;
	for (; at && beyond_usual(a, at - 1) < l->ns - usual_ns; at--)
		a->lines[at] = a->lines[at - 1];
	a->lines[at].function = strtab_get(&s->t->strings, f->name, NULL);
	a->lines[at].file = strtab_get(&s->t->strings, f->file, NULL);
	a->lines[at].line = f->line;
	a->lines[at].ns = l->ns;
	a->lines[at].called_ns = l->called_ns;
	a->lines[at].usual_ns = usual_ns;
}

/* outside: how long the time in no anomaly is. */
static void keep_lines(const struct search *s, double outside)
{
	for (size_t i = 0; i < s->times.len; i++) {
		const struct line_time *l = &s->times.data[i];
		struct anomaly_lines *a = &s->all[l->anomaly];
		double length = (double)(a->end_ns - a->start_ns), usual = 0;
		uint64_t at;
		if (outside > 0 && map64_get(&s->outside, (uint64_t)a->pid << 32 | l->frame, &at))
			/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): likewise */
			usual = s->outside_ns.data[at] * length / outside;
		if (l->ns > usual)
			keep_line(s, a, l, usual);
	}
}

void anomaly_lines_find(struct anomaly_lines *all, size_t n, const struct row_source *r)
{
	const struct rec_tables *t = r->tables;
	struct search s = {.t = t, .all = all, .n = n};
	if (!n || !t->samples)
		return;
	s.inside = xcalloc(n, sizeof(*s.inside));
	read_samples(&s, r, add_cpu);
	read_samples(&s, r, add_sample);
	keep_lines(&s, time_outside(&s));
	for (size_t i = 0; i < n; i++)
		map64_free(&s.inside[i]);
	free(s.inside);
	map64_free(&s.outside);
	vec_free(&s.outside_ns);
	vec_free(&s.times);
	busy_threads_free(&s.busy);
}
