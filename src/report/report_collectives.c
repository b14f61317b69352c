/* report_collectives.c - how long collectives took on their devices, at which bandwidth, and the
 * connections that carry NCCL, in the report. */
#include <inttypes.h>
#include <stdlib.h>

#include "analyze/collectives.h"
#include "analyze/connections.h"
#include "base/human.h"
#include "report/report_section.h"

#define CONNECTIONS  10
#define COLUMN_BYTES 10
#define COLUMN_RATE  11

struct state {
	const struct collectives *collectives;
	uint8_t *uses; /* by connection: enum connection_use */
};

static void end(void *state)
{
	struct state *s = state;
	free(s->uses);
	free(s);
}

static void *begin(const struct report *r, struct report_visitors *v)
{
	(void)r;
	(void)v;
	return xcalloc(1, sizeof(struct state));
}

static bool make(const struct report *r, void *state)
{
	struct state *s = state;
	s->collectives = r->collectives;
	s->uses = connections_uses(r->tables);
	return s->collectives->rows.len || r->tables->connections.len;
}

/* "ncclAllReduce"; groups have no function of their own. */
static const char *function_of(const struct rec_tables *t, uint32_t probe, uint8_t op)
{
	if (probe == TIMELINE_NONE)
		return collective_op_name((enum collective_op)op);
	return strtab_get(&t->strings, t->probes.data[probe].name, NULL);
}

/* ---- text ---- */

static void rate_text(const struct page *p, double bytes_a_second)
{
	char text[HUMAN_BYTES + 8] = "-", n[HUMAN_BYTES];
	if (bytes_a_second >= 1e9)
		snprintf(text, sizeof(text), "%.*f GB/s", bytes_a_second < 1e10 ? 2 : 1,
			 bytes_a_second / 1e9);
	else if (bytes_a_second > 0)
		snprintf(text, sizeof(text), "%s/s", human_bytes(n, (uint64_t)bytes_a_second));
	page_right(p, text, COLUMN_RATE);
}

static void name_text(const struct page *p, const char *name, int32_t rank, int32_t size,
		      bool grouped, size_t used)
{
	char line[512], of[48] = "";
	if (rank >= 0 && size > 0)
		snprintf(of, sizeof(of), ", rank %d of %d", rank, size);
	snprintf(line, sizeof(line), "%s%s%s", name, grouped ? " in groups" : "", of);
	page_rest(p, line, used);
}

enum { SUM_USED = COLUMN_CALLS - 4 + COLUMN_BYTES + 2 * COLUMN_TIME + 2 * COLUMN_RATE + 8 };

static void sum_text(const struct page *p, const struct collective_sum *s)
{
	char text[HUMAN_BYTES];
	page_count(p, s->count, COLUMN_CALLS - 4);
	page_bytes(p, s->bytes / s->count, COLUMN_BYTES);
	page_ns(p, s->p50_ns, COLUMN_TIME);
	page_ns(p, s->max_ns, COLUMN_TIME);
	rate_text(p, s->algorithm_bandwidth);
	rate_text(p, s->bus_bandwidth);
	if (s->device_ns)
		snprintf(text, sizeof(text), "%.0f %%",
			 100 * (double)s->overlap_ns / (double)s->device_ns);
	page_right(p, s->device_ns ? text : "-", 8);
	name_text(p, function_of(p->r->tables, s->probe, s->op), s->rank, s->size, s->grouped,
		  SUM_USED);
}

static void sums_text(const struct page *p, const struct collectives *c)
{
	size_t shown = page_shown(p, c->sums.len);
	page_right(p, "count", COLUMN_CALLS - 4);
	page_right(p, "size", COLUMN_BYTES);
	page_right(p, "p50", COLUMN_TIME);
	page_right(p, "max", COLUMN_TIME);
	page_right(p, "algbw", COLUMN_RATE);
	page_right(p, "busbw", COLUMN_RATE);
	page_right(p, "overlap", 8);
	fputs("  function\n", p->out);
	for (size_t i = 0; i < shown; i++)
		sum_text(p, &c->sums.data[i]);
	page_more(p, c->sums.len, shown, COLUMN_CALLS);
}

