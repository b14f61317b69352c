/* gpu_devices.c - sums up the counters of GPUs, of their instances, and of processes on them; of
 * several hosts by host. */
#include "analyze/gpu_devices.h"

#include <string.h>

#include "base/map64.h"
#include "events/metric.h"

/* By host and GPU; the instances of one follow it. */
static int compare_devices(const void *a, const void *b)
{
	const struct gpu_device *x = a, *y = b;
	bool x_part = x->row && x->row->parent >= 0, y_part = y->row && y->row->parent >= 0;
	uint32_t x_gpu = x_part ? (uint32_t)x->row->parent : x->index;
	uint32_t y_gpu = y_part ? (uint32_t)y->row->parent : y->index;
	if (strcmp(x->host, y->host))
		return strcmp(x->host, y->host);
	if (x_gpu != y_gpu)
		return x_gpu < y_gpu ? -1 : 1;
	if (x_part != y_part)
		return x_part ? 1 : -1;
	return x->index < y->index ? -1 : x->index > y->index;
}

#define DEVICES_MOST	    4096 /* 500 hosts of eight */
#define COUNTERS_OF_PROCESS 2	 /* room to begin with: memory, perhaps a share of the load */

static void devices_of_table(struct gpu_summary *s, const struct rec_tables *t)
{
	for (size_t i = 0; i < t->gpus.len && i < DEVICES_MOST; i++) {
		struct gpu_device *d = vec_push(&s->devices);
		d->index = t->gpus.data[i].index;
		d->row = &t->gpus.data[i];
		d->host = strtab_get(&t->strings, d->row->host, NULL);
	}
	if (s->devices.len)
		qsort(s->devices.data, s->devices.len, sizeof(*s->devices.data), compare_devices);
}

static bool is_of_host(const struct gpu_device *d, const struct entity *e)
{
	return strlen(d->host) == e->host_len && !memcmp(d->host, e->host, e->host_len);
}

/* Where to find what counters are of; all of it is few but in a file that was made to have many. */
struct adder {
	struct gpu_summary *s;
	const struct rec_tables *t;
	uint64_t from_ns, to_ns;
	struct map64 process_of; /* device << 32 | pid -> index */
	struct map64 counter_of; /* hash of list and name -> index */
};

/* The device of an entity. One that the table lacks is made, but for an instance and where the
 * host is told: that is a recording's whose table says it. */
static struct gpu_device *device_of(struct gpu_summary *s, const struct entity *e, uint64_t time_ns)
{
	struct gpu_device *last = NULL;
	bool instance = e->instance >= 0;
	for (size_t i = 0; i < s->devices.len; i++) {
		struct gpu_device *d = &s->devices.data[i];
		bool part = d->row && d->row->parent >= 0;
		if (d->index != (instance ? (uint32_t)e->instance : e->gpu) || !is_of_host(d, e))
			continue;
		if (!instance && !part)
			return d;
		if (!instance || !part || (uint32_t)d->row->parent != e->gpu)
			continue;
		/* one made anew has the number of the one before it: that which is there */
		last = d;
		if (d->row->seen_ns <= time_ns && (!d->row->gone_ns || time_ns <= d->row->gone_ns))
			return d;
	}
	if (instance || e->host_len || s->devices.len >= DEVICES_MOST)
		return last;
	struct gpu_device *d = vec_push(&s->devices);
	d->index = e->gpu;
	d->host = "";
	return d;
}

/* *ret_list: a number of the list. */
static gpu_counters_t *counters_of(struct adder *a, const struct entity *e, uint64_t time_ns,
				   uint64_t *ret_list)
{
	struct gpu_device *d = device_of(a->s, e, time_ns);
	uint64_t at;
	if (!d)
		return NULL;
	*ret_list = (uint64_t)(d - a->s->devices.data) << 33;
	if (!e->pid)
		return &d->counters;
	*ret_list |= 1ULL << 32 | e->pid;
	if (map64_get(&a->process_of, *ret_list, &at))
		return &d->processes.data[at].counters;
	map64_set(&a->process_of, *ret_list, d->processes.len);
	struct gpu_device_process *p = vec_push(&d->processes);
	p->pid = e->pid;
	p->counters.cap = COUNTERS_OF_PROCESS;
	p->counters.data = xcalloc(COUNTERS_OF_PROCESS, sizeof(*p->counters.data));
	return &p->counters;
}

static struct gpu_counter *counter_of(struct adder *a, gpu_counters_t *list, uint64_t list_number,
				      const char *name)
{
	uint64_t i, key = hash_u64(list_number) ^ hash_u64((uintptr_t)name);
	for (; map64_get(&a->counter_of, key, &i); key++) /* another may have the hash */
		if (i < list->len && list->data[i].name == name)
			return &list->data[i];
	map64_set(&a->counter_of, key, list->len);
	struct gpu_counter *c = vec_push(list);
	*c = (struct gpu_counter){.name = name};
	return c;
}

static void add_counters(void *ctx, const struct visited_rows *rows)
{
	struct adder *a = ctx;
	const struct m_counter *counters = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_counter *row = &counters[i];
		const struct m_metric *m = &a->t->metrics.data[row->metric];
		if (m->kind != ENTITY_GPU || row->time_ns < a->from_ns || row->time_ns >= a->to_ns)
			continue;
		struct entity e = metric_entity(m, &a->t->strings);
		uint64_t number;
		gpu_counters_t *list = counters_of(a, &e, row->time_ns, &number);
		const char *name = strtab_get(&a->t->strings, m->name, NULL);
		if (list)
			counter_sum_add(&counter_of(a, list, number, name)->sum, row);
	}
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct gpu_counter *)a)->name, ((const struct gpu_counter *)b)->name);
}

static int compare_pids(const void *a, const void *b)
{
	const struct gpu_device_process *x = a, *y = b;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static void sort_counters(gpu_counters_t *list)
{
	if (list->len)
		qsort(list->data, list->len, sizeof(*list->data), compare_names);
}

static void sort_all(struct gpu_summary *s)
{
	if (s->devices.len)
		qsort(s->devices.data, s->devices.len, sizeof(*s->devices.data), compare_devices);
	for (size_t i = 0; i < s->devices.len; i++) {
		struct gpu_device *d = &s->devices.data[i];
		sort_counters(&d->counters);
		if (d->processes.len)
			qsort(d->processes.data, d->processes.len, sizeof(*d->processes.data),
			      compare_pids);
		for (size_t k = 0; k < d->processes.len; k++)
			sort_counters(&d->processes.data[k].counters);
	}
}

static int compare_events(const void *a, const void *b)
{
	const struct m_event *x = a, *y = b;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

void gpu_devices_make(struct gpu_summary *s, const struct row_source *source, uint64_t from_ns,
		      uint64_t to_ns)
{
	const struct rec_tables *t = source->tables;
	struct adder a = {.s = s, .t = t, .from_ns = from_ns, .to_ns = to_ns};
	devices_of_table(s, t);
	rows_read(source, ROW_COUNTER, add_counters, &a); /* means are summed in their order */
	map64_free(&a.process_of);
	map64_free(&a.counter_of);
	sort_all(s);
	for (size_t i = 0; i < t->events.len; i++)
		if (t->events.data[i].time_ns >= from_ns && t->events.data[i].time_ns < to_ns)
			*vec_push(&s->events) = t->events.data[i];
	if (s->events.len)
		qsort(s->events.data, s->events.len, sizeof(*s->events.data), compare_events);
}
