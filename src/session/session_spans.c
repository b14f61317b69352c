/* session_spans.c - the GPU's own time beside a recording: the command's processes are given the
 * CUPTI shim (inject/) through their environment, processes that run by session_attach.c, and the
 * mover empties their rings.
 *
 * CUDA loads the library that CUDA_INJECTION64_PATH names into each process that uses it. A
 * variable that is set already belongs to another tool: it stays, and there is no timeline. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "session/session_impl.h"
#include "session/shipped.h"
#include "collect/gpu_spans.h"

#define INJECTION_ENV "CUDA_INJECTION64_PATH"
#define SHIM	      "libeacgm_gpu.so"
#define PARENT	      "/dev/shm"
#define SUBJECT	      "gpu timeline"
#define DRAIN_NS      20000000ULL   /* a ring holds some 100,000 kernels */
#define PATIENCE_NS   3000000000ULL /* a shim waits for a call of the driver */
#define STEP_NS	      5000000L

/* ---- what rings tell ---- */

static uint32_t on_name(void *ctx, const char *text, size_t len)
{
	struct session *s = ctx;
	return pipeline_gpu_name(s->pipeline, text, len);
}

_Static_assert(GPU_RING_KERNEL == (int)WORK_KERNEL && GPU_RING_COPY == (int)WORK_COPY &&
		       GPU_RING_SET == (int)WORK_SET && GPU_RING_SYNC == (int)WORK_SYNC &&
		       GPU_RING_GRAPH == (int)WORK_GRAPH,
	       "the ring's kinds of work are the model's");

static void on_span(void *ctx, uint32_t pid, const struct gpu_ring_span *span, uint32_t name)
{
	struct session *s = ctx;
	struct m_gpu_span row = {
		.start_ns = span->start_ns,
		.end_ns = span->end_ns,
		.pid = pid,
		.device = (int32_t)span->device,
		.context = span->context,
		.stream = span->stream,
		.correlation = span->correlation,
		.name = name,
		.work = span->work,
		.copy_kind = span->copy_kind,
		.bytes = span->bytes,
		.graph_node = span->graph_node,
		.grid = dim3_pack(span->grid[0], span->grid[1], span->grid[2]),
		.block = dim3_pack(span->block[0], span->block[1], span->block[2]),
		.graph = span->graph,
		.registers = span->registers,
		.shared_bytes = span->shared_bytes,
		.source_kind = span->source_kind,
		.destination_kind = span->destination_kind,
		.async = span->async,
	};
	pipeline_gpu_span(s->pipeline, &row);
}

static void on_tells(void *ctx, uint32_t pid, uint32_t tells)
{
	struct session *s = ctx;
	if (tells & GPU_RING_TELLS_CALLS)
		pipeline_gpu_tells_calls(s->pipeline, pid);
	if (tells & GPU_RING_TELLS_OPERATORS) {
		atomic_store(&s->timeline.launches_told, (tells & GPU_RING_TELLS_LAUNCHES) != 0);
		atomic_store(&s->timeline.ops_told, true);
	}
}

_Static_assert(GPU_RING_OPERATOR == 0 && GPU_RING_NODE == 1, "kinds as a bool");

static uint32_t on_op_name(void *ctx, uint32_t kind, const char *text, size_t len)
{
	struct session *s = ctx;
	return pipeline_op_name(s->pipeline, kind == GPU_RING_NODE, text, len);
}

static void on_op(void *ctx, uint32_t pid, const struct gpu_ring_op *op, uint32_t name)
{
	struct session *s = ctx;
	struct pipeline_op row = {
		.start_ns = op->start_ns,
		.end_ns = op->end_ns,
		.sequence = op->sequence,
		.pid = pid,
		.tid = op->tid,
		.name = name,
		.depth = op->depth,
	};
	pipeline_op(s->pipeline, &row);
}