static void longest_text(const struct page *p, const struct collectives *c)
{
	uint64_t start = report_number(p->r->tables, "start_monotonic_ns");
	char after[HUMAN_BYTES], took[HUMAN_BYTES], size[HUMAN_BYTES];
	fputs("  longest\n", p->out);
	for (size_t i = 0; i < c->longest.len; i++) {
		const struct collective *row = &c->rows.data[c->longest.data[i]];
		bool grouped = row->group_calls > 1;
		uint64_t at = row->device_start_ns > start ? row->device_start_ns - start : 0;
		page_right(p, human_ns(took, row->device_end_ns - row->device_start_ns),
			   COLUMN_CALLS - 4);
		char line[256];
		snprintf(line, sizeof(line), "%s #%" PRIu64 " of %s, %s after the start",
			 function_of(p->r->tables, grouped ? TIMELINE_NONE : row->probe,
				     row->group_op),
			 row->sequence, human_bytes(size, row->group_bytes), human_ns(after, at));
		name_text(p, line, row->rank, row->size, false, COLUMN_CALLS - 4);
	}
}

static void times_text(const struct page *p, const void *state)
{
	const struct collectives *c = ((const struct state *)state)->collectives;
	char text[HUMAN_BYTES];
	fputc('\n', p->out);
	page_styled(p, BOLD, "collectives on the device");
	page_wrapped(p, 25, 2,
		     ": waiting for other ranks included; bandwidths as nccl-tests has them");
	if (c->captured)
		fprintf(p->out, "  %s more are in CUDA graphs: their times are not known\n",
			human_count(text, c->captured));
	if (c->untimed)
		fprintf(p->out, "  %s more have no kernel in the recording\n",
			human_count(text, c->untimed));
	sums_text(p, c);
	longest_text(p, c);
}

static void connection_text(const struct page *p, const struct m_connection *c, bool maybe)
{
	const struct strtab *strings = &p->r->tables->strings;
	char line[256], rtt[32];
	page_bytes(p, c->bytes_sent - c->sent_before, COLUMN_BYTES);
	page_bytes(p, c->bytes_received - c->received_before, COLUMN_BYTES);
	page_bytes(p, c->bytes_retransmitted, COLUMN_BYTES);
	snprintf(rtt, sizeof(rtt), "%u µs", c->srtt_us);
	page_right(p, c->srtt_us ? rtt : "-", COLUMN_BYTES);
	snprintf(line, sizeof(line), "%u: %s to %s%s", c->pid, strtab_get(strings, c->source, NULL),
		 strtab_get(strings, c->destination, NULL), maybe ? " (NCCL's?)" : "");
	page_rest(p, line, 4 * COLUMN_BYTES);
}

static void connections_sum_text(const struct page *p, const struct state *s)
{
	struct connections_sum sum = connections_nccl(p->r->tables, s->uses, p->r->options->pid);
	char sent[HUMAN_BYTES], received[HUMAN_BYTES];
	if (sum.count)
		page_wrapped(p, 0, 4,
			     "  NCCL's connections: %" PRIu64
			     ", sent %s, received %s, retransmitted %" PRIu64 " segments",
			     sum.count, human_bytes(sent, sum.bytes_sent),
			     human_bytes(received, sum.bytes_received), sum.retransmits);
}

static void connections_text(const struct page *p, const void *state)
{
	const struct state *s = state;
	const struct rec_tables *t = p->r->tables;
	size_t n = 0;
	for (size_t i = 0; i < t->connections.len; i++) {
		const struct m_connection *c = &t->connections.data[i];
		if (!s->uses[i] || (p->r->options->pid && c->pid != p->r->options->pid))
			continue;
		if (!n) {
			fputc('\n', p->out);
			page_styled(p, BOLD, "sockets");
			fputs(": TCP connections that carry NCCL\n", p->out);
			connections_sum_text(p, s);
			page_right(p, "sent", COLUMN_BYTES);
			page_right(p, "received", COLUMN_BYTES);
			page_right(p, "resent", COLUMN_BYTES);
			page_right(p, "rtt", COLUMN_BYTES);
			fputs("  process\n", p->out);
		}
		if (n++ < CONNECTIONS || !p->r->options->top)
			connection_text(p, c, s->uses[i] == CONNECTION_MAYBE_NCCL);
	}
	if (p->r->options->top)
		page_more(p, n, n < CONNECTIONS ? n : CONNECTIONS, COLUMN_CALLS);
}

