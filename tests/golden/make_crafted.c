/* make_crafted.c - writes recordings that nobody makes by tracing: few bytes that stand for many
 * rows, and rows that are the worst for one reader or another.
 *
 * usage: make_crafted NAME ROWS FILE     one of the cases
 *        make_crafted --list             their names
 *
 * They go through the real writer, so checksums and dictionaries are right; the rows are regular,
 * so they are small. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include "counters.h"
#include "base/buffer.h"
#include "base/random.h"
#include "gpu_sample.h"
#include "wire/event.h"

#define T0	  1000000000000ULL
#define CENTURY	  3155760000000000000ULL
#define PID	  100
#define LONG_TEXT (1u << 20)

struct crafted {
	struct rec_writer *w;
	uint64_t n;
	uint32_t comm;
	uint64_t random;
};

/* ---- what cases are made of ---- */

static uint32_t numbered(struct crafted *c, const char *what, uint64_t i)
{
	char text[64];
	snprintf(text, sizeof(text), "%s%llu", what, (unsigned long long)i);
	return rec_string_z(c->w, text);
}

static uint32_t long_text(struct crafted *c, char letter)
{
	char *text = xrealloc(NULL, LONG_TEXT, 1);
	memset(text, letter, LONG_TEXT);
	uint32_t number = rec_string(c->w, text, LONG_TEXT);
	free(text);
	return number;
}

static void process(struct crafted *c, uint32_t pid, uint64_t start_ns)
{
	rec_put_process(c->w, &(struct m_process){.pid = pid,
						  .parent_pid = pid - 1,
						  .comm = c->comm,
						  .start_ns = start_ns,
						  .rank = -1});
}

static uint32_t thread(struct crafted *c, uint32_t pid, uint32_t tid)
{
	return rec_add_thread(c->w, &(struct m_thread){pid, tid, c->comm});
}

static uint32_t probe(struct crafted *c, uint32_t layer, uint32_t name, uint32_t role)
{
	return rec_add_probe(c->w, &(struct m_probe){.layer = layer,
						     .name = name,
						     .symbol = name,
						     .role = role,
						     .kind = SITE_SPAN,
						     .name_arg = -1});
}

static uint32_t frame(struct crafted *c, uint32_t name, enum frame_kind kind)
{
	return rec_add_frame(c->w, &(struct m_frame){.kind = (uint8_t)kind, .name = name});
}

static uint32_t stack(struct crafted *c, uint32_t parent, uint32_t of)
{
	return rec_add_stack(c->w, &(struct m_stack){parent, of});
}

static void sample(struct crafted *c, uint64_t at_ns, uint32_t of, uint32_t on)
{
	rec_put_sample(c->w, &(struct m_sample){.time_ns = at_ns,
						.weight_ns = 1000000,
						.thread = on,
						.stack = of,
						.kind = SAMPLE_CPU});
}

static void call(struct crafted *c, uint32_t on, uint32_t of, uint64_t start_ns, uint64_t dur_ns,
		 uint8_t flags)
{
	rec_put_calls(c->w,
		      &(struct m_call){.start_ns = start_ns,
				       .dur_ns = dur_ns,
				       .thread = on,
				       .probe = of,
				       .flags = flags},
		      1);
}

/* A kernel's span; the rest is for the case to set. */
static struct m_gpu_span span(uint64_t i)
{
	return (struct m_gpu_span){.start_ns = T0 + 1000 * i,
				   .end_ns = T0 + 1000 * i + 500,
				   .pid = PID,
				   .stream = 7,
				   .correlation = (uint32_t)i};
}

static void counter(struct crafted *c, uint64_t at_ns, uint32_t name, uint32_t entity)
{
	put_counter_of(c->w, at_ns, rec_string_get(c->w, entity), rec_string_get(c->w, name), 1);
}

/* ---- tables ---- */

static void notes(struct crafted *c)
{
	uint32_t reason = rec_string_z(c->w, "is not installed");
	for (uint64_t i = 0; i < c->n; i++)
		rec_put_note(c->w, &(struct m_note){numbered(c, "lib", i % 1000), reason, T0});
}

static void notes_of_long_text(struct crafted *c)
{
	uint32_t subject = long_text(c, 's'), reason = long_text(c, 'r');
	for (uint64_t i = 0; i < c->n; i++)
		rec_put_note(c->w, &(struct m_note){subject, reason, T0});
}

static void processes(struct crafted *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		process(c, 1000 + i, T0);
}

static void processes_of_one_pid(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		process(c, PID, T0 + i);
}

static void processes_of_long_text(struct crafted *c)
{
	c->comm = long_text(c, 'c');
	processes(c);
}

static void threads(struct crafted *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		thread(c, PID + i % 7, 1000 + i);
}

static void threads_with_a_call(struct crafted *c)
{
	for (uint32_t i = 0; i < c->n / 2; i++)
		call(c, thread(c, 1000 + i, 1000 + i), GS_OPERATOR, T0 + i, 10, 0);
}

static void maps(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		rec_put_map(c->w, &(struct m_map){PID, i << 12, (i + 1) << 12, 0, c->comm, 0, T0});
}

static void metas(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		rec_put_meta(c->w, "command", "a");
}

static void windows(struct crafted *c)
{
	uint32_t layer = rec_string_z(c->w, "torch");
	for (uint64_t i = 0; i < c->n; i++)
		rec_put_window(c->w, &(struct m_window){T0 + i, T0 + i + 1, layer});
}

