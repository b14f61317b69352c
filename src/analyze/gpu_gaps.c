/* gpu_gaps.c - busy and idle times of devices, and the reasons of gaps; gpu_gaps.h has the rules,
 * gpu_host.h what threads did. */
#include "analyze/gpu_gaps.h"

#include <string.h>

#include "analyze/gpu_host.h"
#include "base/map64.h"
#include "base/sort.h"

bool timeline_is_collective(const struct timeline *t, const struct timeline_span *s)
{
	if (timeline_kind_of(t, s)->work != WORK_KERNEL)
		return false;
	if (s->call != TIMELINE_NONE && t->calls.data[s->call].parent != TIMELINE_NONE)
		return true;
	const char *name = strtab_get(&t->tables->strings, timeline_kind_of(t, s)->name, NULL);
	return strstr(name, "ncclDevKernel") || strstr(name, "ncclKernel");
}

/* ---- unions of spans ---- */

/* The time covered by spans that come in order of start. */
struct cover {
	uint64_t end_ns;
	uint64_t total_ns;
};

static void cover_add(struct cover *c, uint64_t start_ns, uint64_t end_ns)
{
	if (start_ns < c->end_ns)
		start_ns = c->end_ns;
	if (end_ns <= start_ns)
		return;
	c->total_ns += end_ns - start_ns;
	c->end_ns = end_ns;
}

struct stream_cover {
	uint32_t context, stream;
	uint64_t spans;
	struct cover cover;
};

/* ---- a device ---- */

struct device_run {
	const struct timeline *t;
	const struct gpu_host *host;
	struct gap_device *ret;
	const uint32_t *spans; /* of the device, in order of start */
	size_t len;
	VEC(uint64_t) gaps[GAP_REASONS];
	VEC(struct stream_cover) streams;
	struct map64 stream_of; /* context << 32 | stream -> index */
};

static void add_stream(struct device_run *d, const struct timeline_span *s)
{
	const struct timeline_kind *kind = timeline_kind_of(d->t, s);
	uint64_t i, key = (uint64_t)kind->context << 32 | kind->stream;
	if (!map64_get(&d->stream_of, key, &i)) {
		map64_set(&d->stream_of, key, i = d->streams.len);
		*(struct stream_cover *)vec_push(&d->streams) =
			(struct stream_cover){.context = kind->context, .stream = kind->stream};
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): i is one that was pushed */
	d->streams.data[i].spans++;
	cover_add(&d->streams.data[i].cover, s->start_ns, s->end_ns);
}

/* Time under NCCL's kernels in which no other ran. */
static uint64_t exposed(const struct device_run *d)
{
	struct cover others = {0}, all = {0};
	for (size_t i = 0; i < d->len; i++) {
		const struct timeline_span *s = &d->t->spans.data[d->spans[i]];
		uint8_t work = timeline_kind_of(d->t, s)->work;
		if (work != WORK_KERNEL && work != WORK_GRAPH)
			continue;
		cover_add(&all, s->start_ns, s->end_ns);
		if (!timeline_is_collective(d->t, s))
			cover_add(&others, s->start_ns, s->end_ns);
	}
	return all.total_ns - others.total_ns;
}

static void least_launch(struct device_run *d)
{
	uint64_t least = UINT64_MAX;
	for (size_t i = 0; i < d->len; i++) {
		const struct timeline_span *s = &d->t->spans.data[d->spans[i]];
		if (s->call == TIMELINE_NONE)
			continue;
		uint64_t called = d->t->calls.data[s->call].start_ns;
		if (s->start_ns >= called && s->start_ns - called < least)
			least = s->start_ns - called;
	}
	d->ret->launch_ns = least == UINT64_MAX ? 0 : least;
}

static bool half(uint64_t part, uint64_t whole)
{
	return part && part >= whole - whole / 2;
}

