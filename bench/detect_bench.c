/* detect_bench.c - what making rows of events costs: ns for each call and span of a recording, in
 * keys alone, and in keys with windows, once learning what is usual and once judging by it. CPU
 * time; reading the file is not counted. Prints one line for each; with --rows the rows themselves.
 * With a second recording it is judged by what was usual in the first.
 *
 *   usage: detect_bench RECORDING [RECORDING] [--rows] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "detect/hardware.h"
#include "detect/recording_feed.h"
#include "detect/windows.h"
#include "recording/recording.h"

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
	uint32_t n;
	const struct feature *features = features_of(row->layer, &n);
	if (!b->print)
		return;
	printf("%.3f,%s,pid %u,gpu %d,regime %u,%llu", (double)row->start_ns / 1e9,
	       detect_layer_name(detect_keys_layers(b->keys), row->layer), row->pid, row->gpu,
	       row->regime, (unsigned long long)row->events);
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

static void on_mix(void *ctx, uint32_t pid, uint64_t start_ns, const struct work *work)
{
	struct bench *b = ctx;
	hardware_mix(b->hardware, pid, start_ns, work);
}

/* ---- passes ---- */

static uint64_t cpu_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static void report(const struct bench *b, const char *what, uint64_t start_ns)
{
	uint64_t ns = cpu_ns() - start_ns;
	if (!b->print)
		printf("%-16s %7.1f ns/event, %zu events, %u keys, %llu rows\n", what,
		       b->events.len ? (double)ns / (double)b->events.len : 0, b->events.len,
		       detect_keys_count(b->keys), (unsigned long long)b->rows);
}

static void pass_keys(struct bench *b)
{
	uint64_t start = cpu_ns(), sum = 0;
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
	uint64_t start = cpu_ns();
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

/* ---- both recordings ---- */

struct usuals {
	struct counters_usual *counters;
	struct regimes *regimes;
};

static struct windows_options options_of(const struct bench *b, const struct usuals *u, bool learn)
{
	return (struct windows_options){.window_ns = WINDOW_NS,
					.late_ns = WINDOWS_NEVER,
					.keys = b->keys,
					.usual = b->usual,
					.regimes = learn ? NULL : u->regimes,
					.new_regimes = true,
					.learn = learn,
					.row = learn ? NULL : on_row,
					.mix = learn ? NULL : on_mix,
					.ctx = (void *)(uintptr_t)b};
}

static void load(struct bench *b, const struct rec_reader *r)
{
	b->events.len = 0;
	detect_names_of_source(&b->names, rec_source(r));
	detect_keys_forget_rows(b->keys);
	recording_feed(rec_source(r),
		       &(struct recording_sink){.ctx = b, .call = on_call, .gpu_span = on_span});
	pass_keys(b);
}

static void judge(struct bench *b, const struct rec_reader *r, const struct usuals *u, bool learn)
{
	struct windows_options windows = options_of(b, u, false);
	struct hardware_options hardware = {.window_ns = WINDOW_NS,
					    .late_ns = WINDOWS_NEVER,
					    .usual = u->counters,
					    .learn = learn,
					    .row = on_hardware_row,
					    .ctx = b};
	b->hardware = hardware_new(&hardware);
	pass_windows(b, "judging", &windows);
	recording_feed(
		rec_source(r),
		&(struct recording_sink){.ctx = b, .counter = on_counter, .sample = on_sample});
	hardware_end(b->hardware);
	hardware_free(b->hardware);
}

static void run(struct bench *b, const struct rec_reader *first, const struct rec_reader *second)
{
	struct usuals u = {counters_usual_new(1), regimes_new()};
	struct windows_options learning = options_of(b, &u, true);
	bool print = b->print;
	b->print &= !second;
	load(b, first);
	pass_windows(b, "learning", &learning);
	usual_settle(b->usual);
	judge(b, first, &u, true);
	counters_usual_settle(u.counters);
	b->print = print;
	if (second) {
		load(b, second);
		judge(b, second, &u, false);
	}
	counters_usual_free(u.counters);
	regimes_free(u.regimes);
}

static struct rec_reader *opened(const char *path)
{
	struct rec_reader *r;
	struct err e;
	if (!rec_open(&r, path, &e))
		return r;
	fprintf(stderr, "%s\n", e.msg);
	exit(1);
}

int main(int argc, char **argv)
{
	struct bench b = {.print = argc > 2 && !strcmp(argv[argc - 1], "--rows")};
	int paths = argc - 1 - b.print;
	if (paths < 1 || paths > 2) {
		fprintf(stderr, "usage: detect_bench RECORDING [RECORDING] [--rows]\n");
		return 2;
	}
	struct rec_reader *first = opened(argv[1]), *second = paths == 2 ? opened(argv[2]) : NULL;
	b.keys = detect_keys_new(KEYS_MOST, KEYS_WHOLE);
	b.usual = usual_new(b.keys, 1);
	run(&b, first, second);
	usual_free(b.usual);
	detect_keys_free(b.keys);
	vec_free(&b.events);
	rec_close(first);
	if (second)
		rec_close(second);
	return 0;
}
