/* diagnosis_victim.c - whose an incident is: the process that time is to be blamed for, and where
 * that lost it. */
#include <math.h>

#include "incident/diagnosis_impl.h"

#define GENERATIONS 8 /* of a damaged file: no end otherwise */

static uint32_t parent_of(const struct rec_tables *t, uint32_t pid)
{
	for (size_t i = t->processes.len; i-- > 0;)
		if (t->processes.data[i].pid == pid)
			return t->processes.data[i].parent_pid;
	return 0;
}

/* What a process lost by its anomaly that lost most; 0: none of it lost any. */
static double lost_by(const struct anomaly *const *all, size_t n, uint32_t pid)
{
	double most = 0;
	for (size_t i = 0; i < n; i++)
		if (all[i]->pid == pid && all[i]->lost_ns > most)
			most = all[i]->lost_ns;
	return most;
}

uint32_t diagnosis_victim(const struct rec_tables *t, const struct anomaly *const *all, size_t n,
			  double *ret_lost_ns)
{
	uint32_t victim = 0;
	double most = -1;
	for (size_t i = 0; i < n; i++) {
		double lost = isnan(all[i]->lost_ns) ? 0 : all[i]->lost_ns;
		if (all[i]->pid && lost > most) {
			most = lost;
			victim = all[i]->pid;
		}
	}
	uint32_t pid = victim;
	for (int i = 0; i < GENERATIONS && pid > 1; i++) {
		pid = parent_of(t, pid);
		double lost = pid > 1 ? lost_by(all, n, pid) : 0;
		if (lost > 0) {
			victim = pid;
			most = lost;
		}
	}
	*ret_lost_ns = most > 0 ? most : 0;
	return victim;
}

void diagnosis_place(struct diagnosed *in, const struct anomaly_list *list)
{
	const struct anomaly *a = &list->rows.data[in->anomalies.data[in->first]].a;
	in->place = (struct victim_place){.phase = a->layer == DETECT_STEP ? a->name : NULL};
	if (!a->line.function)
		return;
	in->place.function = a->line.function;
	in->place.file = a->line.file;
	in->place.line = a->line.line;
}
