/* job_recording.c - makes the recording of a large training on one GPU, in which every analysis of
 * a report finds something: operators in each other with shapes, nodes of backward passes, launches
 * with what the device did of them, collectives, copies, waits, Python functions, samples on and
 * off the CPU, counters. For report_cost.py and others to read. Measures nothing.
 *
 *   usage: job_recording RECORDING CALLS */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "golden/counters.h"
#include "golden/gpu_sample.h"
#include "wire/event.h"
#include "wire/shape.h"

enum { PID = 1000, BACKWARD_TID = 1001, STREAM = 7, COMM = 0x77, LAYERS = 24, KERNELS = 60 };
enum { MAIN, ENGINE }; /* threads */
enum {
	LINEAR = GS_PROBES,
	MM,
	GELU,
	LAYER_NORM,
	ADD_,
	NODE,
	BACKWARD,
	PYTHON,
	PROBES,
};

static const struct {
	const char *layer, *name, *role;
} functions[PROBES - GS_PROBES] = {
	{"torch", "aten::linear", ""},	   {"torch", "aten::mm", "matmul"},
	{"torch", "aten::gelu", ""},	   {"torch", "aten::layer_norm", ""},
	{"torch", "aten::add_", ""},	   {"torch", "torch.autograd_node", "autograd_node"},
	{"torch", "backward", "backward"}, {"python", "python call", ""},
};

struct job {
	struct rec_writer *w;
	uint64_t random, calls;
	uint64_t host_ns, device_ns, tick_ns;
	uint64_t sequence, collectives;
	uint32_t kernels[KERNELS], nodes[4], code[8], stacks[8];
	uint32_t correlation, thread;
	uint32_t cpu, load; /* metrics */
	uint64_t shape;
};

static uint64_t lognormal(struct job *j, double median)
{
	return (uint64_t)(median * exp(0.4 * random_normal(&j->random)));
}

static void put_call(struct job *j, uint32_t probe, uint64_t start_ns, const uint64_t *args,
		     uint8_t nargs, uint8_t depth)
{
	struct m_call c = {.start_ns = start_ns,
			   .dur_ns = j->host_ns - start_ns,
			   .thread = j->thread,
			   .probe = probe,
			   .depth = depth,
			   .nargs = nargs};
	memcpy(c.args, args, nargs * sizeof(*args));
	rec_put_calls(j->w, &c, 1);
	j->calls++;
}

/* A launch, and the kernel, which begins when what was before it has ended. */
static void launch(struct job *j, double device_ns, uint8_t depth)
{
	uint32_t of = (uint32_t)(random_next(&j->random) % KERNELS);
	uint64_t start_ns = j->host_ns += 800;
	j->host_ns += lognormal(j, 3000);
	put_call(j, GS_LAUNCH, start_ns, (const uint64_t[]){j->kernels[of], of + 1, 256, STREAM, 0},
		 5, depth);
	if (j->device_ns < j->host_ns + 2000)
		j->device_ns = j->host_ns + 2000;
	uint64_t from_ns = j->device_ns += 500;
	j->device_ns += lognormal(j, device_ns);
	rec_put_gpu_span(
		j->w, &(struct m_gpu_span){.start_ns = from_ns,
					   .end_ns = j->device_ns,
					   .pid = PID,
					   .context = 1,
					   .stream = STREAM,
					   .correlation = ++j->correlation,
					   .name = j->kernels[of],
					   .grid = of + 1,
					   .block = 256,
					   .called_ns = start_ns + 300,
					   .called_dur_ns = 1500,
					   .called_tid = j->thread == MAIN ? PID : BACKWARD_TID});
}

static void operator(struct job *j, uint32_t probe, double device_ns, uint8_t depth)
{
	uint64_t start_ns = j->host_ns += 1500;
	launch(j, device_ns, depth + 1);
	j->host_ns += lognormal(j, 2500);
	put_call(j, probe, start_ns, (const uint64_t[]){j->shape, j->shape}, probe == MM ? 2 : 0,
		 depth);
}

