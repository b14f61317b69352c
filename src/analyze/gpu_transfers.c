/* gpu_transfers.c - copies and sets of the timeline, by kind. */
#include "analyze/gpu_transfers.h"

/* A time when kernels ran on a device. */
struct run {
	uint64_t start_ns, end_ns;
};

struct device {
	uint32_t pid;
	int32_t device;
	VEC(struct run) runs; /* in order, apart from each other */
};

typedef VEC(double) rates_t;

struct job {
	const struct timeline *t;
	struct gpu_transfers *ret;
	VEC(struct device) devices; /* they are few */
	VEC(rates_t) rates;	    /* by row: of each copy */
};

static struct device *device_of(struct job *job, const struct m_gpu_span *s)
{
	for (size_t i = 0; i < job->devices.len; i++)
		if (job->devices.data[i].pid == s->pid && job->devices.data[i].device == s->device)
			return &job->devices.data[i];
	struct device *d = vec_push(&job->devices);
	d->pid = s->pid;
	d->device = s->device;
	return d;
}

/* Spans of a process come in order of start. */
static void add_run(struct device *d, const struct m_gpu_span *s)
{
	struct run *last = d->runs.len ? &d->runs.data[d->runs.len - 1] : NULL;
	if (!last || s->start_ns > last->end_ns)
		*vec_push(&d->runs) = (struct run){s->start_ns, s->end_ns};
	else if (s->end_ns > last->end_ns)
		last->end_ns = s->end_ns;
}

static uint64_t overlapped(const struct device *d, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t ns = 0;
	size_t low = 0, high = d->runs.len;
	while (low < high) { /* the first that ends after it */
		size_t mid = low + (high - low) / 2;
		if (d->runs.data[mid].end_ns <= from_ns)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < d->runs.len && d->runs.data[low].start_ns < to_ns; low++) {
		const struct run *r = &d->runs.data[low];
		uint64_t from = r->start_ns > from_ns ? r->start_ns : from_ns;
		uint64_t to = r->end_ns < to_ns ? r->end_ns : to_ns;
		ns += to - from;
	}
	return ns;
}

static size_t row_of(struct job *job, const struct m_gpu_span *s)
{
	struct transfer_row key = {.set = s->work == WORK_SET,
				   .source_kind = s->source_kind,
				   .destination_kind = s->destination_kind,
				   .async = s->async};
	key.copy_kind = key.set ? 0 : s->copy_kind;
	for (size_t i = 0; i < job->ret->rows.len; i++) {
		const struct transfer_row *r = &job->ret->rows.data[i];
		if (r->set == key.set && r->copy_kind == key.copy_kind &&
		    r->source_kind == key.source_kind &&
		    r->destination_kind == key.destination_kind && r->async == key.async)
			return i;
	}
	*vec_push(&job->ret->rows) = key;
	(void)vec_push(&job->rates);
	return job->ret->rows.len - 1;
}

static void add_transfer(struct job *job, const struct m_gpu_span *s)
{
	size_t at = row_of(job, s);
	struct transfer_row *r = &job->ret->rows.data[at];
	uint64_t ns = s->end_ns - s->start_ns;
	r->count++;
	r->bytes += s->bytes;
	r->total_ns += ns;
	r->overlapped_ns += overlapped(device_of(job, s), s->start_ns, s->end_ns);
	if (ns)
		*vec_push(&job->rates.data[at]) = (double)s->bytes * 1e9 / (double)ns;
}

static int compare_rates(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int compare_rows(const void *a, const void *b)
{
	const struct transfer_row *x = a, *y = b;
	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	return x->copy_kind < y->copy_kind ? -1 : x->copy_kind > y->copy_kind;
}

static void finish(struct job *job)
{
	for (size_t i = 0; i < job->ret->rows.len; i++) {
		struct transfer_row *r = &job->ret->rows.data[i];
		rates_t *rates = &job->rates.data[i];
		if (rates->len) {
			qsort(rates->data, rates->len, sizeof(double), compare_rates);
			r->p50_bytes_per_s = rates->data[(rates->len - 1) / 2];
			r->mean_bytes_per_s = (double)r->bytes * 1e9 / (double)r->total_ns;
		}
		vec_free(rates);
	}
	for (size_t i = 0; i < job->devices.len; i++)
		vec_free(&job->devices.data[i].runs);
	vec_free(&job->rates);
	vec_free(&job->devices);
	if (job->ret->rows.len)
		qsort(job->ret->rows.data, job->ret->rows.len, sizeof(*job->ret->rows.data),
		      compare_rows);
}

void gpu_transfers_make(struct gpu_transfers *ret, const struct timeline *t)
{
	struct job job = {.t = t, .ret = ret};
	*ret = (struct gpu_transfers){0};
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct m_gpu_span *s = &t->spans.data[i].row;
		if (s->work == WORK_KERNEL || s->work == WORK_GRAPH)
			add_run(device_of(&job, s), s);
	}
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct m_gpu_span *s = &t->spans.data[i].row;
		if (s->work == WORK_COPY || s->work == WORK_SET)
			add_transfer(&job, s);
	}
	finish(&job);
}

void gpu_transfers_free(struct gpu_transfers *g)
{
	vec_free(&g->rows);
}
