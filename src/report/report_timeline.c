/* report_timeline.c - what the devices did, as text and JSON: busy, idle and why, copies. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/gpu_gaps.h"
#include "analyze/gpu_transfers.h"
#include "base/kernel_name.h"
#include "base/human.h"
#include "report/report_section.h"

static const char *const reason_names[GAP_REASONS] = GAP_REASON_NAMES;

struct state {
	const struct timeline *timeline;
	struct gpu_gaps gaps;
	struct gpu_transfers transfers;
};

static void *begin(const struct report *r, struct report_visitors *v)
{
	if (!r->tables->gpu_spans)
		return NULL;
	struct state *s = xcalloc(1, sizeof(*s));
	s->timeline = r->timeline;
	v->after[v->nafter++] = gpu_gaps_visitor(&s->gaps, r->source, r->timeline);
	return s;
}

static bool make(const struct report *r, void *state)
{
	struct state *s = state;
	if (r->timeline->spans.len)
		gpu_transfers_make(&s->transfers, r->timeline, 0);
	return r->timeline->spans.len;
}

static void end(void *state)
{
	struct state *s = state;
	gpu_gaps_free(&s->gaps);
	gpu_transfers_free(&s->transfers);
	free(s);
}

const struct gpu_gaps *report_timeline_gaps(const struct report *r)
{
	const struct state *s = report_section_state(r, &report_timeline);
	return s ? &s->gaps : NULL;
}

const struct gpu_transfers *report_timeline_transfers(const struct report *r)
{
	const struct state *s = report_section_state(r, &report_timeline);
	return s ? &s->transfers : NULL;
}

static double ratio(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

/* ---- text ---- */

static void share_right(const struct page *p, uint64_t part, uint64_t whole, size_t columns)
{
	char text[HUMAN_BYTES];
	snprintf(text, sizeof(text), "%.1f %%", 100 * ratio(part, whole));
	page_right(p, part ? text : "-", columns);
}

static void place_right(const struct page *p, const struct gap_device *d)
{
	fprintf(p->out, "%9u%8d", d->pid, d->device);
}

/* What has no partner, and why: most of it where the two kinds of tracing did not begin at once. */
static void matches_text(const struct page *p, const struct timeline *t)
{
	char all[HUMAN_BYTES], n[HUMAN_BYTES];
	uint64_t spans = t->unmatched_spans - t->outside_spans;
	uint64_t calls = t->unmatched_calls - t->outside_calls;
	fprintf(p->out, "  %s kernels, copies and sets; ",
		human_count(all, t->matched_spans + t->unmatched_spans));
	if (t->unmatched_spans)
		fprintf(p->out, "of %s the call that started it is recorded",
			human_count(n, t->matched_spans));
	else
		fputs("of each the call that started it is recorded", p->out);
	if (t->early_spans)
		fprintf(p->out, "; %s begin before their call", human_count(n, t->early_spans));
	fputc('\n', p->out);
	if (t->outside_spans)
		fprintf(p->out, "  started while calls were not traced: %s\n",
			human_count(n, t->outside_spans));
	if (spans)
		fprintf(p->out, "  started by calls that are not in the recording: %s\n",
			human_count(n, spans));
	if (t->outside_calls)
		fprintf(p->out, "  launches made while the GPU's work was not traced: %s\n",
			human_count(n, t->outside_calls));
	if (calls)
		fprintf(p->out, "  launches whose work is not in the recording: %s\n",
			human_count(n, calls));
}

static void devices_text(const struct page *p, const struct gpu_gaps *g)
{
	char n[HUMAN_BYTES];
	static const char *const columns[] = {"busy", "kernels",    "copies",
					      "NCCL", "NCCL alone", "idle"};
	fprintf(p->out, "%9s%8s%10s", "pid", "device", "span");
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		page_right(p, columns[i], i == 4 ? 12 : COLUMN_TIME);
	fputc('\n', p->out);
	for (size_t i = 0; i < g->devices.len; i++) {
		const struct gap_device *d = &g->devices.data[i];
		place_right(p, d);
		page_ns(p, d->span_ns, 10);
		share_right(p, d->busy_ns, d->span_ns, COLUMN_TIME);
		share_right(p, d->kernels_ns, d->span_ns, COLUMN_TIME);
		share_right(p, d->copies_ns, d->span_ns, COLUMN_TIME);
		share_right(p, d->collectives_ns, d->span_ns, COLUMN_TIME);
		share_right(p, d->exposed_ns, d->span_ns, 12);
		share_right(p, d->idle_ns, d->span_ns, COLUMN_TIME);
		fputc('\n', p->out);
	}
	if (g->left_out)
		fprintf(p->out, "... and %s more devices, which were left out\n",
			human_count(n, g->left_out));
}