static void losses_by_cpu(struct crafted *c)
{
	uint32_t cause = rec_string_z(c->w, "ring_full");
	for (uint32_t i = 0; i < c->n; i++)
		rec_put_loss(c->w, &(struct m_loss){cause, i, 1});
}

static void losses_by_cause(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		rec_put_loss(c->w, &(struct m_loss){numbered(c, "cause", i), 0, 1});
}

static void histograms(struct crafted *c)
{
	for (uint32_t i = 0; i < c->n; i++) {
		struct m_hist h = {.pid = i, .probe = GS_OPERATOR, .count = 1, .total_ns = 10};
		h.buckets[i % 128] = 1;
		rec_put_hist(c->w, &h);
	}
}

static void enums(struct crafted *c)
{
	uint32_t type = rec_string_z(c->w, "CUresult");
	for (uint64_t i = 0; i < c->n; i++)
		rec_put_enum(c->w, &(struct m_enum){type, c->comm, (int64_t)i + 1000});
}

/* Each failed call has a code of its own, to be looked up among as many names. */
static void enums_and_errors(struct crafted *c)
{
	uint32_t type = rec_string_z(c->w, "CUresult");
	for (uint64_t i = 0; i < c->n / 2; i++)
		rec_put_enum(c->w, &(struct m_enum){type, c->comm, (int64_t)i + 1000});
	for (uint64_t i = 0; i < c->n / 2; i++)
		gpu_sample_call_full(c->w, 0, GS_SYNC, T0 + i * 100, 10, (const uint64_t[8]){7}, 0,
				     CALL_ERROR, c->n - i + 1000);
}

static void gpus(struct crafted *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		rec_put_gpu(c->w, &(struct m_gpu){.index = i,
						  .parent = (int32_t)(i % 3) - 1,
						  .uuid = numbered(c, "GPU-", i)});
}

static void gpus_with_counters(struct crafted *c)
{
	for (uint32_t i = 0; i < c->n / 4; i++)
		rec_put_gpu(
			c->w,
			&(struct m_gpu){.index = i, .parent = -1, .uuid = numbered(c, "GPU-", i)});
	for (uint32_t i = 0; i < c->n / 4; i++) {
		counter(c, T0 + i, rec_string_z(c->w, "sm_ratio"), numbered(c, "gpu ", i));
		counter(c, T0 + i, numbered(c, "name", i), numbered(c, "gpu ", 0));
	}
}

static void gpu_processes(struct crafted *c)
{
	uint32_t name = rec_string_z(c->w, "memory_used_bytes");
	rec_put_gpu(c->w, &(struct m_gpu){.parent = -1, .uuid = numbered(c, "GPU-", 0)});
	for (uint32_t i = 0; i < c->n; i++)
		counter(c, T0 + i, name, numbered(c, "gpu 0 pid ", i));
}

static void events(struct crafted *c)
{
	uint32_t entity = rec_string_z(c->w, "gpu 0"), xid = rec_string_z(c->w, "xid");
	for (uint64_t i = 0; i < c->n; i++)
		rec_put_event(c->w, &(struct m_event){T0 + i, entity, xid, c->comm});
}

static void comms_of(struct crafted *c, uint64_t n, uint64_t hash_every)
{
	for (uint64_t i = 0; i < n; i++)
		rec_put_comm(c->w, &(struct m_comm){.pid = PID,
						    .rank = (int32_t)i,
						    .size = (int32_t)n,
						    .handle = 0x5500 + i,
						    .hash = 1 + i / hash_every,
						    .parent = i ? 0x5500 + i - 1 : 0,
						    .start_ns = T0});
}

static void comms(struct crafted *c)
{
	comms_of(c, c->n, 1);
}

static void comms_of_one_hash(struct crafted *c)
{
	comms_of(c, c->n, c->n);
}

static void connections(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		rec_put_connection(
			c->w, &(struct m_connection){.pid = PID,
						     .source = numbered(c, "10.0.0.1:", i),
						     .destination = numbered(c, "10.0.0.2:", i),
						     .first_ns = T0,
						     .last_ns = T0 + 1000,
						     .by_nccl = 1,
						     .bytes_sent = i,
						     .srtt_us = 10});
}

static void connections_of_one_name(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		rec_put_connection(c->w, &(struct m_connection){.pid = PID,
								.source = c->comm,
								.destination = c->comm,
								.first_ns = T0 + i,
								.last_ns = T0 + i + 1,
								.by_nccl = 1});
}

static void sources(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		rec_put_source(c->w, &(struct m_source){.path = c->comm, .host = c->comm});
	for (uint32_t i = 0; i < c->n / 4; i++)
		rec_put_process(c->w, &(struct m_process){.pid = i + 1,
							  .comm = c->comm,
							  .start_ns = T0,
							  .rank = (int32_t)i,
							  .source = i});
}

static void strings(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		numbered(c, "a", i);
}

static void strings_of_long_text(struct crafted *c)
{
	for (uint64_t i = 0; i < 26 && i < c->n; i++)
		long_text(c, (char)('a' + i));
}

/* ---- functions and calls ---- */

static void probes(struct crafted *c)
{
	uint32_t layer = rec_string_z(c->w, "torch");
	for (uint64_t i = 0; i < c->n; i++)
		probe(c, layer, numbered(c, "aten::", i), 0);
}