static void linear(struct job *j, uint8_t depth)
{
	uint64_t start_ns = j->host_ns += 1500;
	operator(j, MM, 30000, depth + 1);
	operator(j, ADD_, 4000, depth + 1);
	j->host_ns += 700;
	put_call(j, LINEAR, start_ns, &j->shape, 0, depth);
}

static void node(struct job *j, uint32_t kind, uint32_t operators)
{
	uint64_t start_ns = j->host_ns += 2000;
	for (uint32_t i = 0; i < operators; i++)
		operator(j, kind ? GELU : MM, kind ? 5000 : 30000, 1);
	put_call(j, NODE, start_ns, (const uint64_t[]){j->nodes[kind], j->sequence--}, 2, 0);
}

static void tick(struct job *j)
{
	for (; j->tick_ns < j->host_ns; j->tick_ns += 10000000) {
		uint32_t at = (uint32_t)(random_next(&j->random) % 8);
		rec_put_sample(j->w, &(struct m_sample){.time_ns = j->tick_ns,
							.weight_ns = 10000000,
							.thread = j->thread,
							.stack = j->stacks[at]});
		rec_put_sample(j->w, &(struct m_sample){.time_ns = j->tick_ns + 5000,
							.weight_ns = 4000,
							.thread = ENGINE - j->thread,
							.stack = j->stacks[at],
							.kind = SAMPLE_OFFCPU,
							.reason = WAIT_FUTEX});
		rec_put_counter(j->w, &(struct m_counter){j->tick_ns, j->cpu, 1});
		rec_put_counter(j->w, &(struct m_counter){j->tick_ns, j->load, 90});
	}
}

static void step(struct job *j)
{
	uint64_t backward_ns;
	j->thread = MAIN;
	put_call(j, PYTHON, j->host_ns - 100, (const uint64_t[]){j->code[0]}, 1, 0);
	for (int layer = 0; layer < LAYERS; layer++) {
		uint64_t layer_ns = j->host_ns += 500;
		operator(j, LAYER_NORM, 6000, 1);
		linear(j, 1);
		operator(j, GELU, 5000, 1);
		linear(j, 1);
		j->sequence += 4;
		put_call(j, PYTHON, layer_ns, (const uint64_t[]){j->code[1 + layer % 7]}, 1, 0);
	}
	backward_ns = j->host_ns += 1000;
	j->thread = ENGINE;
	for (int layer = 0; layer < LAYERS; layer++) {
		node(j, 0, 2);
		node(j, 1, 1);
		node(j, 0, 2);
		node(j, 2, 1);
	}
	j->sequence += 4 * LAYERS;
	j->thread = MAIN;
	put_call(j, BACKWARD, backward_ns, (const uint64_t[]){0, 0}, 2, 0);
	uint64_t reduce_ns = j->host_ns += 500;
	launch(j, 100000, 1);
	put_call(j, GS_ALL_REDUCE, reduce_ns,
		 (const uint64_t[]){1 << 24, 1 << 22, 7, 0, COMM, STREAM, j->collectives++, 0}, 8,
		 0);
	for (int i = 0; i < 4; i++)
		operator(j, ADD_, 9000, 0);
	uint64_t sync_ns = j->host_ns += 500;
	if (j->host_ns < j->device_ns)
		j->host_ns = j->device_ns;
	put_call(j, GS_SYNC, sync_ns, (const uint64_t[]){STREAM, 0}, 2, 0);
	tick(j);
}

