/* scrape.c - how long the agent takes to write its answer to /metrics, and the same as a message of
 * OTLP: made-up GPUs, processes, functions and counters, as many as are asked for. Prints samples,
 * bytes and the median of 31 times, of OTLP also the bytes and the time of gzip. With "serve" it
 * measures nothing but answers /metrics by the agent's server, at a port that it prints, until its
 * input ends (bench/scrape_http.py). usage: scrape PROCESSES FUNCTIONS_EACH COUNTERS_EACH GPUS
 * [serve] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/clock.h"
#include "base/entity.h"
#include "serve/agent_series.h"
#include "serve/exposition.h"
#include "serve/http_server.h"
#include "serve/otlp_metrics.h"

#define TIMES	     31
#define MIDDLE	     15
#define GPU_COUNTERS 40

static void add_metric(struct live_series *s, uint8_t kind, uint32_t pid, uint32_t gpu, size_t i)
{
	*vec_push(&s->metrics) = (struct live_metric){.kind = kind,
						      .there = true,
						      .pid = pid,
						      .gpu = gpu,
						      .instance = -1,
						      .label = xstrdup(""),
						      .name = xasprintf("counter_%zu_ns", i),
						      .value = 0.123456789 * (double)i,
						      .time_ns = 1};
}

static void add_process(struct live_series *s, uint32_t pid, size_t functions, size_t counters)
{
	map64_set(&s->process_of, pid, s->processes.len);
	struct live_process *p = vec_push(&s->processes);
	*p = (struct live_process){.pid = pid, .comm = "python3", .rank = 1, .called = true};
	proc_labels_init(&p->labels);
	for (size_t i = 0; i < functions; i++) {
		struct live_function *f = vec_push(&s->functions);
		*f = (struct live_function){.pid = pid, .layer = "torch", .calls = i, .ns = 1e6};
		snprintf(f->name, sizeof(f->name), "aten::function_%zu", i);
	}
	for (size_t i = 0; i < counters; i++)
		add_metric(s, ENTITY_PROCESS, pid, 0, i);
}

static size_t gzip_bytes(const struct buf *b)
{
	z_stream z = {0};
	if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY))
		abort();
	uLong n = deflateBound(&z, b->len);
	uint8_t *out = xcalloc(1, n);
	z.next_in = b->data;
	z.avail_in = (uInt)b->len;
	z.next_out = out;
	z.avail_out = (uInt)n;
	deflate(&z, Z_FINISH);
	deflateEnd(&z);
	free(out);
	return n - z.avail_out;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void measure_otlp(const struct agent_view *v)
{
	const struct otlp_about about = {.version = "1", .host = "host"};
	uint64_t took_ns[TIMES], packed_ns[TIMES];
	size_t points = 0, bytes = 0, wire = 0;
	for (int i = 0; i < TIMES; i++) {
		struct buf b = {0};
		uint64_t began_ns = monotonic_ns();
		points = otlp_metrics_write(&b, &about, v, 1, 0);
		took_ns[i] = monotonic_ns() - began_ns;
		began_ns = monotonic_ns();
		wire = gzip_bytes(&b);
		packed_ns[i] = monotonic_ns() - began_ns;
		bytes = b.len;
		buf_free(&b);
	}
	qsort(took_ns, TIMES, sizeof(took_ns[0]), compare);
	qsort(packed_ns, TIMES, sizeof(packed_ns[0]), compare);
	printf("OTLP: %zu points, %zu bytes, %.2f ms (%.2f at most); gzip: %zu bytes, %.2f ms\n",
	       points, bytes, (double)took_ns[MIDDLE] / 1e6, (double)took_ns[TIMES - 1] / 1e6, wire,
	       (double)packed_ns[MIDDLE] / 1e6);
}

static void measure_text(const struct agent_view *v)
{
	uint64_t took_ns[TIMES];
	size_t samples = 0, bytes = 0;
	for (int i = 0; i < TIMES; i++) {
		struct exposition x = {0};
		const struct series_sink sink = exposition_sink(&x);
		uint64_t began_ns = monotonic_ns();
		agent_series_write(&sink, v);
		took_ns[i] = monotonic_ns() - began_ns;
		samples = x.samples;
		bytes = x.text.len;
		buf_free(&x.text);
	}
	qsort(took_ns, TIMES, sizeof(took_ns[0]), compare);
	printf("%zu samples, %zu bytes, %.2f ms (%.2f at most)\n", samples, bytes,
	       (double)took_ns[MIDDLE] / 1e6, (double)took_ns[TIMES - 1] / 1e6);
}

static void get_metrics(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	struct exposition x = {.open_metrics = strstr(q->accept, "application/openmetrics-text")};
	const struct series_sink sink = exposition_sink(&x);
	ret->type = exposition_type(x.open_metrics);
	agent_series_write(&sink, ctx);
	exposition_end(&x);
	ret->body = x.text;
}

static int serve(struct agent_view *v)
{
	static const struct http_route routes[] = {{.path = "/metrics", .answer = get_metrics}};
	const struct http_server_options options = {
		.address = "127.0.0.1", .routes = routes, .routes_len = 1, .ctx = v};
	struct http_server *s = NULL;
	struct err e = {0};
	int rc = http_server_open(&s, &options, &e);
	if (!rc)
		rc = http_server_start(s, &e);
	if (rc) {
		fprintf(stderr, "scrape: %s\n", e.msg);
		http_server_close(s);
		return 1;
	}
	printf("%u\n", http_server_port(s));
	fflush(stdout);
	while (getchar() != EOF)
		;
	http_server_close(s);
	return 0;
}

int main(int argc, char **argv)
{
	static struct live_series s;
	static const struct live_state state;
	static const struct live_jobs jobs;
	static const struct agent_causes causes;
	static const struct live_notices notices;
	struct agent_view v = {.series = &s,
			       .state = &state,
			       .jobs = &jobs,
			       .causes = &causes,
			       .notices = &notices,
			       .host = "host",
			       .version = "1",
			       .dcgm = true};
	size_t n[4];
	int rc = 0;
	for (int i = 0; i < 4; i++)
		n[i] = argc > i + 1 ? strtoul(argv[i + 1], NULL, 10) : 0;
	for (uint32_t p = 0; p < n[0]; p++)
		add_process(&s, p + 1, n[1], n[2]);
	for (uint32_t g = 0; g < n[3]; g++) {
		*vec_push(&s.gpus) = (struct live_gpu_id){.index = g, .parent = -1, .uuid = "GPU"};
		for (size_t i = 0; i < GPU_COUNTERS; i++)
			add_metric(&s, ENTITY_GPU, 0, g, i);
	}
	if (argc > 5 && !strcmp(argv[5], "serve")) {
		rc = serve(&v);
	} else {
		measure_text(&v);
		v.dcgm = false; /* OTLP has none */
		measure_otlp(&v);
	}
	live_series_free(&s);
	return rc;
}