static void probes_called(struct crafted *c)
{
	uint32_t layer = rec_string_z(c->w, "torch");
	for (uint64_t i = 0; i < c->n / 2; i++)
		call(c, 0, probe(c, layer, numbered(c, "aten::", i), 0), T0 + 10 * i, 5, 0);
}

static void layers_called(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n / 2; i++)
		call(c, 0, probe(c, numbered(c, "layer", i), c->comm, 0), T0 + 10 * i, 5, 0);
}

static void probes_of_long_text(struct crafted *c)
{
	uint32_t of = probe(c, long_text(c, 'l'), long_text(c, 'n'), 0);
	for (uint64_t i = 0; i < c->n; i++)
		call(c, 0, of, T0 + 10 * i, 5, 0);
}

static void overloads(struct crafted *c)
{
	uint32_t layer = rec_string_z(c->w, "torch"), name = rec_string_z(c->w, "aten::mm");
	for (uint64_t i = 0; i < c->n / 2; i++)
		call(c, 0, probe(c, layer, name, 0), T0 + 10 * i, 5, 0);
}

static void waits_of_many_probes(struct crafted *c)
{
	uint32_t layer = rec_string_z(c->w, "cuda"), role = rec_string_z(c->w, "sync");
	for (uint64_t i = 0; i < c->n / 2; i++)
		call(c, 0, probe(c, layer, numbered(c, "cuSync", i), role), T0 + 10 * i, 5, 0);
}

static void codes(struct crafted *c)
{
	uint32_t file = rec_string_z(c->w, "/job/a.py");
	uint32_t of = rec_add_probe(c->w, &(struct m_probe){.layer = rec_string_z(c->w, "python"),
							    .name = c->comm,
							    .nargs = 1,
							    .arg_names = {c->comm},
							    .arg_types = {ARG_TYPE_CODE}});
	for (uint64_t i = 0; i < c->n / 2; i++)
		rec_add_code(c->w, &(struct m_code){numbered(c, "f", i), file, (uint32_t)i});
	for (uint64_t i = 0; i < c->n / 2; i++)
		rec_put_calls(c->w,
			      &(struct m_call){.start_ns = T0 + 10 * i,
					       .dur_ns = 5,
					       .probe = of,
					       .nargs = 1,
					       .args = {i}},
			      1);
}

/* Functions named by an argument are numbered by layer and name: as many as the product. */
static void layers_of_named_calls(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++) {
		uint32_t of =
			rec_add_probe(c->w, &(struct m_probe){.layer = numbered(c, "l", i),
							      .name = c->comm,
							      .nargs = 1,
							      .arg_names = {c->comm},
							      .arg_types = {ARG_TYPE_STRING}});
		rec_put_calls(c->w,
			      &(struct m_call){.start_ns = T0 + 10 * i,
					       .dur_ns = 5,
					       .probe = of,
					       .nargs = 1,
					       .args = {1 + i}},
			      1);
	}
}

static void calls(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		call(c, 0, GS_OPERATOR, T0 + 10 * i, 5, 0);
}

/* Each takes another time each time it is called: all it keeps of durations is in use. */
static void calls_of_many_durations(struct crafted *c)
{
	uint32_t layer = rec_string_z(c->w, "torch");
	for (uint64_t i = 0; i < c->n; i++)
		call(c, 0, probe(c, layer, numbered(c, "aten::", i % (c->n / 9 + 1)), 0),
		     T0 + 10 * i, 1ULL << (i * 9 / c->n) * 4, 0);
}

static void calls_nested(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		call(c, 0, GS_OPERATOR, T0 + c->n - i, 2 * i + 1, 0);
}

static void calls_overlapping(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		call(c, 0, i % 2 ? GS_OPERATOR : GS_FRAME, T0 + i, c->n, 0);
}

static void calls_open(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		call(c, 0, GS_OPERATOR, T0 + i, c->n - i, CALL_OPEN);
}

static void calls_in_centuries(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		call(c, 0, GS_OPERATOR, i * (5 * CENTURY / c->n), CENTURY / 10, 0);
}

static void calls_of_no_time(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		call(c, 0, GS_OPERATOR, UINT64_MAX - c->n + i, 0, 0);
}

static void calls_of_all_time(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		call(c, 0, GS_OPERATOR, i, UINT64_MAX - c->n, 0);
}

static void calls_a_second_each(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		call(c, 0, GS_OPERATOR, T0 + 1000000000ULL * i, 5, 0);
}

static void calls_backward(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		call(c, 0, GS_OPERATOR, T0 + 1000000000ULL * (c->n - i), 5, 0);
}

static void calls_of_many_processes(struct crafted *c)
{
	for (uint32_t i = 0; i < c->n / 4; i++) {
		uint32_t on = thread(c, 1000 + i, 1000 + i);
		process(c, 1000 + i, T0);
		for (uint64_t k = 0; k < 2; k++)
			call(c, on, GS_OPERATOR, T0 + k * 10000000000ULL, 5, 0);
	}
}

/* ---- stacks and samples ---- */

static void one_chain(struct crafted *c)
{
	uint32_t of = frame(c, rec_string_z(c->w, "f"), FRAME_NATIVE), last = 0;
	for (uint64_t i = 0; i < c->n / 2; i++)
		last = stack(c, last, of);
	for (uint64_t i = 0; i < c->n / 2; i++)
		sample(c, T0 + 1000000 * i, last, 0);
}