/* What the host did from the beginning of the gap until it launched. */
static enum gap_reason host_reason(const struct device_run *d, uint64_t from_ns,
				   const struct timeline_call *call,
				   const struct timeline_call *before)
{
	struct host_time h;
	uint64_t ns = call->start_ns > from_ns ? call->start_ns - from_ns : 0;
	uint32_t thread = timeline_call_kind_of(d->t, call)->thread;
	uint32_t other_thread = before ? timeline_call_kind_of(d->t, before)->thread : thread;
	gpu_host_time(&h, d->host, thread, from_ns, from_ns + ns);
	if (other_thread != thread) {
		struct host_time other;
		gpu_host_time(&other, d->host, other_thread, from_ns, from_ns + ns);
		if (other.data_ns + other.preempted_ns + other.blocked_ns <
		    h.data_ns + h.preempted_ns + h.blocked_ns) {
			other.collective_ns += h.collective_ns;
			other.loading_ns = h.loading_ns;
			h = other;
		}
	}
	if (half(h.data_ns, ns) || half(h.loading_ns, ns))
		return GAP_DATA;
	if (half(h.preempted_ns, ns))
		return GAP_PREEMPTED;
	if (half(h.blocked_ns, ns))
		return GAP_BLOCKED;
	if (half(h.collective_ns, ns))
		return GAP_COLLECTIVE;
	bool after_wait = h.sync_end_ns && h.sync_end_ns + GAP_AFTER_WAIT_NS > call->start_ns;
	return after_wait || half(h.sync_ns, ns) ? GAP_SYNC : GAP_LAUNCH;
}

static enum gap_reason reason_of(const struct device_run *d, uint64_t from_ns,
				 const struct timeline_span *next, const struct timeline_span *last)
{
	const struct timeline_call *calls = d->t->calls.data;
	if (next->call == TIMELINE_NONE)
		return GAP_UNKNOWN;
	const struct timeline_call *call = &calls[next->call];
	/* A device that always had work ahead tells nothing of how soon it begins. */
	uint64_t soon_ns =
		d->ret->launch_ns < GAP_DISPATCH_NS ? d->ret->launch_ns : GAP_DISPATCH_NS;
	if (call->start_ns + soon_ns > from_ns)
		return host_reason(d, from_ns, call,
				   last->call == TIMELINE_NONE ? NULL : &calls[last->call]);
	return next->start_ns - from_ns > GAP_DISPATCH_NS ? GAP_DEPENDENCY : GAP_DISPATCH;
}

static void go_through(struct device_run *d)
{
	struct gap_device *ret = d->ret;
	struct cover busy = {0}, kernels = {0}, copies = {0}, collectives = {0};
	const struct timeline_span *last = NULL; /* that ends last so far */
	for (size_t i = 0; i < d->len; i++) {
		const struct timeline_span *s = &d->t->spans.data[d->spans[i]];
		uint64_t start_ns = s->start_ns, end_ns = s->end_ns;
		uint8_t work = timeline_kind_of(d->t, s)->work;
		bool copy = work == WORK_COPY || work == WORK_SET;
		if (last && start_ns > busy.end_ns) {
			uint64_t ns = start_ns - busy.end_ns;
			ret->idle_ns += ns;
			ret->short_count += ns <= GAP_SHORT_NS;
			ret->short_ns += ns <= GAP_SHORT_NS ? ns : 0;
			if (ns > GAP_SHORT_NS)
				*vec_push(&d->gaps[reason_of(d, busy.end_ns, s, last)]) = ns;
		}
		if (!last || end_ns >= busy.end_ns)
			last = s;
		if (!i)
			busy.end_ns = start_ns;
		cover_add(&busy, start_ns, end_ns);
		cover_add(copy ? &copies : &kernels, start_ns, end_ns);
		if (timeline_is_collective(d->t, s))
			cover_add(&collectives, start_ns, end_ns);
		add_stream(d, s);
	}
	ret->busy_ns = busy.total_ns;
	ret->span_ns = busy.total_ns + ret->idle_ns;
	ret->kernels_ns = kernels.total_ns;
	ret->copies_ns = copies.total_ns;
	ret->collectives_ns = collectives.total_ns;
}

static int compare_rows(const void *a, const void *b)
{
	const struct gap_row *x = a, *y = b;
	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	return (int)x->reason - (int)y->reason;
}

static int compare_streams(const void *a, const void *b)
{
	const struct gap_stream *x = a, *y = b;
	if (x->busy_ns != y->busy_ns)
		return x->busy_ns > y->busy_ns ? -1 : 1;
	if (x->context != y->context)
		return x->context < y->context ? -1 : 1;
	return x->stream < y->stream ? -1 : x->stream > y->stream;
}