static bool has_connections(const struct report *r, const struct state *s)
{
	for (size_t i = 0; i < r->tables->connections.len; i++)
		if (s->uses[i] &&
		    (!r->options->pid || r->tables->connections.data[i].pid == r->options->pid))
			return true;
	return false;
}

/* Not timed: what the host did is in the table of calls. */
static void parts(const struct report *r, const void *state, struct report_parts *ret)
{
	const struct state *s = state;
	uint64_t ns = 0;
	for (size_t i = 0; i < s->collectives->sums.len; i++)
		ns += s->collectives->sums.data[i].device_ns;
	report_part_add(ret, &(struct report_part){.name = "collectives",
						   .relevance = s->collectives->timed
									? report_share(r, ns)
									: RELEVANT_NOT,
						   .text = times_text,
						   .state = s});
	report_part_add(ret,
			&(struct report_part){.name = "sockets",
					      .relevance = has_connections(r, s) ? RELEVANT_DETAIL
										 : RELEVANT_NOT,
					      .text = connections_text,
					      .state = s});
}

/* ---- JSON ---- */

static void set(json_t *o, const char *key, uint64_t v)
{
	json_object_set_new(o, key, report_number_json(v));
}

static void set_known(json_t *o, const char *key, uint64_t v, bool known)
{
	json_object_set_new(o, key, known ? report_number_json(v) : json_null());
}

static void set_rate(json_t *o, const char *key, double v)
{
	json_object_set_new(o, key, v > 0 ? json_real(v) : json_null());
}

static void set_comm(json_t *o, const struct rec_tables *t, uint32_t comm_row, uint64_t comm)
{
	char text[24];
	uint64_t hash = comm_row != TIMELINE_NONE ? t->comms.data[comm_row].hash : 0;
	snprintf(text, sizeof(text), "0x%" PRIx64, hash);
	json_object_set_new(o, "comm_hash", hash ? json_string(text) : json_null());
	snprintf(text, sizeof(text), "0x%" PRIx64, comm);
	json_object_set_new(o, "comm", json_string(text));
}

static json_t *sum_json(const struct rec_tables *t, const struct collective_sum *s)
{
	json_t *o = json_object();
	bool known = s->timed != 0;
	json_object_set_new(o, "function", report_text_json(function_of(t, s->probe, s->op)));
	json_object_set_new(o, "op", json_string(collective_op_name((enum collective_op)s->op)));
	json_object_set_new(o, "grouped", json_boolean(s->grouped));
	set(o, "pid", s->pid);
	set_comm(o, t, s->comm_row, s->comm);
	set_known(o, "rank", (uint64_t)s->rank, s->rank >= 0);
	set_known(o, "size", (uint64_t)s->size, s->size > 0);
	set(o, "from_bytes", s->from_bytes);
	set(o, "count", s->count);
	set(o, "calls", s->calls);
	set(o, "timed", s->timed);
	set(o, "bytes", s->bytes);
	set(o, "host_ns", s->host_ns);
	set_known(o, "device_ns", s->device_ns, known);
	set_known(o, "min_ns", s->min_ns, known);
	set_known(o, "p50_ns", s->p50_ns, known);
	set_known(o, "max_ns", s->max_ns, known);
	set_rate(o, "algorithm_bandwidth_bytes_per_s", s->algorithm_bandwidth);
	set_rate(o, "bus_bandwidth_bytes_per_s", s->bus_bandwidth);
	json_object_set_new(o, "overlap_ratio",
			    s->device_ns ? json_real((double)s->overlap_ns / (double)s->device_ns)
					 : json_null());
	return o;
}