/* A sample on each link: what is printed of each is as long as it is deep. */
static void chain_of_samples(struct crafted *c)
{
	uint32_t last = 0;
	for (uint64_t i = 0; i < c->n / 4; i++) {
		last = stack(c, last, frame(c, numbered(c, "f", i), FRAME_NATIVE));
		sample(c, T0 + 1000000 * i, last, 0);
	}
}

static void deep_stacks(struct crafted *c)
{
	uint32_t name = rec_string_z(c->w, "f"), last = 0;
	for (uint64_t i = 0; i < 1000 && i < c->n; i++)
		last = stack(c, last, frame(c, name, FRAME_PYTHON));
	for (uint64_t i = 0; i < c->n / 2; i++)
		sample(c, T0 + 1000000 * i, stack(c, last, (uint32_t)(i % 1000)), 0);
}

static void deep_stack_of_many_processes(struct crafted *c)
{
	uint32_t last = 0;
	for (uint64_t i = 0; i < 1000 && i < c->n; i++)
		last = stack(c, last, frame(c, numbered(c, "f", i), FRAME_NATIVE));
	for (uint32_t i = 0; i < c->n / 2; i++)
		sample(c, T0 + 1000000ULL * i, last, thread(c, 1000 + i, 1000 + i));
}

static void frames_of_long_text(struct crafted *c)
{
	uint32_t name = long_text(c, 'f'), last = 0;
	for (uint64_t i = 0; i < 500 && i < c->n; i++)
		last = stack(c, last, frame(c, name, FRAME_PYTHON));
	for (uint64_t i = 0; i < c->n / 2; i++)
		sample(c, T0 + 1000000 * i, last, 0);
}

static void frames(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n / 4; i++)
		sample(c, T0 + 1000000 * i,
		       stack(c, 0, frame(c, numbered(c, "f", i), FRAME_NATIVE)), 0);
}

static void operator_frames(struct crafted *c)
{
	char name[96];
	for (uint64_t i = 0; i < c->n / 4; i++) {
		snprintf(name, sizeof(name), "at::_ops::f%llu::call(at::Tensor)",
			 (unsigned long long)i);
		sample(c, T0 + 1000000 * i,
		       stack(c, 0, frame(c, rec_string_z(c->w, name), FRAME_NATIVE)), 0);
	}
}

static void waits(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		rec_put_sample(c->w, &(struct m_sample){.time_ns = T0 + 1000 * i,
							.weight_ns = CENTURY,
							.kind = SAMPLE_OFFCPU,
							.reason = (uint8_t)(i % WAIT_REASONS),
							.waker = numbered(c, "w", i % 10000)});
}

static void samples_in_centuries(struct crafted *c)
{
	uint32_t of = stack(c, 0, frame(c, c->comm, FRAME_NATIVE));
	for (uint64_t i = 0; i < c->n; i++)
		sample(c, i * (5 * CENTURY / c->n), of, 0);
}

/* ---- counters ---- */

static void counters(struct crafted *c)
{
	uint32_t metric = add_metric_of(c->w, "pid 100", "cpu_s");
	for (uint64_t i = 0; i < c->n; i++)
		rec_put_counter(c->w, &(struct m_counter){T0 + i * 1000000, metric, 1});
}

static void counters_of_many_names(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n / 2; i++)
		counter(c, T0 + i, numbered(c, "name", i), numbered(c, "gpu ", i));
}

static void counters_in_centuries(struct crafted *c)
{
	uint32_t metric = add_metric_of(c->w, "gpu 0", "sm_ratio");
	for (uint64_t i = 0; i < c->n; i++)
		rec_put_counter(c->w, &(struct m_counter){i * (5 * CENTURY / c->n), metric, 1});
}

/* ---- GPUs ---- */

static void spans(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++) {
		struct m_gpu_span s = span(i);
		s.name = c->comm;
		rec_put_gpu_span(c->w, &s);
	}
}

static void spans_of_many_names(struct crafted *c)
{
	char name[96];
	for (uint64_t i = 0; i < c->n / 2; i++) {
		struct m_gpu_span s = span(i);
		snprintf(name, sizeof(name), "_Z10kernel%04lluPfS_S_",
			 (unsigned long long)(i % 10000));
		s.name = rec_string_z(c->w, name);
		rec_put_gpu_span(c->w, &s);
	}
}

/* Each back reference doubles what the demangled name is. */
static void spans_of_names_that_grow(struct crafted *c)
{
	char name[1024];
	for (uint64_t i = 0; i < 2000 && i < c->n; i++) {
		struct m_gpu_span s = span(i);
		int at = snprintf(name, sizeof(name), "_Z1kI1a%dE", (int)i);
		for (int k = 0; k < 60; k++)
			at += snprintf(name + at, sizeof(name) - (size_t)at, "1pIS%c_S%c_E",
				       "0123456789ABCDEF"[k % 16], "0123456789ABCDEF"[k % 16]);
		s.name = rec_string_z(c->w, name);
		rec_put_gpu_span(c->w, &s);
	}
}

static void spans_of_many_streams(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++) {
		struct m_gpu_span s = span(i);
		s.stream = (uint32_t)i;
		rec_put_gpu_span(c->w, &s);
	}
}

static void spans_of_many_devices(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++) {
		struct m_gpu_span s = span(i);
		s.device = (int32_t)i;
		s.context = (uint32_t)i;
		rec_put_gpu_span(c->w, &s);
	}
}

