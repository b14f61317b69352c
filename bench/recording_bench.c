/* recording_bench.c - how fast recordings are written and read, and bytes per event.
 *
 * Makes streams of calls that look like a training job: steps of one fixed sequence of
 * nested operators per thread, 300 distinct probes, log-normal durations and gaps, with
 * arguments of the usual kinds. Prints a table; with a path as argument also writes JSON
 * there. Measures the format alone, no tracing. Times are CPU-bound: the file is written to
 * TMPDIR (or /tmp) and read from the page cache.
 *
 * With --write it makes one recording (operators and Python frames) instead, and keeps it:
 * something large and realistic for others to read.
 *
 *   usage: recording_bench [JSON-FILE [CALLS]]
 *          recording_bench --write RECORDING CALLS */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/types.h>

#include "base/random.h"
#include "recording/recording.h"
#include "wire/event.h"

#define PROBES	   300
#define THREADS	   4
#define CODES	   500
#define STRINGS	   200
#define STEP_CALLS 4000
#define BATCH	   512

static uint64_t lognormal(uint64_t *random, double median, double sigma)
{
	return (uint64_t)(median * exp(sigma * random_normal(random)));
}

enum args_kind { ARGS_NONE, ARGS_PYTHON, ARGS_CUDA, ARGS_WORST, ARGS_KINDS };
static const char *const kind_names[ARGS_KINDS] = {
	"operators, no arguments", "operators and Python frames", "operators and CUDA calls",
	"random everything (worst case)"};

/* One thread's position in its endless tree of calls. */
struct stream {
	uint64_t random;
	uint64_t order; /* restarts every step: the sequence of calls repeats */
	uint64_t now_ns;
	uint32_t thread;
	uint32_t in_step;
	enum args_kind kind;
	uint64_t pointers[64];
};

static void set_args(struct stream *s, struct m_call *c)
{
	if (s->kind == ARGS_PYTHON && c->probe < 30) {
		c->nargs = 1;
		c->args[0] = random_next(&s->order) % CODES;
	} else if (s->kind == ARGS_CUDA && c->probe < 150) {
		c->nargs = 3;
		c->args[0] = s->pointers[random_next(&s->random) % 64];
		c->args[1] = 512 * (1 + random_next(&s->order) % 4096);
		c->args[2] = 0;
	} else if (s->kind == ARGS_WORST) {
		c->nargs = 3;
		for (int k = 0; k < 3; k++)
			c->args[k] = random_next(&s->random);
	}
}

/* Appends a call and its children to out in order of return; bounded by room. */
static size_t make_call(struct stream *s, struct m_call *out, size_t room, unsigned depth)
{
	uint64_t pick = s->kind == ARGS_WORST ? random_next(&s->random) : random_next(&s->order);
	double u = (double)(pick % 100000) / 100000;
	uint32_t probe = (uint32_t)(PROBES * u * u); /* few probes make most calls */
	unsigned children = depth < 4 ? (unsigned)(pick >> 32) % 4 : 0;
	struct m_call c = {.thread = s->thread, .probe = probe, .depth = (uint8_t)depth};
	size_t n = 0;
	c.flags = depth ? CALL_NESTED : 0;
	s->now_ns += lognormal(&s->random, 400, 0.6);
	c.start_ns = s->now_ns;
	for (unsigned i = 0; i < children && n + 5 < room; i++)
		n += make_call(s, out + n, room - n - 1, depth + 1);
	s->now_ns += lognormal(&s->random, 800 + 40.0 * probe, 0.5);
	c.dur_ns = s->now_ns - c.start_ns;
	set_args(s, &c);
	out[n++] = c;
	return n;
}

static void make_stream(struct stream *s, struct m_call *out, size_t n)
{
	size_t have = 0;
	while (have < n) {
		if (s->in_step >= STEP_CALLS) {
			s->in_step = 0;
			s->order = 0x9e3779b97f4a7c15ULL + s->thread;
		}
		size_t made = make_call(s, out + have, n - have, 0);
		have += made;
		s->in_step += (uint32_t)made;
	}
}

