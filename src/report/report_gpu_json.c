/* report_gpu_json.c - the part of the report's JSON that concerns GPUs; docs/report.md names
 * its keys. */
#include <inttypes.h>
#include <math.h>

#include "report/report.h"
#include "report/report_json.h"

static void set_text(json_t *o, const char *key, const char *s)
{
	json_object_set_new(o, key, report_text_json(s));
}

static void set_number(json_t *o, const char *key, uint64_t v)
{
	json_object_set_new(o, key, report_number_json(v));
}

/* -1 and the like stand for "unknown". */
static void set_known(json_t *o, const char *key, int64_t v, bool known)
{
	json_object_set_new(o, key, known ? json_integer(v) : json_null());
}

static void set_real(json_t *o, const char *key, double v)
{
	json_object_set_new(o, key, isfinite(v) ? json_real(v) : json_null());
}

static void set_hex(json_t *o, const char *key, uint64_t v)
{
	char hex[24];
	snprintf(hex, sizeof(hex), "0x%" PRIx64, v);
	json_object_set_new(o, key, json_string(hex));
}

static json_t *dim3_json(uint64_t v)
{
	return json_pack("[i,i,i]", (int)dim3_x(v), (int)dim3_y(v), (int)dim3_z(v));
}

static void kernels_json(struct json_stream *out, const struct report *r)
{
	const struct gpu_summary *s = r->gpu;
	json_stream_array(out, "kernels");
	for (size_t i = 0; i < s->kernels.len; i++) {
		const struct gpu_kernel *k = &s->kernels.data[i];
		json_t *o = json_object();
		set_text(o, "name", k->name);
		set_text(o, "short_name", k->short_name);
		set_number(o, "launches", k->launches);
		set_number(o, "graph_kernels", k->graph_kernels);
		set_number(o, "captured", k->captured);
		set_number(o, "total_ns", k->total_ns);
		set_number(o, "mean_ns", k->launches ? k->total_ns / k->launches : 0);
		const struct kernel_time *t = &r->kernel_times.rows[i];
		set_known(o, "device_ns", (int64_t)t->total_ns, r->timeline->spans.len > 0);
		set_known(o, "device_count", (int64_t)t->count, r->timeline->spans.len > 0);
		set_known(o, "device_max_ns", (int64_t)t->max_ns, r->timeline->spans.len > 0);
		json_object_set_new(o, "grid", dim3_json(k->grid));
		json_object_set_new(o, "block", dim3_json(k->block));
		json_stream_put(out, NULL, o);
	}
	json_stream_close(out);
}

static json_t *launches_json(const struct report *r)
{
	const struct gpu_summary *s = r->gpu;
	const struct gpu_launches *n = &s->total;
	uint64_t calls = n->launches + n->captured;
	json_t *o = json_object();
	set_number(o, "launches", n->launches);
	set_number(o, "captured", n->captured);
	set_number(o, "named", n->named);
	json_object_set_new(o, "named_ratio",
			    calls ? json_real((double)n->named / (double)calls) : json_null());
	set_number(o, "graph_launches", n->graphs);
	set_number(o, "graph_kernels", n->graph_kernels);
	set_number(o, "graph_launches_unknown", n->graphs_unknown);
	json_object_set_new(o, "partial", json_boolean(report_gpu_partial(r->tables)));
	return o;
}

static void copies_json(struct json_stream *out, const struct gpu_summary *s)
{
	static const char *const directions[] = {"HtoD", "DtoH", "DtoD", "HtoH", "PtoP", "unified"};
	json_stream_array(out, "copies");
	for (size_t i = 0; i < s->copies.len; i++) {
		const struct gpu_copies *c = &s->copies.data[i];
		json_t *o = json_object();
		set_text(o, "direction", c->set ? NULL : directions[c->direction]);
		set_text(o, "kind", c->set ? "set" : "copy");
		json_object_set_new(o, "async", json_boolean(c->async));
		set_number(o, "calls", c->calls);
		set_number(o, "captured", c->captured);
		set_number(o, "graph_nodes_run", c->graph_nodes_run);
		set_number(o, "bytes", c->bytes);
		set_number(o, "total_ns", c->total_ns);
		json_stream_put(out, NULL, o);
	}
	json_stream_close(out);
}