static void spans_of_many_processes(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++) {
		struct m_gpu_span s = span(i);
		s.pid = (uint32_t)i;
		rec_put_gpu_span(c->w, &s);
	}
}

static void spans_at_once(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++) {
		struct m_gpu_span s = span(i);
		s.start_ns = T0 + i;
		s.end_ns = T0 + 2 * c->n;
		s.stream = (uint32_t)i % 1000;
		rec_put_gpu_span(c->w, &s);
	}
}

static void spans_in_centuries(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++) {
		struct m_gpu_span s = span(i);
		s.start_ns = i * (5 * CENTURY / c->n);
		s.end_ns = s.start_ns + 2 * CENTURY / c->n;
		rec_put_gpu_span(c->w, &s);
	}
}

static void spans_that_wait(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++) {
		struct m_gpu_span s = span(i);
		s.work = WORK_SYNC;
		s.copy_kind = SYNC_STREAM_EVENT;
		s.stream = (uint32_t)i % 50000;
		rec_put_gpu_span(c->w, &s);
	}
}

static void spans_of_one_graph(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++) {
		struct m_gpu_span s = span(i);
		s.correlation = 5;
		s.graph = 3;
		s.graph_node = i + 1;
		rec_put_gpu_span(c->w, &s);
	}
}

static void copies(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++) {
		struct m_gpu_span s = span(i);
		s.work = WORK_COPY;
		s.copy_kind = (uint8_t)(i % 256);
		s.bytes = i << 40;
		rec_put_gpu_span(c->w, &s);
	}
}

/* Pairs fit badly everywhere: aligning begins anew as often as it can. */
static void launches_that_fit_badly(struct crafted *c)
{
	uint64_t kernel[2] = {rec_string_z(c->w, "a"), rec_string_z(c->w, "b")};
	for (uint64_t i = 0; i < c->n / 2; i++) {
		struct m_gpu_span s = span(i);
		GPU_CALL(c->w, 0, GS_LAUNCH, T0 + 1000 * i, 10, kernel[i % 3 == 0], 1, 1, 7);
		s.name = (uint32_t)kernel[i % 7 == 0];
		s.start_ns += i % 5 ? 100 : 900000;
		s.end_ns = s.start_ns + 10;
		s.correlation = (uint32_t)(i % 11 ? i : i + 3);
		rec_put_gpu_span(c->w, &s);
	}
}

static void launches_of_known_calls(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n / 2; i++) {
		struct m_gpu_span s = span(i);
		GPU_CALL(c->w, 0, GS_LAUNCH, T0 + i, 2 * c->n, c->comm, 1, 1, 7);
		s.name = c->comm;
		s.called_ns = T0 + c->n;
		s.called_tid = PID;
		rec_put_gpu_span(c->w, &s);
	}
}

static void allocations(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		GPU_CALL(c->w, 0, GS_ALLOC, T0 + 100 * i, 10, (i + 1) << 21, 1 << 20);
}

/* Of each its own function: the sums of an account are by function. */
static void allocations_of_many_functions(struct crafted *c)
{
	uint32_t layer = rec_string_z(c->w, "cuda"), role = rec_string_z(c->w, "alloc");
	uint32_t names[2] = {rec_string_z(c->w, "pointer"), rec_string_z(c->w, "bytes")};
	for (uint64_t i = 0; i < c->n / 2; i++) {
		uint32_t of = rec_add_probe(
			c->w, &(struct m_probe){.layer = layer,
						.name = numbered(c, "cuAlloc", i),
						.role = role,
						.name_arg = -1,
						.nargs = 2,
						.arg_names = {names[0], names[1]},
						.arg_types = {ARG_TYPE_PTR, ARG_TYPE_BYTES}});
		rec_put_calls(c->w,
			      &(struct m_call){.start_ns = T0 + 100 * i,
					       .dur_ns = 10,
					       .probe = of,
					       .nargs = 2,
					       .args = {(i + 1) << 21, 1 << 20}},
			      1);
	}
}

/* Of each device its own account, and each is at its peak at another time. */
static void allocations_on_many_devices(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		GPU_CALL(c->w, 0, GS_CREATE, T0 + 100 * i, 10, i + 1,
			 random_next(&c->random) % (1 << 20), i);
}

/* Addresses whose hashes are alike: what hash_u64 is undone for i << 40. */
static uint64_t unhash(uint64_t x)
{
	x ^= x >> 33;
	x *= 0x9cb4b2f8129337dbULL;
	x ^= x >> 33;
	x *= 0x4f74430c22a54005ULL;
	x ^= x >> 33;
	return x;
}

static void allocations_that_collide(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		GPU_CALL(c->w, 0, GS_ALLOC, T0 + 100 * i, 10, unhash((i + 1) << 30), 1 << 20);
}

static void mappings(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n / 2; i++) {
		GPU_CALL(c->w, 0, GS_CREATE, T0 + 100 * i, 10, i + 1, 1 << 20, 0);
		GPU_CALL(c->w, 0, GS_MAP, T0 + 100 * i + 50, 10, (i + 1) << 20, 1 << 20, i + 1);
	}
	for (uint64_t i = 0; i < c->n / 100; i++)
		GPU_CALL(c->w, 0, GS_UNMAP, T0 + 100 * c->n + i, 10, 1 << 20, UINT64_MAX / 2);
}