static void put_dictionaries(struct rec_writer *w, enum args_kind kind)
{
	char name[64];
	for (int i = 0; i < PROBES; i++) {
		struct m_probe p = {.name_arg = -1};
		snprintf(name, sizeof(name), "aten::operator_%d", i);
		p.name = rec_string_z(w, name);
		p.layer = rec_string_z(w, "torch");
		p.nargs = kind == ARGS_PYTHON ? 1 : 3;
		p.arg_types[0] = kind == ARGS_PYTHON ? ARG_TYPE_CODE : ARG_TYPE_PTR;
		rec_add_probe(w, &p);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		rec_add_thread(w, &(struct m_thread){1000, 1000 + i, rec_string_z(w, "python3")});
	for (uint32_t i = 0; i < CODES; i++) {
		snprintf(name, sizeof(name), "module.function_%u", i);
		rec_add_code(w, &(struct m_code){rec_string_z(w, name), 0, i});
	}
}

static double seconds(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

struct result {
	size_t calls;
	double write_s, open_s, read1_s, read2_s;
	uint64_t bytes;
};

static void die(const char *what, const struct err *e)
{
	fprintf(stderr, "recording_bench: %s: %s\n", what, e->msg);
	exit(1);
}

/* The calls of all threads come interleaved in small batches, as from ring buffers. */
static void write_run(const char *path, struct m_call *const streams[THREADS], size_t each,
		      enum args_kind kind, struct result *res)
{
	struct err e;
	struct rec_writer *w;
	if (rec_writer_open(&w, path, NULL, &e))
		die("open", &e);
	put_dictionaries(w, kind);
	double start = seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (size_t at = 0; at < each; at += BATCH)
		for (int t = 0; t < THREADS; t++)
			rec_put_calls(w, streams[t] + at, each - at < BATCH ? each - at : BATCH);
	if (rec_flush(w, &e))
		die("flush", &e);
	res->write_s = seconds(CLOCK_PROCESS_CPUTIME_ID) - start;
	if (rec_writer_close(w, false, &e))
		die("close", &e);
}

struct job {
	const struct rec_reader *r;
	size_t first, step;
	uint64_t calls;
};

static void *read_job(void *arg)
{
	struct job *j = arg;
	struct m_calls c = {0};
	struct err e;
	for (size_t b = j->first; b < rec_call_blocks(j->r); b += j->step) {
		if (rec_read_calls(j->r, b, &c, &e))
			die("read", &e);
		j->calls += c.len;
	}
	m_calls_free(&c);
	return NULL;
}

static double read_run(const struct rec_reader *r, size_t nthreads, size_t expected)
{
	pthread_t threads[8];
	struct job jobs[8] = {0};
	uint64_t calls = 0;
	struct err e = {"wrong number of calls"};
	double start = seconds(CLOCK_MONOTONIC);
	for (size_t i = 0; i < nthreads; i++) {
		jobs[i] = (struct job){r, i, nthreads, 0};
		pthread_create(&threads[i], NULL, read_job, &jobs[i]);
	}
	for (size_t i = 0; i < nthreads; i++) {
		pthread_join(threads[i], NULL);
		calls += jobs[i].calls;
	}
	if (calls != expected)
		die("read", &e);
	return seconds(CLOCK_MONOTONIC) - start;
}

static void start_stream(struct stream *s, uint32_t thread, enum args_kind kind)
{
	*s = (struct stream){.random = 12345 + thread, .order = 99, .thread = thread, .kind = kind};
	s->now_ns = 1000000000000ULL;
	s->in_step = STEP_CALLS;
	for (int i = 0; i < 64; i++)
		s->pointers[i] = 0x7f0000000000 + (random_next(&s->random) % (1 << 24)) * 512;
}

static struct result run(const char *path, enum args_kind kind, size_t calls)
{
	struct result res = {.calls = calls / THREADS * THREADS};
	size_t each = calls / THREADS;
	struct m_call *streams[THREADS];
	struct err e;
	for (uint32_t t = 0; t < THREADS; t++) {
		struct stream s;
		start_stream(&s, t, kind);
		streams[t] = calloc(each, sizeof(**streams));
		make_stream(&s, streams[t], each);
	}
	write_run(path, streams, each, kind, &res);
	for (int t = 0; t < THREADS; t++)
		free(streams[t]);

	struct rec_reader *r;
	double start = seconds(CLOCK_MONOTONIC);
	if (rec_open(&r, path, &e))
		die("open", &e);
	res.open_s = seconds(CLOCK_MONOTONIC) - start;
	res.bytes = rec_tables(r)->file_bytes;
	res.read1_s = read_run(r, 1, res.calls);
	res.read2_s = read_run(r, 2, res.calls);
	rec_close(r);
	return res;
}

/* Bounded memory: each thread's stream is made a chunk at a time. */
static void keep_run(const char *path, size_t calls)
{
	static struct m_call chunk[THREADS][64 * BATCH];
	struct stream streams[THREADS];
	struct rec_writer *w;
	struct err e;
	if (rec_writer_open(&w, path, NULL, &e))
		die("open", &e);
	put_dictionaries(w, ARGS_PYTHON);
	for (uint32_t t = 0; t < THREADS; t++)
		start_stream(&streams[t], t, ARGS_PYTHON);
	for (size_t left = calls / THREADS, n; left; left -= n) {
		n = left < 64 * BATCH ? left : 64 * BATCH;
		for (int t = 0; t < THREADS; t++)
			make_stream(&streams[t], chunk[t], n);
		for (size_t at = 0; at < n; at += BATCH)
			for (int t = 0; t < THREADS; t++)
				rec_put_calls(w, chunk[t] + at, n - at < BATCH ? n - at : BATCH);
		if (rec_flush(w, &e))
			die("flush", &e);
	}
	if (rec_writer_close(w, false, &e))
		die("close", &e);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "--write") && strtoul(argv[3], NULL, 10) >= THREADS) {
		keep_run(argv[2], strtoul(argv[3], NULL, 10));
		return 0;
	}
	size_t calls = argc > 2 ? strtoul(argv[2], NULL, 10) : 4000000;
	const char *tmp = getenv("TMPDIR");
	char path[4096];
	FILE *json = argc > 1 ? fopen(argv[1], "w") : NULL;
	if (calls < THREADS || (argc > 1 && !json)) {
		fprintf(stderr, "usage: recording_bench [JSON-FILE [CALLS]]\n"
				"       recording_bench --write RECORDING CALLS\n");
		return 2;
	}
	snprintf(path, sizeof(path), "%s/recording_bench.%d.eacgm", tmp ? tmp : "/tmp", getpid());
	printf("%-34s %12s %12s %12s %12s %8s\n", "stream", "write M/s", "read M/s", "read x2 M/s",
	       "open M/s", "B/event");
	if (json)
		fprintf(json, "{\"calls\": %zu, \"streams\": [", calls);
	for (int k = 0; k < ARGS_KINDS; k++) {
		struct result r = run(path, (enum args_kind)k, calls);
		double m = (double)r.calls / 1e6;
		double bytes = (double)r.bytes / (double)r.calls;
		printf("%-34s %12.1f %12.1f %12.1f %12.1f %8.2f\n", kind_names[k], m / r.write_s,
		       m / r.read1_s, m / r.read2_s, m / r.open_s, bytes);
		if (json)
			fprintf(json,
				"%s\n  {\"name\": \"%s\", \"write_per_s\": %.0f, \"read_per_s\": "
				"%.0f, \"read2_per_s\": %.0f, \"open_per_s\": %.0f, "
				"\"bytes_per_event\": %.3f}",
				k ? "," : "", kind_names[k], m * 1e6 / r.write_s,
				m * 1e6 / r.read1_s, m * 1e6 / r.read2_s, m * 1e6 / r.open_s,
				bytes);
	}
	if (json) {
		fprintf(json, "\n]}\n");
		fclose(json);
	}
	unlink(path);
	return 0;
}
