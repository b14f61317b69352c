/* make_job.c - writes the recording of a simulated training job, with or without a slow operator.
 *
 * usage: make_job FILE SEED SECONDS [loads | FROM_S TO_S FACTOR [told | FROM_S TO_S]]
 *
 * Steps of about 60 ms: forward, backward, optimizer, each operator with a launch in it, on one
 * thread; the CPU clock's samples with the line of Python; CPU time as a counter. From FROM_S to
 * TO_S aten::mm takes FACTOR times as long, from the second FROM_S to TO_S each step collects
 * garbage as well. loads: another process loads for it, which calls nothing, and both have their
 * CPUs counted. The same events for the same arguments. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "base/random.h"
#include "recording/recording.h"
#include "wire/event.h"

#define START_NS 1000000000000ULL
#define PID	 4242
#define LOADER	 4243
#define TICK_NS	 10000000ULL

enum function { MM, GELU, LAYER_NORM, BACKWARD, OPTIMIZER, LAUNCH, COLLECT, FUNCTIONS };
static const struct {
	const char *layer, *name;
	double median_ns;
	double sigma; /* of the logarithm */
	uint32_t line;
} functions[FUNCTIONS] = {
	{"torch", "aten::mm", 3e6, 0.08, 44},
	{"torch", "aten::gelu", 1e6, 0.1, 45},
	{"torch", "aten::layer_norm", 4e5, 0.12, 46},
	{"torch", "MmBackward0", 6e6, 0.08, 60},
	{"torch", "Optimizer.step", 2e6, 0.07, 61},
	{"cuda", "cudaLaunchKernel", 6e3, 0.2, 0},
	{"python", "gc", 15e6, 0.1, 62},
};

struct job {
	struct rec_writer *w;
	uint64_t random, now_ns, tick_ns;
	uint32_t stacks[FUNCTIONS];
	uint64_t from_ns, to_ns;
	double factor;
	uint64_t collects_from_ns, collects_to_ns;
	bool loads;
};

static uint64_t lasting(struct job *j, enum function f)
{
	bool slow = f == MM && j->now_ns >= j->from_ns && j->now_ns < j->to_ns;
	return (uint64_t)(functions[f].median_ns *
			  exp(functions[f].sigma * random_normal(&j->random)) *
			  (slow ? j->factor : 1));
}

static void put_call(struct job *j, enum function f, uint64_t start_ns, uint64_t dur_ns,
		     uint8_t depth)
{
	rec_put_calls(j->w,
		      &(struct m_call){
			      .start_ns = start_ns, .dur_ns = dur_ns, .probe = f, .depth = depth},
		      1);
}

/* The clock ticks in it. */
static void pass(struct job *j, enum function f, uint64_t dur_ns)
{
	j->now_ns += dur_ns + 20000 + (uint64_t)(10000 * random_uniform(&j->random));
	for (; j->tick_ns < j->now_ns; j->tick_ns += TICK_NS)
		rec_put_sample(j->w, &(struct m_sample){.time_ns = j->tick_ns,
							.weight_ns = TICK_NS,
							.stack = j->stacks[f],
							.kind = SAMPLE_CPU});
}

/* An operator with its launch. */
static void operator(struct job *j, enum function f)
{
	uint64_t dur_ns = lasting(j, f), start_ns = j->now_ns;
	uint64_t launch_ns = start_ns + dur_ns / 10;
	put_call(j, LAUNCH, launch_ns, lasting(j, LAUNCH), 1);
	put_call(j, f, start_ns, dur_ns, 0);
	pass(j, f, dur_ns);
}

static void step(struct job *j)
{
	for (int layer = 0; layer < 4; layer++) {
		operator(j, LAYER_NORM);
		operator(j, MM);
		operator(j, GELU);
		operator(j, MM);
	}
	for (int layer = 0; layer < 4; layer++)
		operator(j, BACKWARD);
	operator(j, OPTIMIZER);
	if (j->now_ns >= j->collects_from_ns && j->now_ns < j->collects_to_ns) {
		uint64_t dur_ns = lasting(j, COLLECT);
		put_call(j, COLLECT, j->now_ns, dur_ns, 0);
		pass(j, COLLECT, dur_ns);
	}
}

