/* report_gpu_json.c - the part of the report's JSON that concerns GPUs; docs/report.md names
 * its keys. */
#include <inttypes.h>
#include <math.h>

#include "cli/report.h"
#include "cli/report_json.h"

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

static json_t *kernels_json(const struct report *r)
{
	const struct gpu_summary *s = r->gpu;
	json_t *list = json_array();
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
		json_array_append_new(list, o);
	}
	return list;
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

static json_t *copies_json(const struct gpu_summary *s)
{
	static const char *const directions[] = {"HtoD", "DtoH", "DtoD", "HtoH", "PtoP", "unified"};
	json_t *list = json_array();
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
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *syncs_json(const struct gpu_summary *s)
{
	json_t *list = json_array();
	for (size_t i = 0; i < s->syncs.len; i++) {
		const struct gpu_sync *y = &s->syncs.data[i];
		json_t *o = json_object();
		set_text(o, "name", y->name);
		set_number(o, "calls", y->calls);
		set_number(o, "total_ns", y->total_ns);
		set_number(o, "max_ns", y->max_ns);
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *collectives_json(const struct gpu_summary *s)
{
	json_t *list = json_array();
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
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *communicators_json(const struct gpu_summary *s)
{
	json_t *list = json_array();
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
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *sources_json(const struct gpu_memory *m)
{
	json_t *list = json_array();
	for (size_t i = 0; i < m->sources.len; i++) {
		json_t *o = json_object();
		set_text(o, "function", m->sources.data[i].function);
		set_number(o, "bytes", m->sources.data[i].bytes);
		set_number(o, "count", m->sources.data[i].count);
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *memory_json(const struct gpu_memory *m, bool of_device)
{
	json_t *o = json_object();
	set_number(o, "pid", m->pid);
	if (of_device)
		json_object_set_new(o, "device", json_integer(m->device));
	set_number(o, "live_bytes", m->live_bytes);
	set_number(o, "peak_bytes", m->peak_bytes);
	set_number(o, "peak_ns", m->peak_ns);
	set_number(o, "allocs", m->allocs);
	set_number(o, "frees", m->frees);
	set_number(o, "leaked_bytes", m->leaked_bytes);
	set_number(o, "leaked_count", m->leaked_count);
	set_number(o, "unmatched_frees", m->unmatched_frees);
	set_number(o, "unmatched_allocs", m->unmatched_allocs);
	json_object_set_new(o, "by_source", sources_json(m));
	return o;
}

static json_t *errors_json(const struct gpu_summary *s)
{
	json_t *list = json_array();
	for (size_t i = 0; i < s->errors.len; i++) {
		const struct gpu_error *e = &s->errors.data[i];
		json_t *o = json_object();
		set_text(o, "layer", e->layer);
		set_text(o, "function", e->function);
		json_object_set_new(o, "code", json_integer(e->code));
		set_text(o, "name", e->name);
		set_number(o, "calls", e->calls);
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *counters_json(const gpu_counters_t *counters)
{
	json_t *all = json_object();
	for (size_t i = 0; i < counters->len; i++) {
		const struct gpu_counter *c = &counters->data[i];
		json_t *o = json_object(), *name = report_text_json(c->name);
		set_real(o, "mean", c->mean);
		set_real(o, "min", c->min);
		set_real(o, "max", c->max);
		set_real(o, "last", c->last);
		set_number(o, "samples", c->samples);
		json_object_set_new(all, json_string_value(name), o);
		json_decref(name);
	}
	return all;
}

static json_t *gpu_json(const struct report *r, const struct gpu_device *d)
{
	const struct strtab *strings = &r->tables->strings;
	const struct m_gpu *row = d->row;
	json_t *o = json_object(), *processes = json_array();
	set_number(o, "index", d->index);
	if (*d->host)
		set_text(o, "host", d->host);
	set_text(o, "name", row ? strtab_get(strings, row->name, NULL) : NULL);
	set_text(o, "uuid", row ? strtab_get(strings, row->uuid, NULL) : NULL);
	set_text(o, "bus_id", row ? strtab_get(strings, row->bus_id, NULL) : NULL);
	set_text(o, "driver", row ? strtab_get(strings, row->driver, NULL) : NULL);
	set_known(o, "parent", row ? row->parent : 0, row && row->parent >= 0);
	set_known(o, "memory_bytes", row ? (int64_t)row->memory_bytes : 0,
		  row && row->memory_bytes);
	set_real(o, "power_limit_w", row && row->power_limit_w > 0 ? row->power_limit_w : NAN);
	json_object_set_new(o, "counters", counters_json(&d->counters));
	for (size_t i = 0; i < d->processes.len; i++) {
		json_t *p = json_object();
		set_number(p, "pid", d->processes.data[i].pid);
		json_object_set_new(p, "counters", counters_json(&d->processes.data[i].counters));
		json_array_append_new(processes, p);
	}
	json_object_set_new(o, "processes", processes);
	return o;
}

static json_t *events_json(const struct report *r)
{
	const struct strtab *strings = &r->tables->strings;
	json_t *list = json_array();
	for (size_t i = 0; i < r->gpu->events.len; i++) {
		const struct m_event *e = &r->gpu->events.data[i];
		json_t *o = json_object();
		set_number(o, "time_ns", e->time_ns);
		set_text(o, "entity", strtab_get(strings, e->entity, NULL));
		set_text(o, "name", strtab_get(strings, e->name, NULL));
		set_text(o, "text", strtab_get(strings, e->text, NULL));
		json_array_append_new(list, o);
	}
	return list;
}

void report_gpu_json(json_t *root, const struct report *r)
{
	const struct gpu_summary *s = r->gpu;
	json_t *memory = json_array(), *pinned = json_array(), *gpus = json_array();
	for (size_t i = 0; i < s->memory.len; i++)
		json_array_append_new(memory, memory_json(&s->memory.data[i], true));
	for (size_t i = 0; i < s->pinned.len; i++)
		json_array_append_new(pinned, memory_json(&s->pinned.data[i], false));
	for (size_t i = 0; i < s->devices.len; i++)
		json_array_append_new(gpus, gpu_json(r, &s->devices.data[i]));
	json_object_set_new(root, "kernels", kernels_json(r));
	json_object_set_new(root, "cuda", launches_json(r));
	json_object_set_new(root, "copies", copies_json(s));
	json_object_set_new(root, "syncs", syncs_json(s));
	json_object_set_new(root, "collectives", collectives_json(s));
	json_object_set_new(root, "communicators", communicators_json(s));
	json_object_set_new(root, "memory", memory);
	json_object_set_new(root, "pinned", pinned);
	json_object_set_new(root, "errors", errors_json(s));
	json_object_set_new(root, "gpus", gpus);
	json_object_set_new(root, "events", events_json(r));
}