static json_t *longest_json(const struct rec_tables *t, const struct collective *c)
{
	json_t *o = json_object();
	bool grouped = c->group_calls > 1;
	json_object_set_new(
		o, "function",
		report_text_json(function_of(t, grouped ? TIMELINE_NONE : c->probe, c->group_op)));
	set(o, "pid", c->pid);
	set_comm(o, t, c->comm_row, c->comm);
	set_known(o, "rank", (uint64_t)c->rank, c->rank >= 0);
	set(o, "sequence", c->sequence);
	set(o, "bytes", c->group_bytes);
	set(o, "calls", c->group_calls);
	set(o, "host_start_ns", c->start_ns);
	set(o, "start_ns", c->device_start_ns);
	set(o, "duration_ns", c->device_end_ns - c->device_start_ns);
	return o;
}

static void times_json(struct json_stream *out, const struct rec_tables *t,
		       const struct collectives *c)
{
	json_stream_object(out, "collective_times");
	json_stream_put(out, "calls", report_number_json(c->rows.len));
	json_stream_put(out, "timed", report_number_json(c->timed));
	json_stream_put(out, "captured", report_number_json(c->captured));
	json_stream_put(out, "untimed", report_number_json(c->untimed));
	json_stream_put(out, "has_gpu_spans", json_boolean(c->has_spans));
	json_stream_array(out, "sums");
	for (size_t i = 0; i < c->sums.len; i++)
		json_stream_put(out, NULL, sum_json(t, &c->sums.data[i]));
	json_stream_close(out);
	json_stream_array(out, "longest");
	for (size_t i = 0; i < c->longest.len; i++)
		json_stream_put(out, NULL, longest_json(t, &c->rows.data[c->longest.data[i]]));
	json_stream_close(out);
	json_stream_close(out);
}

static json_t *connection_json(const struct rec_tables *t, const struct m_connection *c,
			       uint8_t use)
{
	static const char *const uses[] = {"no", "yes", "maybe"};
	json_t *o = json_object();
	const char *opener = strtab_get(&t->strings, c->opener, NULL);
	set(o, "pid", c->pid);
	json_object_set_new(o, "source",
			    report_text_json(strtab_get(&t->strings, c->source, NULL)));
	json_object_set_new(o, "destination",
			    report_text_json(strtab_get(&t->strings, c->destination, NULL)));
	json_object_set_new(o, "opener", *opener ? report_text_json(opener) : json_null());
	json_object_set_new(o, "by_nccl", json_boolean(c->by_nccl));
	json_object_set_new(o, "nccl", json_string(uses[use]));
	set(o, "netns", c->netns);
	set(o, "first_ns", c->first_ns);
	set(o, "last_ns", c->last_ns);
	json_object_set_new(o, "closed", json_boolean(c->closed_ns != 0));
	set(o, "bytes_sent", c->bytes_sent);
	set(o, "bytes_received", c->bytes_received);
	set(o, "bytes_sent_before", c->sent_before);
	set(o, "bytes_received_before", c->received_before);
	set(o, "bytes_retransmitted", c->bytes_retransmitted);
	set(o, "retransmits", c->retransmits);
	set_known(o, "srtt_us", c->srtt_us, c->srtt_us);
	return o;
}

static json_t *connections_sum_json(const struct connections_sum *sum)
{
	json_t *o = json_object();
	set(o, "count", sum->count);
	set(o, "bytes_sent", sum->bytes_sent);
	set(o, "bytes_received", sum->bytes_received);
	set(o, "retransmits", sum->retransmits);
	return o;
}

static void json(struct json_stream *out, const struct report *r, const void *state)
{
	const struct state *s = state;
	times_json(out, r->tables, s->collectives);
	json_stream_array(out, "connections");
	for (size_t i = 0; i < r->tables->connections.len; i++) {
		const struct m_connection *c = &r->tables->connections.data[i];
		if (!r->options->pid || c->pid == r->options->pid)
			json_stream_put(out, NULL, connection_json(r->tables, c, s->uses[i]));
	}
	json_stream_close(out);
	struct connections_sum sum = connections_nccl(r->tables, s->uses, r->options->pid);
	json_stream_put(out, "nccl_connections", connections_sum_json(&sum));
}

const struct report_section report_collectives = {.name = "collectives",
						  .begin = begin,
						  .make = make,
						  .parts = parts,
						  .json = json,
						  .end = end};
