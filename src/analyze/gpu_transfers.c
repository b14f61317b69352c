/* gpu_transfers.c - copies and sets of the timeline, by kind. */
#include "analyze/gpu_transfers.h"

#include "base/map64.h"
#include "base/stats.h"

/* A time when kernels ran on a device. */
struct run {
	uint64_t start_ns, end_ns;
};

struct device {
	uint32_t pid;
	int32_t device;
	VEC(struct run) runs;	/* in order, apart from each other: those beside a transfer */
	uint64_t transfers_end; /* when the last of those that began so far ends */
};

struct kind {
	struct transfer_row row;
	VEC(double) rates; /* of each copy */
};

struct job {
	const struct timeline *t;
	VEC(struct device) devices;
	struct map64 device_of; /* pid << 32 | device -> index */
	VEC(struct kind) kinds; /* they are few in what CUPTI tells */
};

static struct device *device_of(struct job *job, const struct timeline_span *s)
{
	const struct timeline_kind *k = timeline_kind_of(job->t, s);
	uint64_t at, key = (uint64_t)k->pid << 32 | (uint32_t)k->device;
	if (map64_get(&job->device_of, key, &at))
		return &job->devices.data[at];
	map64_set(&job->device_of, key, job->devices.len);
	struct device *d = vec_push(&job->devices);
	d->pid = k->pid;
	d->device = k->device;
	return d;
}

/* Spans of a process come in order of start: what begins from here on is behind the last run. */
static struct run *next_run(struct device *d)
{
	struct run *last = d->runs.len ? &d->runs.data[d->runs.len - 1] : NULL;
	return last && last->start_ns >= d->transfers_end ? last : vec_push(&d->runs);
}

static void add_run(struct device *d, const struct timeline_span *s)
{
	uint64_t end_ns = d->runs.len ? d->runs.data[d->runs.len - 1].end_ns : 0;
	if (!d->runs.len || s->start_ns > end_ns)
		*next_run(d) = (struct run){s->start_ns, s->end_ns};
	else if (s->end_ns > end_ns)
		d->runs.data[d->runs.len - 1].end_ns = s->end_ns;
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

static struct kind *kind_of(struct job *job, const struct timeline_kind *s)
{
	struct transfer_row key = {.set = s->work == WORK_SET,
				   .source_kind = s->source_kind,
				   .destination_kind = s->destination_kind,
				   .async = s->async};
	key.copy_kind = key.set ? 0 : s->copy_kind;
	for (size_t i = 0; i < job->kinds.len; i++) {
		const struct transfer_row *r = &job->kinds.data[i].row;
		if (r->set == key.set && r->copy_kind == key.copy_kind &&
		    r->source_kind == key.source_kind &&
		    r->destination_kind == key.destination_kind && r->async == key.async)
			return &job->kinds.data[i];
	}
	struct kind *kind = vec_push(&job->kinds);
	kind->row = key;
	return kind;
}

static void add_transfer(struct job *job, const struct timeline_span *s)
{
	const struct timeline_kind *of = timeline_kind_of(job->t, s);
	struct kind *kind = kind_of(job, of);
	uint64_t ns = s->end_ns - s->start_ns;
	kind->row.count++;
	kind->row.bytes += of->bytes;
	kind->row.total_ns += ns;
	kind->row.overlapped_ns += overlapped(device_of(job, s), s->start_ns, s->end_ns);
	if (ns)
		*vec_push(&kind->rates) = (double)of->bytes * 1e9 / (double)ns;
}

static int compare_rows(const void *a, const void *b)
{
	const struct transfer_row *x = a, *y = b;
	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	return x->copy_kind < y->copy_kind ? -1 : x->copy_kind > y->copy_kind;
}

static void finish(struct gpu_transfers *ret, struct job *job)
{
	for (size_t i = 0; i < job->kinds.len; i++) {
		struct kind *kind = &job->kinds.data[i];
		size_t n = kind->rates.len;
		if (n) {
			stats_sort(kind->rates.data, n);
			kind->row.p50_bytes_per_s = kind->rates.data[(n - 1) / 2];
			kind->row.mean_bytes_per_s =
				(double)kind->row.bytes * 1e9 / (double)kind->row.total_ns;
		}
		*vec_push(&ret->rows) = kind->row;
		vec_free(&kind->rates);
	}
	for (size_t i = 0; i < job->devices.len; i++)
		vec_free(&job->devices.data[i].runs);
	vec_free(&job->kinds);
	vec_free(&job->devices);
	map64_free(&job->device_of);
	if (ret->rows.len)
		qsort(ret->rows.data, ret->rows.len, sizeof(*ret->rows.data), compare_rows);
}

static bool is_transfer(uint8_t work)
{
	return work == WORK_COPY || work == WORK_SET;
}

static void add_runs(struct job *job)
{
	const struct timeline *t = job->t;
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		uint8_t work = timeline_kind_of(t, s)->work;
		struct device *d = device_of(job, s);
		if (work == WORK_KERNEL || work == WORK_GRAPH)
			add_run(d, s);
		else if (is_transfer(work) && s->end_ns > d->transfers_end)
			d->transfers_end = s->end_ns;
	}
}

void gpu_transfers_make(struct gpu_transfers *ret, const struct timeline *t, uint32_t pid)
{
	struct job job = {.t = t};
	*ret = (struct gpu_transfers){0};
	add_runs(&job);
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		const struct timeline_kind *k = timeline_kind_of(t, s);
		if (is_transfer(k->work) && (!pid || k->pid == pid))
			add_transfer(&job, s);
	}
	finish(ret, &job);
}

void gpu_transfers_free(struct gpu_transfers *g)
{
	vec_free(&g->rows);
}