static void syncs_json(struct json_stream *out, const struct gpu_summary *s)
{
	json_stream_array(out, "syncs");
	for (size_t i = 0; i < s->syncs.len; i++) {
		const struct gpu_sync *y = &s->syncs.data[i];
		json_t *o = json_object();
		set_text(o, "name", y->name);
		set_number(o, "calls", y->calls);
		set_number(o, "total_ns", y->total_ns);
		set_number(o, "max_ns", y->max_ns);
		json_stream_put(out, NULL, o);
	}
	json_stream_close(out);
}

static void collectives_json(struct json_stream *out, const struct gpu_summary *s)
{
	json_stream_array(out, "collectives");
	for (size_t i = 0; i < s->collectives.len; i++) {
		const struct gpu_collective *c = &s->collectives.data[i];
		json_t *o = json_object();
		set_text(o, "function", c->function);
		if (c->comm && c->comm->hash)
			set_hex(o, "comm_hash", c->comm->hash);
		else
			set_text(o, "comm_hash", NULL);
		set_number(o, "pid", c->pid);
		set_known(o, "rank", c->comm ? c->comm->rank : 0, c->comm && c->comm->rank >= 0);
		set_known(o, "size", c->comm ? c->comm->size : 0, c->comm && c->comm->size > 0);
		set_text(o, "datatype", c->datatype);
		set_number(o, "calls", c->calls);
		set_number(o, "bytes", c->bytes);
		set_number(o, "total_ns", c->total_ns);
		json_stream_put(out, NULL, o);
	}
	json_stream_close(out);
}

static void communicators_json(struct json_stream *out, const struct gpu_summary *s)
{
	json_stream_array(out, "communicators");
	for (size_t i = 0; i < s->comms.len; i++) {
		const struct gpu_comm *c = &s->comms.data[i];
		json_t *o = json_object();
		set_number(o, "pid", c->row->pid);
		set_hex(o, "handle", c->row->handle);
		if (c->row->hash)
			set_hex(o, "hash", c->row->hash);
		else
			set_text(o, "hash", NULL);
		set_known(o, "rank", c->row->rank, c->row->rank >= 0);
		set_known(o, "size", c->row->size, c->row->size > 0);
		set_known(o, "device", c->row->device, c->row->device >= 0);
		set_number(o, "calls", c->calls);
		set_number(o, "bytes", c->bytes);
		json_stream_put(out, NULL, o);
	}
	json_stream_close(out);
}

static void sources_json(struct json_stream *out, const struct gpu_memory *m)
{
	json_stream_array(out, "by_source");
	for (size_t i = 0; i < m->sources.len; i++) {
		json_t *o = json_object();
		set_text(o, "function", m->sources.data[i].function);
		set_number(o, "bytes", m->sources.data[i].bytes);
		set_number(o, "count", m->sources.data[i].count);
		json_stream_put(out, NULL, o);
	}
	json_stream_close(out);
}

static void put_number(struct json_stream *out, const char *key, uint64_t v)
{
	json_stream_put(out, key, report_number_json(v));
}

static void memory_json(struct json_stream *out, const struct gpu_memory *m, bool of_device)
{
	json_stream_object(out, NULL);
	put_number(out, "pid", m->pid);
	if (of_device)
		json_stream_put(out, "device", json_integer(m->device));
	put_number(out, "live_bytes", m->live_bytes);
	put_number(out, "peak_bytes", m->peak_bytes);
	put_number(out, "peak_ns", m->peak_ns);
	put_number(out, "allocs", m->allocs);
	put_number(out, "frees", m->frees);
	put_number(out, "leaked_bytes", m->leaked_bytes);
	put_number(out, "leaked_count", m->leaked_count);
	put_number(out, "unmatched_frees", m->unmatched_frees);
	put_number(out, "unmatched_allocs", m->unmatched_allocs);
	sources_json(out, m);
	json_stream_close(out);
}

static void errors_json(struct json_stream *out, const struct gpu_summary *s)
{
	json_stream_array(out, "errors");
	for (size_t i = 0; i < s->errors.len; i++) {
		const struct gpu_error *e = &s->errors.data[i];
		json_t *o = json_object();
		set_text(o, "layer", e->layer);
		set_text(o, "function", e->function);
		json_object_set_new(o, "code", json_integer(e->code));
		set_text(o, "name", e->name);
		set_number(o, "calls", e->calls);
		json_stream_put(out, NULL, o);
	}
	json_stream_close(out);
}

