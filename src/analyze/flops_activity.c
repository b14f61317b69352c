/* flops_activity.c - what the GPUs' own counters say of the time in which work was counted. */
#include <stdio.h>
#include <string.h>

#include "analyze/flops_impl.h"

struct mean {
	double sum;
	uint64_t samples;
};

/* "gpu 0": neither an instance nor a process of it. */
static bool is_gpu(const char *entity)
{
	unsigned gpu;
	int end = 0;
	return sscanf(entity, "gpu %u%n", &gpu, &end) == 1 && !entity[end];
}

static void add_row(struct mean *means, const struct rec_tables *t, const struct m_counter *row)
{
	static const char *const names[] = FLOPS_ACTIVITY_NAMES;
	const char *name = strtab_get(&t->strings, row->name, NULL);
	for (int i = 0; i < FLOPS_ACTIVITIES; i++) {
		if (strcmp(name, names[i]) || !is_gpu(strtab_get(&t->strings, row->entity, NULL)))
			continue;
		means[i].sum += row->value;
		means[i].samples++;
	}
}

void flops_activity_read(struct flops *f, const struct rec_reader *r)
{
	struct mean means[FLOPS_ACTIVITIES] = {0};
	struct m_counters rows = {0};
	for (size_t b = 0; f->wall_ns && b < rec_counter_blocks(r); b++) {
		if (rec_read_counters(r, b, &rows, NULL) < 0)
			continue; /* the report tells of damage */
		for (size_t i = 0; i < rows.len; i++)
			if (rows.rows[i].time_ns >= f->first_ns &&
			    rows.rows[i].time_ns <= f->last_ns)
				add_row(means, rec_tables(r), &rows.rows[i]);
	}
	m_counters_free(&rows);
	for (int i = 0; i < FLOPS_ACTIVITIES; i++)
		f->activity[i] = means[i].samples ? means[i].sum / (double)means[i].samples : -1;
}