/* Each copy asks whose memory an address is; all ranges overlap. */
static void copies_of_addresses(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n / 2; i++)
		GPU_CALL(c->w, 0, GS_ALLOC, T0 + 100 * i, 10, i + 1, UINT64_MAX / 2);
	for (uint64_t i = 0; i < c->n / 2; i++)
		GPU_CALL(c->w, 0, GS_COPY_ASYNC, T0 + 100 * c->n + i * 100, 10, c->n + i,
			 c->n + 2 * i, 4096, 7);
}

static void contexts(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		GPU_CALL(c->w, 0, i % 2 ? GS_PUSH_CONTEXT : GS_RETAIN, T0 + 100 * i, 10, i, 0);
}

static void captures(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n / 4; i++) {
		uint64_t at = T0 + 1000 * i;
		GPU_CALL(c->w, 0, GS_CAPTURE, at, 10, 7);
		GPU_CALL(c->w, 0, GS_RECORD, at + 100, 10, i, 7);
		GPU_CALL(c->w, 0, GS_WAIT, at + 200, 10, 7 + i, i);
		GPU_CALL(c->w, 0, GS_CAPTURE_END, at + 900, 10, 7, 0x9000 + i);
	}
}

/* Never ended: all that follows may belong to any of them. */
static void captures_without_end(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n / 2; i++)
		GPU_CALL(c->w, 0, GS_CAPTURE, T0 + 100 * i, 10, i);
	for (uint64_t i = 0; i < c->n / 2; i++)
		GPU_CALL(c->w, 0, GS_WAIT, T0 + 100 * (c->n + i), 10, i, i);
}

/* Each holds the one before twice: what is run in sum is 2^n. */
static void graphs_in_graphs(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n / 4; i++) {
		uint64_t at = T0 + 1000 * i;
		GPU_CALL(c->w, 0, GS_KERNEL_NODE, at, 10, i + 1);
		GPU_CALL(c->w, 0, GS_CHILD_NODE, at + 100, 10, i + 2, i + 1);
		GPU_CALL(c->w, 0, GS_CHILD_NODE, at + 200, 10, i + 2, i + 1);
	}
	GPU_CALL(c->w, 0, GS_INSTANTIATE, T0 + 1000 * c->n, 10, 5, c->n / 4 + 1);
	GPU_CALL(c->w, 0, GS_GRAPH_LAUNCH, T0 + 1000 * c->n + 100, 10, 5, 7);
}

static void graph_clones(struct crafted *c)
{
	for (uint64_t i = 0; i < c->n / 4; i++)
		GPU_CALL(c->w, 0, GS_KERNEL_NODE, T0 + 100 * i, 10, 1);
	for (uint64_t i = 0; i < c->n / 4; i++)
		GPU_CALL(c->w, 0, GS_CLONE, T0 + 100 * (c->n + i), 10, i + 2, i + 1);
	for (uint64_t i = 0; i < c->n / 4; i++)
		GPU_CALL(c->w, 0, GS_INSTANTIATE, T0 + 100 * (2 * c->n + i), 10, i, i + 1);
}

/* ---- collectives ---- */

static void collective(struct crafted *c, uint32_t on, uint64_t at_ns, uint64_t comm,
		       uint64_t sequence)
{
	GPU_CALL(c->w, on, GS_ALL_REDUCE, at_ns, 500, 1 << 20, 1 << 18, 7, 0, comm, 7, sequence);
}

static void collectives(struct crafted *c)
{
	comms_of(c, 1, 1);
	for (uint64_t i = 0; i < c->n; i++)
		collective(c, 0, T0 + 1000 * i, 0x5500, i);
}

static void collectives_of_many_comms(struct crafted *c)
{
	comms_of(c, c->n / 2, 1);
	for (uint64_t i = 0; i < c->n / 2; i++)
		collective(c, 0, T0 + 1000 * i, 0x5500 + i, i);
}

static void collectives_of_many_ranks(struct crafted *c)
{
	for (uint32_t i = 0; i < c->n / 4; i++) {
		rec_put_comm(c->w, &(struct m_comm){.pid = 1000 + i,
						    .rank = (int32_t)i,
						    .size = (int32_t)c->n,
						    .handle = 0x5500,
						    .hash = 77,
						    .start_ns = T0});
		process(c, 1000 + i, T0);
		collective(c, thread(c, 1000 + i, 1000 + i), T0 + 1000 + i, 0x5500, 0);
	}
}

/* Their making was not seen: which of them are one is told by the order of their calls alone. */
static void collectives_of_unknown_comms(struct crafted *c)
{
	for (uint32_t i = 0; i < c->n / 2; i++)
		GPU_CALL(c->w, thread(c, 1000 + i, 1000 + i), GS_ALL_REDUCE, T0 + 1000 * i, 500,
			 1 << 20, 1 << 18, 7, 0, 0x5500, 7, 0);
}

/* Likewise, and none is like another. */
static void collectives_of_comms_unlike(struct crafted *c)
{
	for (uint32_t i = 0; i < c->n / 2; i++)
		GPU_CALL(c->w, thread(c, 1000 + i, 1000 + i), GS_ALL_REDUCE, T0 + 1000 * i, 500, i,
			 1 << 18, 7, 0, 0x5500, 7, 0);
}

