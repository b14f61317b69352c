/* spans_recording.c - makes a large recording of one GPU, for report_cost.py and others to read.
 *
 * A loop on one thread launches a kernel, a graph of some, and a copy, and waits when the device is
 * far behind. Spans tell the driver's call that started them, as CUDA 12.8 and later do; with
 * --uncalled they do not. Measures nothing.
 *
 *   usage: spans_recording RECORDING SPANS [--uncalled] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "golden/gpu_sample.h"

enum { KERNELS = 40, NODES = 30, PID = 1000, STREAM = 7, BEHIND_NS = 2000000 };

struct loop {
	struct rec_writer *w;
	uint64_t random;
	uint64_t host_ns, device_ns;
	uint32_t names[KERNELS];
	uint32_t correlation;
	bool uncalled;
};

static uint64_t lognormal(struct loop *l, double median, double sigma)
{
	return (uint64_t)(median * exp(sigma * random_normal(&l->random)));
}

static void put_call(struct loop *l, enum gpu_sample_probe probe, const uint64_t args[8])
{
	l->host_ns += lognormal(l, 4000, 0.4);
	gpu_sample_call(l->w, 0, probe, l->host_ns, 3000, args);
	l->host_ns += 3000;
	l->correlation++;
}

/* What the last call started; it begins when what was before it has ended. */
static void put_span(struct loop *l, struct m_gpu_span s)
{
	if (l->device_ns < l->host_ns + 2000)
		l->device_ns = l->host_ns + 2000;
	s.start_ns = l->device_ns += 500;
	s.end_ns = l->device_ns += lognormal(l, 6000, 0.7);
	s.pid = PID;
	s.context = 1;
	s.stream = STREAM;
	s.correlation = l->correlation;
	if (!l->uncalled) {
		s.called_ns = l->host_ns - 2000;
		s.called_dur_ns = 1500;
		s.called_tid = PID;
	}
	rec_put_gpu_span(l->w, &s);
}

static size_t put_turn(struct loop *l)
{
	uint32_t of = (uint32_t)(random_next(&l->random) % KERNELS);
	uint64_t bytes = 4096 * (1 + random_next(&l->random) % 8);
	put_call(l, GS_LAUNCH, (const uint64_t[8]){l->names[of], of + 1, 256, STREAM});
	put_span(l, (struct m_gpu_span){.name = l->names[of], .grid = of + 1, .block = 256});
	put_call(l, GS_GRAPH_LAUNCH, (const uint64_t[8]){0x9000, STREAM});
	for (uint32_t i = 0; i < NODES; i++)
		put_span(l, (struct m_gpu_span){.name = l->names[i],
						.grid = 64,
						.block = 128,
						.graph = 5,
						.graph_node = i + 1});
	put_call(l, GS_HTOD_ASYNC, (const uint64_t[8]){bytes, STREAM});
	put_span(l, (struct m_gpu_span){
			    .work = WORK_COPY, .copy_kind = 1, .bytes = bytes, .async = 1});
	if (l->host_ns + BEHIND_NS < l->device_ns)
		l->host_ns = l->device_ns;
	return NODES + 2;
}

static void put_tables(struct loop *l)
{
	char name[32];
	gpu_sample_probes(l->w);
	rec_add_thread(l->w, &(struct m_thread){PID, PID, rec_string_z(l->w, "python3")});
	for (int i = 0; i < KERNELS; i++) {
		snprintf(name, sizeof(name), "kernel_%d", i);
		l->names[i] = rec_string_z(l->w, name);
	}
}

int main(int argc, char **argv)
{
	struct err e = {0};
	struct loop l = {.random = 12345, .host_ns = 1000000000000ULL, .correlation = 100};
	l.uncalled = argc == 4 && !strcmp(argv[3], "--uncalled");
	if (argc != 3 && !l.uncalled) {
		fprintf(stderr, "usage: spans_recording RECORDING SPANS [--uncalled]\n");
		return 2;
	}
	int rc = rec_writer_open(&l.w, argv[1], NULL, &e);
	if (!rc) {
		size_t spans = strtoul(argv[2], NULL, 10);
		put_tables(&l);
		for (size_t put = 0; put < spans;)
			put += put_turn(&l);
		rc = rec_writer_close(l.w, false, &e);
	}
	if (rc)
		fprintf(stderr, "spans_recording: %s\n", e.msg);
	return rc ? 1 : 0;
}