static void make_tables(struct job *j)
{
	char start[32];
	struct rec_writer *w = j->w;
	uint32_t python = rec_string_z(w, "python3"), file = rec_string_z(w, "/job/train.py");
	snprintf(start, sizeof(start), "%llu", START_NS);
	rec_put_meta(w, "start_monotonic_ns", start);
	rec_put_meta(w, "host", "simulated");
	static const char *const costs[][2] = {
		/* (0.5 + 0.5 + 0.2) / (11 - 0.5 - 0.5) = 0.12 */
		{"job_cpu_ns", "11000000000"},	    {"probe_hits", "1000000"},
		{"probe_ns_each", "500"},	    {"held_ns", "2000000000"},
		{"held_cpu_ns", "500000000"},	    {"collector_cpu_ns", "1500000000"},
		{"displacing_cpu_ns", "200000000"}, {"start_cpu_ns", "500000000"},
	};
	for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++)
		rec_put_meta(w, costs[i][0], costs[i][1]);
	rec_put_process(w, &(struct m_process){.pid = PID,
					       .comm = python,
					       .command = python,
					       .start_ns = START_NS,
					       .rank = -1});
	rec_add_thread(w, &(struct m_thread){PID, PID, python});
	for (int f = 0; f < (j->collects_to_ns ? FUNCTIONS : COLLECT); f++) {
		rec_add_probe(w, &(struct m_probe){.layer = rec_string_z(w, functions[f].layer),
						   .name = rec_string_z(w, functions[f].name),
						   .kind = SITE_SPAN,
						   .name_arg = -1});
		uint32_t frame =
			rec_add_frame(w, &(struct m_frame){.kind = FRAME_PYTHON,
							   .name = rec_string_z(w, "train"),
							   .file = file,
							   .line = functions[f].line});
		j->stacks[f] = rec_add_stack(w, &(struct m_stack){.parent = 0, .frame = frame});
	}
}

/* Of both in a window. The loader waits most of the time. */
static void count_cpus(struct job *j, uint64_t time_ns, const uint32_t metrics[2])
{
	static const double cpus[2] = {1, 0.2};
	for (int i = 0; i < 2 && j->loads; i++) {
		double value = cpus[i] * (1 + 0.05 * random_normal(&j->random));
		rec_put_counter(j->w, &(struct m_counter){time_ns, metrics[i], value});
	}
}

static void run(struct job *j, double seconds)
{
	uint64_t second = START_NS, end_ns = START_NS + (uint64_t)(seconds * 1e9);
	uint32_t metric = add_metric_of(j->w, "pid 4242", "cpu_s"), cpus[2] = {0};
	make_tables(j);
	if (j->loads) {
		rec_put_process(j->w, &(struct m_process){.pid = LOADER,
							  .parent_pid = PID,
							  .start_ns = START_NS,
							  .rank = -1});
		cpus[0] = add_metric_of(j->w, "pid 4242", "cpu_ratio");
		cpus[1] = add_metric_of(j->w, "pid 4243", "cpu_ratio");
	}
	j->now_ns = j->tick_ns = START_NS;
	while (j->now_ns < end_ns) {
		step(j);
		for (; second < j->now_ns; second += 1000000000ULL) {
			rec_put_counter(j->w,
					&(struct m_counter){second, metric,
							    (double)(second - START_NS) / 1e9});
			count_cpus(j, second, cpus);
		}
	}
}

/* When it was found, and when it had ended. */
static void tell(struct job *j)
{
	struct m_anomaly row = {.id = 1,
				.start_ns = j->from_ns,
				.end_ns = j->from_ns + 1000000000ULL,
				.told_ns = j->from_ns + 1000000000ULL,
				.layer = rec_string_z(j->w, "torch"),
				.name = rec_string_z(j->w, "aten::mm"),
				.why = rec_string_z(j->w, "aten::mm took longer"),
				.pid = PID,
				.gpu = -1,
				.windows = 1,
				.p_value = 1e-6,
				.score = 6,
				.lost_ns = NAN,
				.feature_names = {rec_string_z(j->w, "slowdown")},
				.feature_units = {rec_string_z(j->w, "ln ratio")},
				.feature_values = {log(j->factor)},
				.feature_shares = {0.9},
				.call_keys = {rec_string_z(j->w, "aten::mm")},
				.call_counts = {100}};
	rec_put_anomaly(j->w, &row);
	rec_flush(j->w, NULL);
	row.end_ns = j->to_ns;
	row.ended = 1;
	rec_put_anomaly(j->w, &row);
}

int main(int argc, char **argv)
{
	struct err e = {0};
	bool loads = argc == 5 && !strcmp(argv[4], "loads");
	if (argc != 4 && !loads && (argc < 7 || argc > 9)) {
		fprintf(stderr, "usage: make_job FILE SEED SECONDS [loads | FROM_S TO_S FACTOR "
				"[told | FROM_S TO_S]]\n");
		return 2;
	}
	struct job j = {.random = strtoull(argv[2], NULL, 10), .factor = 1, .loads = loads};
	if (argc >= 7) {
		j.from_ns = START_NS + (uint64_t)(strtod(argv[4], NULL) * 1e9);
		j.to_ns = START_NS + (uint64_t)(strtod(argv[5], NULL) * 1e9);
		j.factor = strtod(argv[6], NULL);
	}
	if (argc == 9) {
		j.collects_from_ns = START_NS + (uint64_t)(strtod(argv[7], NULL) * 1e9);
		j.collects_to_ns = START_NS + (uint64_t)(strtod(argv[8], NULL) * 1e9);
	}
	if (!rec_writer_open(&j.w, argv[1], NULL, &e)) {
		run(&j, strtod(argv[3], NULL));
		if (argc == 8)
			tell(&j);
		if (!rec_writer_close(j.w, false, &e))
			return 0;
	}
	fprintf(stderr, "make_job: %s\n", e.msg);
	return 1;
}