static void put_probes(struct job *j)
{
	struct rec_writer *w = j->w;
	gpu_sample_probes(w);
	for (int i = 0; i < PROBES - GS_PROBES; i++) {
		struct m_probe p = {.kind = SITE_SPAN, .name_arg = -1};
		p.layer = rec_string_z(w, functions[i].layer);
		p.name = p.symbol = rec_string_z(w, functions[i].name);
		p.role = rec_string_z(w, functions[i].role);
		if (i + GS_PROBES == MM)
			p = (struct m_probe){
				.layer = p.layer,
				.name = p.name,
				.symbol = p.symbol,
				.role = p.role,
				.name_arg = -1,
				.nargs = 2,
				.arg_names = {rec_string_z(w, "a"), rec_string_z(w, "b")},
				.arg_types = {ARG_TYPE_SHAPE, ARG_TYPE_SHAPE}};
		if (i + GS_PROBES == NODE) {
			p.nargs = 2;
			p.name_arg = 0;
			p.arg_names[0] = rec_string_z(w, "node");
			p.arg_names[1] = rec_string_z(w, "sequence");
			p.arg_types[0] = ARG_TYPE_STRING;
		}
		if (i + GS_PROBES == BACKWARD) {
			p.nargs = 2;
			p.arg_names[0] = rec_string_z(w, "keep_graph");
			p.arg_names[1] = rec_string_z(w, "create_graph");
		}
		if (i + GS_PROBES == PYTHON) {
			p.nargs = 1;
			p.name_arg = 0;
			p.arg_names[0] = rec_string_z(w, "code");
			p.arg_types[0] = ARG_TYPE_CODE;
		}
		rec_add_probe(w, &p);
	}
}

static void put_names(struct job *j)
{
	static const char *const nodes[] = {"MmBackward0", "GeluBackward0", "LayerNormBackward0"};
	char name[48];
	struct rec_writer *w = j->w;
	for (int i = 0; i < KERNELS; i++) {
		snprintf(name, sizeof(name), "kernel_%d", i);
		j->kernels[i] = rec_string_z(w, name);
	}
	for (int i = 0; i < 3; i++)
		j->nodes[i] = rec_string_z(w, nodes[i]);
	for (uint32_t i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "forward_%u", i);
		uint32_t text = rec_string_z(w, name), file = rec_string_z(w, "/job/model.py");
		j->code[i] = rec_add_code(w, &(struct m_code){text, file, 10 * i});
		uint32_t frame = rec_add_frame(
			w, &(struct m_frame){
				   .kind = FRAME_PYTHON, .name = text, .file = file, .line = i});
		j->stacks[i] = rec_add_stack(
			w, &(struct m_stack){.parent = i ? j->stacks[i - 1] : 0, .frame = frame});
	}
}

static void put_tables(struct job *j)
{
	struct rec_writer *w = j->w;
	uint32_t python = rec_string_z(w, "python3");
	put_probes(j);
	put_names(j);
	rec_put_process(w, &(struct m_process){.pid = PID,
					       .comm = python,
					       .command = python,
					       .start_ns = j->host_ns,
					       .rank = 0});
	rec_add_thread(w, &(struct m_thread){PID, PID, python});
	rec_add_thread(w, &(struct m_thread){PID, BACKWARD_TID, rec_string_z(w, "pt_autograd_0")});
	rec_put_comm(
		w,
		&(struct m_comm){
			.pid = PID, .size = 1, .handle = COMM, .hash = 5, .start_ns = j->host_ns});
	rec_put_gpu(w, &(struct m_gpu){.parent = -1,
				       .uuid = rec_string_z(w, "GPU-0"),
				       .name = rec_string_z(w, "NVIDIA H200"),
				       .bus_id = rec_string_z(w, "00000000:00:06.0")});
	j->cpu = add_metric_of(w, "pid 1000", "cpu_ratio");
	j->load = add_metric_of(w, "gpu 0", "utilization_ratio");
	j->shape = shape_pack((const __u64[SHAPE_DIMS]){1024, 1024}, 2);
}

int main(int argc, char **argv)
{
	struct err e = {0};
	struct job j = {.random = 12345, .host_ns = 1000000000000ULL, .tick_ns = 1000000000000ULL};
	if (argc != 3) {
		fprintf(stderr, "usage: job_recording RECORDING CALLS\n");
		return 2;
	}
	int rc = rec_writer_open(&j.w, argv[1], NULL, &e);
	if (!rc) {
		uint64_t calls = strtoull(argv[2], NULL, 10);
		put_tables(&j);
		while (j.calls < calls)
			step(&j);
		rc = rec_writer_close(j.w, false, &e);
	}
	if (rc)
		fprintf(stderr, "job_recording: %s\n", e.msg);
	return rc ? 1 : 0;
}
