/* incidents.c - joins anomalies to incidents as they are told. */
#include "incident/incidents.h"

#include <string.h>

#include "incident/lost_in_line.h"

#define MOSTLY 0.5 /* of the lost time */

void incidents_free(struct incidents *s)
{
	vec_free(&s->list);
	s->last = 0;
}

static bool is_of_job(const struct incidents *s, const struct incident *in, uint32_t process)
{
	uint32_t parent = process ? s->parent_of(s->ctx, process) : 0;
	for (uint32_t i = 0; i < in->processes_len && process; i++) {
		uint32_t other = in->processes[i], others = s->parent_of(s->ctx, other);
		if (other == process || other == parent || others == process ||
		    (parent > 1 && parent == others))
			return true;
	}
	return !process || !in->processes_len;
}

static void forget_before(struct incidents *s, uint64_t start_ns)
{
	for (size_t i = s->list.len; i-- > 0;) {
		const struct incident *in = &s->list.data[i];
		if (!in->open && in->end_ns + INCIDENT_APART_NS < start_ns)
			s->list.data[i] = s->list.data[--s->list.len];
	}
}

static struct incident *find(struct incidents *s, const struct anomaly *a, uint32_t process)
{
	for (size_t i = 0; i < s->list.len; i++) {
		struct incident *in = &s->list.data[i];
		bool near = in->open || a->start_ns <= in->end_ns + INCIDENT_APART_NS;
		if (near && is_of_job(s, in, process))
			return in;
	}
	struct incident *made = vec_push(&s->list);
	made->number = ++s->last;
	return made;
}

static struct incident *with_number(struct incidents *s, uint64_t number)
{
	for (size_t i = 0; i < s->list.len; i++)
		if (s->list.data[i].number == number)
			return &s->list.data[i];
	return NULL;
}

static void join(struct incident *in, uint32_t process)
{
	uint32_t i = 0;
	while (i < in->processes_len && in->processes[i] != process)
		i++;
	if (process && i == in->processes_len && i < INCIDENT_PROCESSES)
		in->processes[in->processes_len++] = process;
}

void incidents_told(struct incidents *s, struct anomaly *a, uint32_t process)
{
	struct incident *in = a->incident ? with_number(s, a->incident) : NULL;
	bool is_new = !in;
	a->incident_begins = a->incident_ends = false;
	if (is_new) {
		forget_before(s, a->start_ns);
		in = find(s, a, process);
		a->incident = in->number;
		a->incident_begins = !in->open;
		in->open++;
	}
	join(in, process);
	if (!in->start_ns || a->start_ns < in->start_ns)
		in->start_ns = a->start_ns;
	in->end_ns = a->end_ns > in->end_ns ? a->end_ns : in->end_ns;
	if (a->ended) {
		in->open -= in->open > 0;
		a->incident_ends = !in->open;
	}
}

uint64_t incidents_since(const struct incidents *s, uint32_t process)
{
	for (size_t i = 0; i < s->list.len; i++)
		if (s->list.data[i].open && is_of_job(s, &s->list.data[i], process))
			return s->list.data[i].start_ns;
	return 0;
}

void incidents_leave(struct incidents *s, uint64_t number)
{
	struct incident *in = with_number(s, number);
	if (in)
		in->open -= in->open > 0;
}

void incidents_close(struct incidents *s, uint64_t number)
{
	for (size_t i = 0; i < s->list.len; i++)
		if (s->list.data[i].number == number)
			s->list.data[i--] = s->list.data[--s->list.len];
}

enum { BY_RULE, BY_WAIT, BY_CALL, BY_GPU, BY_CALLS, BY_PYTHON, BY_COUNTER, BY_STEP };

static bool is_wait(const char *counter)
{
	return !strncmp(counter, "wait_", 5) || !strncmp(counter, "preempt", 7);
}

static bool is_mostly_one_call(const struct anomaly *a)
{
	return a->calls_len && a->lost_ns > 0 && a->calls[0].more_ns >= MOSTLY * a->lost_ns;
}

unsigned incident_rank(const struct anomaly *a)
{
	if (!(a->p_value > 0))
		return BY_RULE;
	if (a->layer == DETECT_HOST)
		return is_wait(a->name) ? BY_WAIT : BY_COUNTER;
	if (a->layer == DETECT_STEP)
		return BY_STEP;
	if (a->layer == DETECT_HARDWARE)
		return BY_GPU;
	if (a->layer == DETECT_PYTHON)
		return a->line.function && lost_in_own_code(a, &a->line) ? BY_CALL : BY_PYTHON;
	return is_mostly_one_call(a) ? BY_CALL : BY_CALLS;
}
