/* flops_activity.c - what the GPUs' own counters say of the time in which work was counted. */
#include <string.h>

#include "analyze/flops_impl.h"
#include "base/entity.h"

struct mean {
	double sum;
	uint64_t samples;
};

struct activity {
	const struct flops *f;
	const struct rec_tables *t;
	struct mean means[FLOPS_ACTIVITIES];
};

static void add_row(struct activity *a, const struct m_counter *row)
{
	static const char *const names[] = FLOPS_ACTIVITY_NAMES;
	const struct m_metric *m = &a->t->metrics.data[row->metric];
	const char *name = strtab_get(&a->t->strings, m->name, NULL);
	if (m->kind != ENTITY_GPU || m->instance >= 0 || m->pid || m->host)
		return;
	for (int i = 0; i < FLOPS_ACTIVITIES; i++) {
		if (strcmp(name, names[i]) != 0)
			continue;
		a->means[i].sum += row->value;
		a->means[i].samples++;
	}
}

static void add_rows(void *ctx, const struct visited_rows *rows)
{
	struct activity *a = ctx;
	const struct m_counter *counters = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		if (counters[i].time_ns >= a->f->first_ns && counters[i].time_ns <= a->f->last_ns)
			add_row(a, &counters[i]);
}

void flops_activity_read(struct flops *f, const struct row_source *s)
{
	struct activity a = {.f = f, .t = s->tables};
	if (f->wall_ns)
		rows_read(s, ROW_COUNTER, add_rows, &a);
	for (int i = 0; i < FLOPS_ACTIVITIES; i++)
		f->activity[i] =
			a.means[i].samples ? a.means[i].sum / (double)a.means[i].samples : -1;
}