/* Each rank sends to the next. */
static void sends_of_many_ranks(struct crafted *c)
{
	for (uint32_t i = 0; i < c->n / 4; i++) {
		uint32_t on = thread(c, 1000 + i, 1000 + i);
		rec_put_comm(c->w, &(struct m_comm){.pid = 1000 + i,
						    .rank = (int32_t)i,
						    .size = (int32_t)c->n,
						    .handle = 0x5500,
						    .hash = 77,
						    .start_ns = T0});
		GPU_CALL(c->w, on, GS_SEND, T0 + 1000 * i, 500, 1 << 20, 1 << 18, 7, i + 1, 0x5500,
			 7, 0);
	}
}

static void collectives_with_kernels(struct crafted *c)
{
	uint32_t name = rec_string_z(c->w, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
	comms_of(c, 1, 1);
	for (uint64_t i = 0; i < c->n / 3; i++) {
		struct m_gpu_span s = span(i);
		GPU_CALL(c->w, 0, GS_LAUNCH, T0 + 1000 * i + 10, 10, name, 1, 1, 7);
		collective(c, 0, T0 + 1000 * i, 0x5500, i);
		s.name = name;
		s.end_ns = s.start_ns + CENTURY;
		rec_put_gpu_span(c->w, &s);
	}
}

static void collectives_in_groups(struct crafted *c)
{
	comms_of(c, 1, 1);
	for (uint64_t i = 0; i < c->n / 2; i++)
		GPU_CALL(c->w, 0, GS_GROUP_START, T0 + 10 * i, 5, 0);
	for (uint64_t i = 0; i < c->n / 2; i++)
		collective(c, 0, T0 + 10 * (c->n + i), 0x5500, i);
}

static void sends(struct crafted *c)
{
	comms_of(c, 2, 2);
	for (uint64_t i = 0; i < c->n; i++)
		GPU_CALL(c->w, 0, GS_SEND, T0 + 1000 * i, 500, 1 << 20, 1 << 18, 7, i % 100000,
			 0x5500 + i % 2, 7, i);
}

/* ---- steps and autograd ---- */

static void step_of(struct crafted *c, uint64_t at_ns, const uint32_t of[4])
{
	for (uint64_t k = 0; k < 4; k++)
		call(c, 0, of[k], at_ns + k * 200, 100, 0);
}

static void step_probes(struct crafted *c, uint32_t ret[4])
{
	static const char *const names[4] = {"aten::mm", "MmBackward0", "aten::addcdiv_",
					     "Optimizer.step"};
	for (int k = 0; k < 4; k++)
		ret[k] = probe(c, rec_string_z(c->w, "torch"), rec_string_z(c->w, names[k]), 0);
}

static void steps(struct crafted *c)
{
	uint32_t of[4];
	step_probes(c, of);
	for (uint64_t i = 0; i < c->n / 4; i++)
		step_of(c, T0 + 1000 * i, of);
}

/* Of 50 steps the last ten take twice as long, which was told. Calls differ by a little, or the
 * file would be too small for them. */
static void steps_with_incidents(struct crafted *c)
{
	uint32_t of[4];
	struct m_anomaly slow = {.layer = rec_string_z(c->w, "torch"),
				 .name = rec_string_z(c->w, "aten::mm"),
				 .why = rec_string_z(c->w, "aten::mm took longer"),
				 .pid = PID,
				 .gpu = -1,
				 .windows = 1,
				 .ended = 1,
				 .p_value = 1e-6,
				 .score = 6,
				 .lost_ns = 1e9};
	step_probes(c, of);
	for (uint64_t i = 0, at = T0; i < c->n / 4; i++) {
		uint64_t op_ns = i % 50 < 40 ? 25000000 : 50000000;
		if (i % 50 == 40)
			slow.start_ns = at;
		for (uint64_t k = 0; k < 4; k++, at += op_ns)
			call(c, 0, of[k], at, op_ns - random_next(&c->random) % 1000, 0);
		if (i % 50 < 49)
			continue;
		slow.id++;
		slow.end_ns = slow.told_ns = at;
		rec_put_anomaly(c->w, &slow);
	}
}

static void steps_of_centuries(struct crafted *c)
{
	uint32_t of[4];
	step_probes(c, of);
	for (uint64_t i = 0; i < c->n / 4; i++)
		step_of(c, i * (5 * CENTURY / c->n), of);
}

/* Operations in an order that hardly repeats: every period is tried. */
static void steps_that_do_not_repeat(struct crafted *c)
{
	uint32_t of[64], layer = rec_string_z(c->w, "torch");
	for (uint64_t k = 0; k < 64; k++)
		of[k] = probe(c, layer, numbered(c, "aten::op", k), 0);
	for (uint64_t i = 0, at = 0; i < c->n; i++) {
		at = (at * 5 + 1 + i / 4096) % 64;
		call(c, 0, of[at], T0 + 1000 * i, 500, 0);
	}
}

static void autograd(struct crafted *c)
{
	uint32_t layer = rec_string_z(c->w, "torch"), sequence = rec_string_z(c->w, "sequence");
	struct m_probe forward = {.layer = layer,
				  .name = rec_string_z(c->w, "aten::mm"),
				  .name_arg = -1,
				  .nargs = 1,
				  .arg_names = {sequence},
				  .arg_types = {ARG_TYPE_U64}};
	struct m_probe node = {.layer = layer,
			       .name = rec_string_z(c->w, "autograd"),
			       .role = rec_string_z(c->w, "autograd_node"),
			       .name_arg = 0,
			       .nargs = 2,
			       .arg_names = {rec_string_z(c->w, "node"), sequence},
			       .arg_types = {ARG_TYPE_STRING, ARG_TYPE_U64}};
	uint32_t of[2] = {rec_add_probe(c->w, &forward), rec_add_probe(c->w, &node)};
	uint64_t name = rec_string_z(c->w, "MmBackward0");
	for (uint64_t i = 0; i < c->n; i++)
		rec_put_calls(c->w,
			      &(struct m_call){.start_ns = T0 + 1000 * i,
					       .dur_ns = 500,
					       .probe = of[i % 2],
					       .nargs = i % 2 ? 2 : 1,
					       .args = {i % 2 ? name : 7, 7}},
			      1);
}

/* ---- all of them ---- */

static const struct {
	const char *name;
	void (*make)(struct crafted *c);
} cases[] = {
#define CASE(name)                                                                                 \
	{                                                                                          \
#name, name                                                                        \
	}
	CASE(notes),
	CASE(notes_of_long_text),
	CASE(processes),
	CASE(processes_of_one_pid),
	CASE(processes_of_long_text),
	CASE(threads),
	CASE(threads_with_a_call),
	CASE(maps),
	CASE(metas),
	CASE(windows),
	CASE(losses_by_cpu),
	CASE(losses_by_cause),
	CASE(histograms),
	CASE(enums),
	CASE(enums_and_errors),
	CASE(gpus),
	CASE(gpus_with_counters),
	CASE(gpu_processes),
	CASE(events),
	CASE(comms),
	CASE(comms_of_one_hash),
	CASE(connections),
	CASE(connections_of_one_name),
	CASE(sources),
	CASE(strings),
	CASE(strings_of_long_text),
	CASE(probes),
	CASE(probes_called),
	CASE(layers_called),
	CASE(probes_of_long_text),
	CASE(overloads),
	CASE(waits_of_many_probes),
	CASE(codes),
	CASE(layers_of_named_calls),
	CASE(calls),
	CASE(calls_of_many_durations),
	CASE(calls_nested),
	CASE(calls_overlapping),
	CASE(calls_open),
	CASE(calls_in_centuries),
	CASE(calls_of_no_time),
	CASE(calls_of_all_time),
	CASE(calls_a_second_each),
	CASE(calls_backward),
	CASE(calls_of_many_processes),
	CASE(one_chain),
	CASE(chain_of_samples),
	CASE(deep_stacks),
	CASE(deep_stack_of_many_processes),
	CASE(frames_of_long_text),
	CASE(frames),
	CASE(operator_frames),
	CASE(waits),
	CASE(samples_in_centuries),
	CASE(counters),
	CASE(counters_of_many_names),
	CASE(counters_in_centuries),
	CASE(spans),
	CASE(spans_of_many_names),
	CASE(spans_of_names_that_grow),
	CASE(spans_of_many_streams),
	CASE(spans_of_many_devices),
	CASE(spans_of_many_processes),
	CASE(spans_at_once),
	CASE(spans_in_centuries),
	CASE(spans_that_wait),
	CASE(spans_of_one_graph),
	CASE(copies),
	CASE(launches_that_fit_badly),
	CASE(launches_of_known_calls),
	CASE(allocations),
	CASE(allocations_of_many_functions),
	CASE(allocations_on_many_devices),
	CASE(allocations_that_collide),
	CASE(mappings),
	CASE(copies_of_addresses),
	CASE(contexts),
	CASE(captures),
	CASE(captures_without_end),
	CASE(graphs_in_graphs),
	CASE(graph_clones),
	CASE(collectives),
	CASE(collectives_of_many_comms),
	CASE(collectives_of_many_ranks),
	CASE(collectives_of_unknown_comms),
	CASE(collectives_of_comms_unlike),
	CASE(sends_of_many_ranks),
	CASE(collectives_with_kernels),
	CASE(collectives_in_groups),
	CASE(sends),
	CASE(steps),
	CASE(steps_with_incidents),
	CASE(steps_of_centuries),
	CASE(steps_that_do_not_repeat),
	CASE(autograd),
#undef CASE
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static int make(void (*of)(struct crafted *), uint64_t n, const char *path, struct err *e)
{
	struct crafted c = {.n = n, .random = 1};
	int rc = rec_writer_open(&c.w, path, &(struct rec_writer_options){.zstd_level = 19}, e);
	if (rc)
		return rc;
	c.comm = rec_string_z(c.w, "python3");
	rec_put_meta(c.w, "start_monotonic_ns", "1000000000000");
	rec_put_meta(c.w, "host", "crafted");
	gpu_sample_probes(c.w);
	process(&c, PID, T0);
	thread(&c, PID, PID);
	of(&c);
	return rec_writer_close(c.w, false, e);
}

int main(int argc, char **argv)
{
	struct err e = {0};
	if (argc == 2 && !strcmp(argv[1], "--list")) {
		for (size_t i = 0; i < CASES; i++)
			puts(cases[i].name);
		return 0;
	}
	for (size_t i = 0; argc == 4 && i < CASES; i++) {
		if (strcmp(argv[1], cases[i].name) != 0)
			continue;
		if (!make(cases[i].make, strtoull(argv[2], NULL, 10), argv[3], &e))
			return 0;
		fprintf(stderr, "make_crafted: %s\n", e.msg);
		return 1;
	}
	fprintf(stderr, "usage: make_crafted NAME ROWS FILE | make_crafted --list\n");
	return 2;
}