static void on_launch(void *ctx, uint32_t pid, const struct gpu_ring_launch *launch)
{
	struct session *s = ctx;
	struct pipeline_launch row = {
		.call = {.start_ns = launch->start_ns,
			 .end_ns = launch->end_ns,
			 .pid = pid,
			 .tid = launch->tid,
			 .correlation = launch->correlation,
			 .function = launch->function},
		.kernel = launch->kernel,
		.stream = launch->stream,
		.grid = dim3_pack(launch->grid[0], launch->grid[1], launch->grid[2]),
		.block = dim3_pack(launch->block[0], launch->block[1], launch->block[2]),
		.shared_bytes = launch->shared_bytes,
		.result = launch->result,
		.depth = launch->depth,
	};
	pipeline_launch(s->pipeline, &row);
}

static void on_ops_upto(void *ctx, uint32_t pid, uint64_t ns)
{
	struct session *s = ctx;
	pipeline_ops_upto(s->pipeline, pid, ns);
}

static void on_call(void *ctx, uint32_t pid, const struct gpu_ring_call *call)
{
	struct session *s = ctx;
	struct pipeline_gpu_call row = {
		.start_ns = call->start_ns,
		.end_ns = call->end_ns,
		.pid = pid,
		.tid = call->tid,
		.correlation = call->correlation,
		.function = call->function,
	};
	pipeline_gpu_call(s->pipeline, &row);
}

static void on_note(void *ctx, uint32_t pid, const char *text)
{
	struct session *s = ctx;
	char *reason = xasprintf("process %u: %s", pid, text);
	pipeline_note(s->pipeline, SUBJECT, reason);
	free(reason);
}

/* ---- giving the shim to the command ---- */

/* A callback costs a fifth of a probe, but all operators have one, five times as many as probes
 * have by default. Rows of operators come whole or not at all: modes that count them in the kernel,
 * and bursts, need the probes. */
static bool wants_callbacks(const struct session *s)
{
	const struct session_options *o = s->opts;
	bool asked = o->operators == OPERATORS_CALLBACKS ||
		     (o->operators == OPERATORS_AUTO && o->all_entries && !inside_is_on(s));
	return asked && session_records_calls(o, LAYER_HAS_OPERATORS) && !o->burst_on_ns;
}

/* What shims are asked for: enum gpu_options. */
unsigned spans_options(const struct session *s)
{
	const struct session_options *o = s->opts;
	/* in bursts graphs are made while nothing is recorded: see inject/cupti_shim.c */
	bool whole_graphs = o->gpu_timeline == GPU_TIMELINE_GRAPHS || o->burst_on_ns;
	unsigned options = whole_graphs				   ? GPU_OPTION_GRAPHS
			   : o->gpu_timeline == GPU_TIMELINE_WAITS ? GPU_OPTION_WAITS
								   : 0;
	if (!wants_callbacks(s))
		return options;
	/* stacks of launches are taken by their probes */
	bool launches = !o->stacks && session_records_calls(o, LAYER_HAS_KERNELS);
	return options | GPU_OPTION_OPERATORS | (launches ? GPU_OPTION_LAUNCHES : 0u);
}

static int prepare(struct session *s, char **environment, struct err *e)
{
	char path[4096];
	struct gpu_spans_events events = {.on_name = on_name,
					  .on_span = on_span,
					  .on_tells = on_tells,
					  .on_call = on_call,
					  .on_op_name = on_op_name,
					  .on_op = on_op,
					  .on_launch = on_launch,
					  .on_ops_upto = on_ops_upto,
					  .on_note = on_note,
					  .ctx = s};
	if (s->opts->command && s->opts->cupti_taken)
		return err_set(e, EBUSY,
			       "not recorded: " INJECTION_ENV " is set, another tool uses CUPTI");
	int rc = shipped_find(SHIM, path, sizeof(path), e);
	if (rc)
		return err_wrap(e, rc, "not recorded");
	rc = gpu_spans_open(&s->timeline.rings, PARENT, &events, e);
	if (rc)
		return rc;
	if (!s->opts->command) {
		attacher_open(s, path);
		return 0;
	}
	if (s->opts->user->changes)
		rc = gpu_spans_give(s->timeline.rings, s->opts->user->uid, s->opts->user->gid, e);
	if (rc)
		return rc;
	environment[0] = xasprintf(INJECTION_ENV "=%s", path);
	environment[1] = xasprintf(GPU_RINGS_ENV "=%s", gpu_spans_folder(s->timeline.rings));
	environment[2] = xasprintf(GPU_OPTIONS_ENV "=%u", spans_options(s));
	return 0;
}

