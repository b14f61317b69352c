/* work_flows.c - looks up arrows from calls to GPU spans. */
#include "export/work_flows.h"

static int compare_rows(const void *a, const void *b)
{
	const struct work_flow *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->call_start_ns != y->call_start_ns)
		return x->call_start_ns < y->call_start_ns ? -1 : 1;
	if (x->probe != y->probe)
		return x->probe < y->probe ? -1 : 1;
	return x->span_start_ns < y->span_start_ns ? -1 : x->span_start_ns > y->span_start_ns;
}

static int compare_spans(const void *a, const void *b, void *arg)
{
	const struct work_flow *rows = arg;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct work_flow *x = &rows[i], *y = &rows[k];
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->span_start_ns != y->span_start_ns)
		return x->span_start_ns < y->span_start_ns ? -1 : 1;
	return i < k ? -1 : i > k;
}

void work_flows_sort(struct work_flows *f)
{
	if (f->rows.len)
		qsort(f->rows.data, f->rows.len, sizeof(*f->rows.data), compare_rows);
	f->by_span = xcalloc(f->rows.len + 1, sizeof(*f->by_span));
	for (uint32_t i = 0; i < f->rows.len; i++)
		f->by_span[i] = i;
	if (f->rows.len)
		qsort_r(f->by_span, f->rows.len, sizeof(*f->by_span), compare_spans, f->rows.data);
}

void work_flows_free(struct work_flows *f)
{
	vec_free(&f->rows);
	free(f->by_span);
}

uint32_t work_flows_of_call(const struct work_flows *f, uint32_t thread, uint64_t start_ns,
			    uint32_t probe, uint32_t *ret_count)
{
	const struct work_flow key = {.thread = thread, .call_start_ns = start_ns, .probe = probe};
	size_t low = 0, high = f->rows.len;
	while (low < high) { /* the first that is not before it */
		size_t mid = low + (high - low) / 2;
		if (compare_rows(&f->rows.data[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	uint32_t n = 0;
	for (; low + n < f->rows.len; n++) {
		const struct work_flow *row = &f->rows.data[low + n];
		if (row->thread != thread || row->call_start_ns != start_ns || row->probe != probe)
			break;
	}
	*ret_count = n;
	return (uint32_t)low;
}

bool work_flows_take(struct work_flows *f, uint32_t pid, uint64_t start_ns, uint32_t correlation,
		     uint32_t *ret_row)
{
	size_t low = 0, high = f->rows.len;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct work_flow *row = &f->rows.data[f->by_span[mid]];
		if (row->pid < pid || (row->pid == pid && row->span_start_ns < start_ns))
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < f->rows.len; low++) {
		struct work_flow *row = &f->rows.data[f->by_span[low]];
		if (row->pid != pid || row->span_start_ns != start_ns)
			return false;
		if (row->ended || row->correlation != correlation)
			continue;
		row->ended = true;
		*ret_row = f->by_span[low];
		return true;
	}
	return false;
}
