/* detect_bench.c - what making rows of events costs: ns for each call and span of a recording, in
 * keys alone, and in keys with windows, once learning what is usual and once judging by it. Reading
 * the file is not counted. Prints one line for each; with --rows the rows themselves, as CSV.
 *
 *   usage: detect_bench RECORDING [--rows] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "detect/hardware.h"
#include "detect/recording_feed.h"
#include "detect/windows.h"

#define WINDOW_NS 1000000000ULL

struct event {
	bool span;
	union {
		struct m_call call;
		struct m_gpu_span gpu_span;
	};
};

struct bench {
	struct detect_names names;
	VEC(struct event) events;
	struct detect_keys *keys;
	struct usual *usual;
	struct windows *windows;
	struct hardware *hardware;
	uint64_t rows;
	bool print;
};

static void on_call(void *ctx, const struct m_call *c)
{
	struct bench *b = ctx;
	struct event *e = vec_push(&b->events);
	e->call = *c;
}

static void on_span(void *ctx, const struct m_gpu_span *s)
{
	struct bench *b = ctx;
	struct event *e = vec_push(&b->events);
	e->span = true;
	e->gpu_span = *s;
}

static void on_counter(void *ctx, const struct m_counter *c)
{
	struct bench *b = ctx;
	hardware_counter(b->hardware, &b->names, c);
}

static void on_sample(void *ctx, const struct m_sample *s)
{
	struct bench *b = ctx;
	hardware_sample(b->hardware, &b->names, s);
}

/* ---- rows ---- */

static void print_row(const struct bench *b, const struct feature_row *row)
{
	static const char *const layers[DETECT_LAYERS] = DETECT_LAYER_NAMES;
	uint32_t n;
	const struct feature *features = features_of(row->layer, &n);
	if (!b->print)
		return;
	printf("%.3f,%s,pid %u,gpu %d,regime %u,%llu", (double)row->start_ns / 1e9,
	       layers[row->layer], row->pid, row->gpu, row->regime,
	       (unsigned long long)row->events);
	for (uint32_t i = 0; i < n; i++)
		if (!isnan(row->x[i]))
			printf(",%s=%.3f", features[i].name, row->x[i]);
}

static void on_row(void *ctx, const struct feature_row *row, const struct window_detail *detail)
{
	struct bench *b = ctx;
	struct detect_key key;
	b->rows++;
	print_row(b, row);
	if (b->print && detail->keys_len) {
		detect_keys_get(b->keys, detail->keys[0].key, &key);
		printf(",most=%s", key.text);
	}
	if (b->print)
		printf("\n");
}

static void on_hardware_row(void *ctx, const struct feature_row *row,
			    const double values[FEATURES_MOST])
{
	(void)values;
	struct bench *b = ctx;
	b->rows++;
	print_row(b, row);
	if (b->print)
		printf("\n");
}

static void on_mix(void *ctx, uint32_t pid, uint64_t start_ns, uint64_t end_ns, uint32_t regime,
		   uint64_t events)
{
	struct bench *b = ctx;
	(void)end_ns;
	hardware_mix(b->hardware, pid, start_ns, regime, events);
}

/* ---- passes ---- */

static void report(const struct bench *b, const char *what, uint64_t start_ns)
{
	uint64_t ns = monotonic_ns() - start_ns;
	if (!b->print)
		printf("%-16s %7.1f ns/event, %zu events, %u keys, %llu rows\n", what,
		       b->events.len ? (double)ns / (double)b->events.len : 0, b->events.len,
		       detect_keys_count(b->keys), (unsigned long long)b->rows);
}

static void pass_keys(struct bench *b)
{
	uint64_t start = monotonic_ns(), sum = 0;
	for (size_t i = 0; i < b->events.len; i++) {
		const struct event *e = &b->events.data[i];
		sum += e->span ? detect_keys_gpu_span(b->keys, &b->names, &e->gpu_span).number
			       : detect_keys_call(b->keys, &b->names, &e->call).number;
	}
	report(b, sum ? "keys" : "keys: none", start);
}

static void pass_windows(struct bench *b, const char *what, const struct windows_options *o)
{
	b->windows = windows_new(o);
	uint64_t start = monotonic_ns();
	for (size_t i = 0; i < b->events.len; i++) {
		const struct event *e = &b->events.data[i];
		if (e->span)
			windows_gpu_span(b->windows, &b->names, &e->gpu_span, NULL);
		else
			windows_call(b->windows, &b->names, &e->call, NULL);
	}
	windows_end(b->windows);
	report(b, what, start);
	windows_free(b->windows);
}

static void run(struct bench *b, const struct rec_reader *r)
{
	struct recording_sink sink = {.ctx = b, .call = on_call, .gpu_span = on_span};
	struct recording_sink counters = {.ctx = b, .counter = on_counter, .sample = on_sample};
	struct counters_usual *usual = counters_usual_new(1);
	struct regimes *regimes = regimes_new();
	struct windows_options learning = {.window_ns = WINDOW_NS,
					   .late_ns = WINDOWS_NEVER,
					   .keys = b->keys,
					   .usual = b->usual,
					   .learn = true};
	struct windows_options judging = learning;
	judging.learn = false;
	judging.regimes = regimes;
	judging.new_regimes = true;
	judging.row = on_row;
	judging.mix = on_mix;
	judging.ctx = b;
	struct hardware_options hardware = {
		.window_ns = WINDOW_NS, .late_ns = WINDOWS_NEVER, .usual = usual, .learn = true};
	hardware.row = on_hardware_row;
	hardware.ctx = b;
	b->hardware = hardware_new(&hardware);
	recording_feed(r, &sink);
	pass_keys(b);
	pass_windows(b, "learning", &learning);
	usual_settle(b->usual);
	pass_windows(b, "judging", &judging);
	recording_feed(r, &counters);
	hardware_end(b->hardware);
	hardware_free(b->hardware);
	counters_usual_free(usual);
	regimes_free(regimes);
}

int main(int argc, char **argv)
{
	struct rec_reader *r;
	struct err e;
	struct bench b = {.print = argc > 2 && !strcmp(argv[2], "--rows")};
	if (argc < 2 || rec_open(&r, argv[1], &e)) {
		fprintf(stderr, "%s\n",
			argc < 2 ? "usage: detect_bench RECORDING [--rows]" : e.msg);
		return 1;
	}
	detect_names_of_reader(&b.names, r);
	b.keys = detect_keys_new(KEYS_MOST, KEYS_WHOLE);
	b.usual = usual_new(b.keys, 1);
	run(&b, r);
	usual_free(b.usual);
	detect_keys_free(b.keys);
	vec_free(&b.events);
	rec_close(r);
	return 0;
}