void spans_prepare(struct session *s, char **environment)
{
	if (s->opts->gpu_timeline && prepare(s, environment, &s->timeline.error))
		session_say(s, "GPU timeline %s", s->timeline.error.msg);
}

void spans_tell(struct session *s)
{
	if (s->timeline.error.msg[0])
		pipeline_note(s->pipeline, SUBJECT, s->timeline.error.msg);
}

/* ---- while it runs ---- */

void spans_pause(struct session *s, bool pause)
{
	if (!s->timeline.rings)
		return;
	pthread_mutex_lock(&s->timeline.lock);
	gpu_spans_pause(s->timeline.rings, pause);
	pthread_mutex_unlock(&s->timeline.lock);
}

void spans_drain(struct session *s, uint64_t now_ns)
{
	if (!s->timeline.rings || now_ns - s->timeline.drained_ns < DRAIN_NS)
		return;
	pthread_mutex_lock(&s->timeline.lock);
	gpu_spans_drain(s->timeline.rings);
	pthread_mutex_unlock(&s->timeline.lock);
	attacher_look(s);
	s->timeline.drained_ns = now_ns;
}

/* Processes that have ended have handed over what they had; those that go on are asked to. The
 * attacher has ended. */
void spans_finish(struct session *s)
{
	struct gpu_spans_stats st;
	if (!s->timeline.rings)
		return;
	gpu_spans_drain(s->timeline.rings);
	gpu_spans_stop(s->timeline.rings);
	for (uint64_t end_ns = monotonic_ns() + PATIENCE_NS;
	     gpu_spans_active(s->timeline.rings) && monotonic_ns() < end_ns;) {
		nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
		gpu_spans_drain(s->timeline.rings);
		attacher_look(s);
	}
	pipeline_gpu_end(s->pipeline);
	gpu_spans_stats(s->timeline.rings, &st);
	if (gpu_spans_active(s->timeline.rings))
		pipeline_note(s->pipeline, SUBJECT,
			      "a process did not hand over what its GPU did last");
	if (!st.rings && s->opts->command)
		pipeline_note(s->pipeline, SUBJECT,
			      "no process used CUDA, or those that did could not read " SHIM
			      " or write to " PARENT " as the command's user");
}

uint64_t spans_lost_calls(struct session *s)
{
	struct gpu_spans_stats st;
	if (!s->timeline.rings)
		return 0;
	pthread_mutex_lock(&s->timeline.lock);
	gpu_spans_stats(s->timeline.rings, &st);
	pthread_mutex_unlock(&s->timeline.lock);
	return st.ring_full + st.calls_full + st.ops_lost;
}

void spans_losses(struct session *s)
{
	struct gpu_spans_stats st;
	if (!s->timeline.rings)
		return;
	pthread_mutex_lock(&s->timeline.lock);
	gpu_spans_stats(s->timeline.rings, &st);
	pthread_mutex_unlock(&s->timeline.lock);
	session_loss(s, "gpu_ring_full", st.ring_full);
	session_loss(s, "gpu_call_full", st.calls_full);
	session_loss(s, "operator_full", st.ops_lost);
	session_loss(s, "gpu_span_dropped", st.dropped);
	session_loss(s, "gpu_span_untimed", st.untimed);
	session_loss(s, "gpu_ring_record", st.bad_records);
}

void spans_close(struct session *s)
{
	attacher_close(s);
	if (s->timeline.rings)
		gpu_spans_close(s->timeline.rings);
	s->timeline.rings = NULL;
}

/* ---- operators by PyTorch's callbacks instead of probes ---- */

/* The control thread's. An operator that ends before this moment is the probe's, one that ends
 * after is PyTorch's, though the probe may see it too: to take probes off takes a while. */
void spans_switch_probes(struct session *s)
{
	if (s->timeline.ops_switched || !atomic_load(&s->timeline.ops_told))
		return;
	s->timeline.ops_switched = true;
	pipeline_ops_from(s->pipeline, monotonic_ns());
	tracer_switch_callbacks(s->tracer, atomic_load(&s->timeline.launches_told));
	pipeline_note(s->pipeline, "operators",
		      "of processes that use CUDA they are told by PyTorch itself; processes that "
		      "do not use it have none from then on");
}