json_t *report_counter_json(const struct counter_sum *c)
{
	json_t *o = json_object();
	set_real(o, "mean", c->mean);
	set_real(o, "min", c->min);
	set_real(o, "max", c->max);
	set_real(o, "last", c->last);
	set_number(o, "samples", c->samples);
	return o;
}

static json_t *counters_json(const gpu_counters_t *counters)
{
	json_t *all = json_object();
	for (size_t i = 0; i < counters->len; i++) {
		json_t *name = report_text_json(counters->data[i].name);
		json_object_set_new(all, json_string_value(name),
				    report_counter_json(&counters->data[i].sum));
		json_decref(name);
	}
	return all;
}

static void gpu_text(struct json_stream *out, const struct report *r, const char *key,
		     const uint32_t *string)
{
	const char *text = string ? strtab_get(&r->tables->strings, *string, NULL) : NULL;
	json_stream_put(out, key, report_text_json(text));
}

static void gpu_processes_json(struct json_stream *out, const struct gpu_device *d)
{
	json_stream_array(out, "processes");
	for (size_t i = 0; i < d->processes.len; i++) {
		json_t *p = json_object();
		set_number(p, "pid", d->processes.data[i].pid);
		json_object_set_new(p, "counters", counters_json(&d->processes.data[i].counters));
		json_stream_put(out, NULL, p);
	}
	json_stream_close(out);
}

static void gpu_json(struct json_stream *out, const struct report *r, const struct gpu_device *d)
{
	const struct m_gpu *row = d->row;
	json_stream_object(out, NULL);
	put_number(out, "index", d->index);
	if (*d->host)
		json_stream_put(out, "host", report_text_json(d->host));
	gpu_text(out, r, "name", row ? &row->name : NULL);
	gpu_text(out, r, "uuid", row ? &row->uuid : NULL);
	gpu_text(out, r, "bus_id", row ? &row->bus_id : NULL);
	gpu_text(out, r, "driver", row ? &row->driver : NULL);
	json_stream_put(out, "parent",
			row && row->parent >= 0 ? json_integer(row->parent) : json_null());
	json_stream_put(out, "memory_bytes",
			row && row->memory_bytes ? report_number_json(row->memory_bytes)
						 : json_null());
	json_stream_put(out, "power_limit_w",
			row && row->power_limit_w > 0 && isfinite(row->power_limit_w)
				? json_real(row->power_limit_w)
				: json_null());
	json_stream_put(out, "counters", counters_json(&d->counters));
	gpu_processes_json(out, d);
	json_stream_close(out);
}

static void events_json(struct json_stream *out, const struct report *r)
{
	const struct strtab *strings = &r->tables->strings;
	json_stream_array(out, "events");
	for (size_t i = 0; i < r->gpu->events.len; i++) {
		const struct m_event *e = &r->gpu->events.data[i];
		json_t *o = json_object();
		set_number(o, "time_ns", e->time_ns);
		set_text(o, "entity", strtab_get(strings, e->entity, NULL));
		set_text(o, "name", strtab_get(strings, e->name, NULL));
		set_text(o, "text", strtab_get(strings, e->text, NULL));
		json_stream_put(out, NULL, o);
	}
	json_stream_close(out);
}

void report_gpu_json(struct json_stream *out, const struct report *r)
{
	const struct gpu_summary *s = r->gpu;
	kernels_json(out, r);
	json_stream_put(out, "cuda", launches_json(r));
	copies_json(out, s);
	syncs_json(out, s);
	collectives_json(out, s);
	communicators_json(out, s);
	json_stream_array(out, "memory");
	for (size_t i = 0; i < s->memory.len; i++)
		memory_json(out, &s->memory.data[i], true);
	json_stream_close(out);
	json_stream_array(out, "pinned");
	for (size_t i = 0; i < s->pinned.len; i++)
		memory_json(out, &s->pinned.data[i], false);
	json_stream_close(out);
	errors_json(out, s);
	json_stream_array(out, "gpus");
	for (size_t i = 0; i < s->devices.len; i++)
		gpu_json(out, r, &s->devices.data[i]);
	json_stream_close(out);
	events_json(out, r);
}