static void sum_up(struct device_run *d)
{
	for (int reason = 0; reason < GAP_REASONS; reason++) {
		size_t n = d->gaps[reason].len;
		struct gap_row row = {.reason = (enum gap_reason)reason, .count = n};
		if (!n)
			continue;
		qsort(d->gaps[reason].data, n, sizeof(uint64_t), sort_compare_u64);
		for (size_t i = 0; i < n; i++)
			row.total_ns += d->gaps[reason].data[i];
		row.p50_ns = d->gaps[reason].data[(n - 1) / 2];
		row.max_ns = d->gaps[reason].data[n - 1];
		*vec_push(&d->ret->gaps) = row;
		vec_free(&d->gaps[reason]);
	}
	for (size_t i = 0; i < d->streams.len; i++) {
		const struct stream_cover *s = &d->streams.data[i];
		*(struct gap_stream *)vec_push(&d->ret->streams) =
			(struct gap_stream){s->context, s->stream, s->spans, s->cover.total_ns};
	}
	vec_free(&d->streams);
	map64_free(&d->stream_of);
	if (d->ret->gaps.len)
		qsort(d->ret->gaps.data, d->ret->gaps.len, sizeof(*d->ret->gaps.data),
		      compare_rows);
	if (d->ret->streams.len)
		qsort(d->ret->streams.data, d->ret->streams.len, sizeof(*d->ret->streams.data),
		      compare_streams);
}

static void make_device(struct gpu_gaps *g, const struct timeline *t, const struct gpu_host *host,
			const uint32_t *spans, size_t n)
{
	const struct timeline_span *first = &t->spans.data[spans[0]];
	struct gap_device *ret = vec_push(&g->devices);
	struct device_run d = {.t = t, .host = host, .ret = ret, .spans = spans, .len = n};
	ret->pid = timeline_kind_of(t, first)->pid;
	ret->device = timeline_kind_of(t, first)->device;
	ret->first_ns = first->start_ns;
	least_launch(&d);
	go_through(&d);
	ret->exposed_ns = exposed(&d);
	sum_up(&d);
}

/* ---- all of them ---- */

static const struct timeline_kind *kind_at(const struct timeline *t, uint32_t span)
{
	return timeline_kind_of(t, &t->spans.data[span]);
}

static int compare_places(const void *a, const void *b, void *arg)
{
	const struct timeline *t = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct timeline_kind *s = kind_at(t, x), *o = kind_at(t, y);
	if (s->pid != o->pid)
		return s->pid < o->pid ? -1 : 1;
	if (s->device != o->device)
		return s->device < o->device ? -1 : 1;
	return x < y ? -1 : x > y; /* they are in order of start */
}

struct gaps_job {
	struct gpu_gaps *ret;
	const struct timeline *t;
	struct gpu_host *host;
};

static void find_gaps(void *ctx)
{
	struct gaps_job *job = ctx;
	struct gpu_gaps *ret = job->ret;
	const struct timeline *t = job->t;
	uint32_t *order = xcalloc(t->spans.len + 1, sizeof(*order));
	size_t n = 0;
	for (size_t i = 0; i < t->spans.len; i++)
		if (kind_at(t, (uint32_t)i)->work != WORK_SYNC)
			order[n++] = (uint32_t)i;
	ret->waits = gpu_host_waits(job->host);
	sort_runs(order, n, sizeof(*order), compare_places, (void *)(uintptr_t)t);
	for (size_t i = 0; i < n;) {
		const struct timeline_kind *first = kind_at(t, order[i]);
		size_t to = i;
		while (to < n && kind_at(t, order[to])->pid == first->pid &&
		       kind_at(t, order[to])->device == first->device)
			to++;
		if (ret->devices.len < GAP_DEVICES)
			make_device(ret, t, job->host, order + i, to - i);
		else
			ret->left_out++;
		i = to;
	}
	gpu_host_free(job->host);
	free(order);
	free(job);
}

struct row_visitor *gpu_gaps_visitor(struct gpu_gaps *ret, const struct row_source *s,
				     const struct timeline *t)
{
	struct gaps_job *job = xcalloc(1, sizeof(*job));
	*ret = (struct gpu_gaps){0};
	job->ret = ret;
	job->t = t;
	return gpu_host_visitor(&job->host, s, t, find_gaps, job);
}

void gpu_gaps_make(struct gpu_gaps *ret, const struct row_source *s, const struct timeline *t)
{
	struct row_visitor *v = gpu_gaps_visitor(ret, s, t);
	rows_visit(s, &v, 1, NULL);
}

void gpu_gaps_free(struct gpu_gaps *g)
{
	for (size_t i = 0; i < g->devices.len; i++) {
		vec_free(&g->devices.data[i].gaps);
		vec_free(&g->devices.data[i].streams);
	}
	vec_free(&g->devices);
}