static void gaps_text(const struct page *p, const struct gpu_gaps *g)
{
	static const char *const says[GAP_REASONS] = {
		[GAP_LAUNCH] = "launch: the host was too slow",
		[GAP_SYNC] = "sync: the host had waited for it",
		[GAP_DATA] = "data: the host waited for data",
		[GAP_PREEMPTED] = "preempted: the host had no CPU",
		[GAP_BLOCKED] = "blocked: the host was off the CPU",
		[GAP_COLLECTIVE] = "collective: the host was in NCCL",
		[GAP_DISPATCH] = "dispatch: the device's own",
		[GAP_DEPENDENCY] = "dependency: an event or the like",
		[GAP_UNKNOWN] = "unknown: launch not recorded",
	};
	static const char *const columns[] = {"gaps", "idle", "of idle", "p50", "max"};
	fprintf(p->out, "%9s%8s", "pid", "device");
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		page_right(p, columns[i], i ? COLUMN_TIME : 10);
	fputs("  reason of gaps over 1 µs\n", p->out);
	for (size_t i = 0; i < g->devices.len; i++) {
		const struct gap_device *d = &g->devices.data[i];
		for (size_t k = 0; k < d->gaps.len; k++) {
			const struct gap_row *row = &d->gaps.data[k];
			if (g->devices.len > 2 && row->total_ns < d->idle_ns / 1000)
				continue; /* of many devices, what matters */
			place_right(p, d);
			page_count(p, row->count, 10);
			page_ns(p, row->total_ns, COLUMN_TIME);
			share_right(p, row->total_ns, d->idle_ns, COLUMN_TIME);
			page_ns(p, row->p50_ns, COLUMN_TIME);
			page_ns(p, row->max_ns, COLUMN_TIME);
			fprintf(p->out, "  %s\n", says[row->reason]);
		}
	}
}

static const char *memory_name(uint8_t kind)
{
	static const char *const names[] = {
		[MEMORY_PAGEABLE] = "pageable", [MEMORY_PINNED] = "pinned",
		[MEMORY_DEVICE] = "device",	[MEMORY_ARRAY] = "array",
		[MEMORY_MANAGED] = "managed",
	};
	return kind && kind < sizeof(names) / sizeof(names[0]) ? names[kind] : NULL;
}

static void rate_right(const struct page *p, double bytes_per_s)
{
	char number[HUMAN_BYTES], text[HUMAN_BYTES + 8];
	uint64_t rate = bytes_per_s < 1e18 ? (uint64_t)bytes_per_s : (uint64_t)1e18;
	snprintf(text, sizeof(text), "%s/s", human_bytes(number, rate));
	page_right(p, bytes_per_s > 0 ? text : "-", 10);
}

/* "copy host to device, pinned, async". Of device memory nothing is said. */
static void transfer_name(const struct page *p, const struct transfer_row *row)
{
	const char *source = memory_name(row->source_kind);
	const char *destination = memory_name(row->destination_kind);
	fprintf(p->out, "  %s", row->set ? "set" : copy_kind_name(row->copy_kind));
	if (source && row->source_kind != MEMORY_DEVICE)
		fprintf(p->out, ", %s", source);
	if (destination && row->destination_kind != MEMORY_DEVICE)
		fprintf(p->out, ", to %s", destination);
	fprintf(p->out, "%s\n", row->async ? ", async" : "");
}

static void transfers_text(const struct page *p, const void *state)
{
	const struct gpu_transfers *g = &((const struct state *)state)->transfers;
	fputc('\n', p->out);
	page_styled(p, BOLD, "copies on the GPU");
	fputs(": as the devices made them\n", p->out);
	page_right(p, "copies", 10);
	page_right(p, "bytes", COLUMN_TIME);
	page_right(p, "time", COLUMN_TIME);
	page_right(p, "mean", 10);
	page_right(p, "p50", 10);
	page_right(p, "overlapped", 11);
	fputs("  what\n", p->out);
	for (size_t i = 0; i < g->rows.len; i++) {
		const struct transfer_row *row = &g->rows.data[i];
		page_count(p, row->count, 10);
		page_bytes(p, row->bytes, COLUMN_TIME);
		page_ns(p, row->total_ns, COLUMN_TIME);
		rate_right(p, row->mean_bytes_per_s);
		rate_right(p, row->p50_bytes_per_s);
		share_right(p, row->overlapped_ns, row->total_ns, 11);
		transfer_name(p, row);
	}
}

static void text(const struct page *p, const void *state)
{
	const struct state *s = state;
	fputc('\n', p->out);
	page_styled(p, BOLD, "time on the GPU");
	fputc('\n', p->out);
	matches_text(p, s->timeline);
	devices_text(p, &s->gaps);
	gaps_text(p, &s->gaps);
}

static void parts(const struct report *r, const void *state, struct report_parts *ret)
{
	const struct state *s = state;
	uint64_t span = 0, copies = 0;
	for (size_t i = 0; i < s->gaps.devices.len; i++)
		span += s->gaps.devices.data[i].span_ns;
	for (size_t i = 0; i < s->transfers.rows.len; i++)
		copies += s->transfers.rows.data[i].total_ns;
	report_part_add(ret, &(struct report_part){.name = "gpu-time",
						   .relevance = report_share(r, span),
						   .text = text,
						   .state = s});
	report_part_add(ret, &(struct report_part){.name = "copies",
						   .relevance = s->transfers.rows.len
									? report_share(r, copies)
									: RELEVANT_NOT,
						   .text = transfers_text,
						   .state = s});
}

