/* session_collect.c - the collectors of a session: what they may ask the kernel, and how what they
 * tell goes into the pipeline. */
#include <errno.h>

#include "session/session_impl.h"
#include "collect/nvml.h"
#include "collect/registry.h"
#include "collect/sockets.h"

#define PATIENCE_NS  2000000000 /* for a driver to answer, at the end */
#define ENTITY_BYTES 512

/* ---- the kernel's side ---- */

static int watch(void *kernel, uint8_t record, struct err *e)
{
	if (record == REC_SOCKET)
		return tracer_watch_sockets(kernel, e);
	tracer_watch_xid(kernel);
	return tracer_sees_xid(kernel) ? 0 : -EOPNOTSUPP;
}

static int sockets_of(void *kernel, pid_t pid,
		      void (*visit)(void *ctx, const struct rec_socket *row), void *ctx,
		      struct err *e)
{
	return tracer_sockets(kernel, pid, visit, ctx, e);
}

/* ---- what they tell ---- */

static void on_counter(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
		       double value)
{
	struct session *s = ctx;
	pipeline_counter(s->pipeline, time_ns, of, name, value);
}

static void on_event(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
		     const char *what)
{
	struct session *s = ctx;
	char text[ENTITY_BYTES];
	entity_text(text, sizeof(text), of);
	pipeline_event(s->pipeline, time_ns, text, name, what);
}

static void on_note(void *ctx, const char *subject, const char *reason)
{
	struct session *s = ctx;
	pipeline_note(s->pipeline, subject, reason);
}

static void on_gpu(void *ctx, uint64_t time_ns, const struct gpu_info *info, bool present)
{
	struct session *s = ctx;
	struct pipeline_gpu gpu = {
		.row = {.index = info->index,
			.parent = info->parent,
			.gpu_instance = info->gpu_instance,
			.memory_bytes = info->memory_bytes,
			.power_limit_w = info->power_limit_w,
			.seen_ns = time_ns,
			.gone_ns = present ? 0 : time_ns},
		.uuid = info->uuid,
		.name = info->name,
		.bus_id = info->bus_id,
		.driver = info->driver,
	};
	pipeline_gpu(s->pipeline, &gpu);
	atomic_store(&s->saw_gpu, true);
}

static void on_connection(void *ctx, const struct connection *c)
{
	struct session *s = ctx;
	struct pipeline_connection row = {
		.row = {.pid = c->pid,
			.netns = c->netns,
			.first_ns = c->first_ns,
			.last_ns = c->last_ns,
			.closed_ns = c->closed_ns,
			.bytes_sent = c->bytes_sent,
			.bytes_received = c->bytes_received,
			.bytes_retransmitted = c->bytes_resent,
			.retransmits = c->retransmits,
			.sent_before = c->sent_before,
			.received_before = c->received_before,
			.srtt_us = c->srtt_us,
			.by_nccl = c->by_nccl},
		.source = c->source,
		.destination = c->destination,
		.opener = c->opener,
	};
	pipeline_connection(s->pipeline, &row);
}

/* ---- start and stop ---- */

/* A host without GPUs is not worth a word, unless GPUs were asked for. */
void collect_start(struct session *s)
{
	const struct session_options *o = s->opts;
	s->collectors = collectors_open(&(struct collectors_options){
		.list = collector_registry,
		.len = collector_registry_len,
		.layers = o->layers,
		.env = {.proc_root = "/proc",
			.sys_root = "/sys",
			.nvml_library = o->nvml_path,
			.output = o->output,
			.period_least_ns = o->counters_ns,
			.started = o->command != NULL,
			.asked = o->frequent && o->layers != ~0u,
			.kernel = s->tracer,
			.watch = watch,
			.sockets = sockets_of},
		.sink = {s, on_counter, on_event, on_note, on_gpu, on_connection},
		.patience_ns = PATIENCE_NS,
	});
}

/* First what the kernel has told until now: connections that have closed, errors of GPUs. */
void collect_stop(struct session *s)
{
	tracer_unwatch_xid(s->tracer);
	tracer_control(s->tracer);
	collectors_stop(s->collectors);
}

void collect_close(struct session *s)
{
	collectors_close(s->collectors);
	s->collectors = NULL;
}