/* ---- JSON ---- */

static void set_number(json_t *o, const char *key, uint64_t v)
{
	json_object_set_new(o, key, report_number_json(v));
}

static json_t *gap_json(const struct gap_row *row)
{
	json_t *o = json_object();
	json_object_set_new(o, "reason", json_string(reason_names[row->reason]));
	set_number(o, "count", row->count);
	set_number(o, "total_ns", row->total_ns);
	set_number(o, "p50_ns", row->p50_ns);
	set_number(o, "max_ns", row->max_ns);
	return o;
}

static json_t *stream_json(const struct gap_device *d, const struct gap_stream *s)
{
	json_t *o = json_object();
	set_number(o, "context", s->context);
	set_number(o, "stream", s->stream);
	set_number(o, "spans", s->spans);
	set_number(o, "busy_ns", s->busy_ns);
	json_object_set_new(o, "busy_ratio", json_real(ratio(s->busy_ns, d->span_ns)));
	return o;
}

static void put_number(struct json_stream *out, const char *key, uint64_t v)
{
	json_stream_put(out, key, report_number_json(v));
}

static void device_json(struct json_stream *out, const struct gap_device *d)
{
	json_stream_object(out, NULL);
	put_number(out, "pid", d->pid);
	json_stream_put(out, "device", json_integer(d->device));
	put_number(out, "first_ns", d->first_ns);
	put_number(out, "span_ns", d->span_ns);
	put_number(out, "busy_ns", d->busy_ns);
	put_number(out, "idle_ns", d->idle_ns);
	json_stream_put(out, "busy_ratio", json_real(ratio(d->busy_ns, d->span_ns)));
	put_number(out, "kernels_ns", d->kernels_ns);
	put_number(out, "copies_ns", d->copies_ns);
	put_number(out, "collectives_ns", d->collectives_ns);
	put_number(out, "collectives_alone_ns", d->exposed_ns);
	put_number(out, "short_gaps", d->short_count);
	put_number(out, "short_gaps_ns", d->short_ns);
	put_number(out, "least_launch_ns", d->launch_ns);
	json_stream_array(out, "gaps");
	for (size_t i = 0; i < d->gaps.len; i++)
		json_stream_put(out, NULL, gap_json(&d->gaps.data[i]));
	json_stream_close(out);
	json_stream_array(out, "streams");
	for (size_t i = 0; i < d->streams.len; i++)
		json_stream_put(out, NULL, stream_json(d, &d->streams.data[i]));
	json_stream_close(out);
	json_stream_close(out);
}

static json_t *rate_json(double bytes_per_s)
{
	return bytes_per_s > 0 ? json_real(bytes_per_s) : json_null();
}

static json_t *transfer_json(const struct transfer_row *row)
{
	json_t *o = json_object();
	json_object_set_new(o, "kind", json_string(row->set ? "set" : "copy"));
	json_object_set_new(o, "direction",
			    row->set ? json_null() : json_string(copy_kind_name(row->copy_kind)));
	json_object_set_new(o, "source", report_text_json(memory_name(row->source_kind)));
	json_object_set_new(o, "destination", report_text_json(memory_name(row->destination_kind)));
	json_object_set_new(o, "async", json_boolean(row->async));
	set_number(o, "count", row->count);
	set_number(o, "bytes", row->bytes);
	set_number(o, "total_ns", row->total_ns);
	set_number(o, "overlapped_ns", row->overlapped_ns);
	json_object_set_new(o, "mean_bytes_per_s", rate_json(row->mean_bytes_per_s));
	json_object_set_new(o, "p50_bytes_per_s", rate_json(row->p50_bytes_per_s));
	return o;
}

static void json(struct json_stream *out, const struct report *r, const void *state)
{
	const struct state *s = state;
	(void)r;
	json_stream_object(out, "gpu_timeline");
	put_number(out, "matched_spans", s->timeline->matched_spans);
	put_number(out, "unmatched_spans", s->timeline->unmatched_spans);
	put_number(out, "unmatched_launches", s->timeline->unmatched_calls);
	put_number(out, "outside_spans", s->timeline->outside_spans);
	put_number(out, "outside_launches", s->timeline->outside_calls);
	put_number(out, "early_spans", s->timeline->early_spans);
	json_stream_put(out, "waits_recorded", json_boolean(s->gaps.waits));
	json_stream_array(out, "devices");
	for (size_t i = 0; i < s->gaps.devices.len; i++)
		device_json(out, &s->gaps.devices.data[i]);
	json_stream_close(out);
	if (s->gaps.left_out)
		put_number(out, "devices_left_out", s->gaps.left_out);
	json_stream_array(out, "copies");
	for (size_t i = 0; i < s->transfers.rows.len; i++)
		json_stream_put(out, NULL, transfer_json(&s->transfers.rows.data[i]));
	json_stream_close(out);
	json_stream_close(out);
}

const struct report_section report_timeline = {
	.name = "gpu-time", .begin = begin, .make = make, .parts = parts, .json = json, .end = end};
