/* detector_test.c - learning and detecting on a simulated job: faults are found where they are,
 * changes that are none are left alone, clean running alarms as rarely as was asked for.
 * links: incident detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "golden/counters.h"
#include "incident/detector_impl.h"
#include "detect/learn.h"
#include "detect/learn_mixture.h"
#include "sim_job.h"
#include "recording/recording.h"

#define QUICK	   0.1 /* pace: 2,000 events a second */
#define FOUND_MOST 200

static struct model quick, slow, tainted; /* of clean running at both paces; of faulty running */
static const char *device_layer = "cuda"; /* of the job's calls of the runtime */

struct found {
	enum detect_layer layer;
	uint64_t start_ns, end_ns;
	double p_value;
	char name[64], why[256], layer_name[LAYER_NAME_BYTES];
};
static struct found found[FOUND_MOST];
static size_t found_len, told;
static struct detector *detector;
static struct detect_names names;
static uint64_t last_second, events, anomalous;

/* ---- models ---- */

/* A tenth of the stretches of ten seconds has each of two faults. */
static void run_tainted(struct sim_job *s, int stretches, double faulty_ratio)
{
	for (int i = 0; i < stretches; i++) {
		for (size_t k = 0; k < SIM_FUNCTIONS; k++)
			s->slow[k] = 1;
		if (random_uniform(&s->seed) < faulty_ratio)
			s->slow[random_next(&s->seed) % SIM_FUNCTIONS] =
				1.5 + 2 * random_uniform(&s->seed);
		sim_run(s, 10);
	}
}

static void learn(struct model *ret, double pace, int stretches, double faulty_ratio)
{
	char path[] = "/tmp/eacgm-detector-XXXXXX";
	struct sim_job s;
	struct rec_writer *w;
	struct rec_reader *r;
	struct err e = {0};
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	sim_make(&s, 5);
	sim_rename_layer(&s, "cuda", device_layer);
	s.pace = pace;
	assert_int_equal(sim_open(&s, &w, path, &e), 0);
	run_tainted(&s, stretches, faulty_ratio);
	assert_int_equal(rec_writer_close(w, false, &e), 0);
	sim_free(&s);
	assert_int_equal(rec_open(&r, path, &e), 0);
	struct learn_options o = {.warmup_s = -1};
	const struct row_source *source = rec_source(r);
	if (learn_model(ret, &source, 1, &o, &e))
		fail_msg("%s", e.msg);
	ret->recordings = 1000; /* the simulation's launches are all alike */
	rec_close(r);
	unlink(path);
}

static int make_models(void **state)
{
	(void)state;
	learn(&quick, QUICK, 60, 0);
	learn(&slow, 1, 360, 0);
	learn(&tainted, QUICK, 60, 0.2);
	return 0;
}

static int free_models(void **state)
{
	(void)state;
	model_free(&quick);
	model_free(&slow);
	model_free(&tainted);
	return 0;
}

/* ---- a job through a detector ---- */

static void on_anomaly(void *ctx, const struct anomaly *a)
{
	(void)ctx;
	told++;
	if (!a->ended || found_len == FOUND_MOST)
		return;
	struct found *f = &found[found_len++];
	*f = (struct found){a->layer, a->start_ns, a->end_ns, a->p_value, "", "", ""};
	snprintf(f->name, sizeof(f->name), "%s", a->name);
	snprintf(f->why, sizeof(f->why), "%s", a->why);
	snprintf(f->layer_name, sizeof(f->layer_name), "%s", a->layer_name);
	double shares = 0;
	assert_true(a->features_len > 0 && a->p_value > 0 && a->p_value <= 1);
	for (uint32_t i = 0; i < a->features_len; i++)
		shares += a->features[i].share_ratio;
	assert_true(shares <= 1.0001);
	assert_true(a->start_ns < a->end_ns && a->windows > 0);
}

static void on_event(void *ctx, const struct detector_event *e)
{
	(void)ctx;
	events++;
	anomalous += e->anomalous;
}

static void on_call(void *ctx, const struct m_call *c)
{
	(void)ctx;
	uint64_t end = c->start_ns + c->dur_ns;
	if (end / SIM_SECOND != last_second) {
		last_second = end / SIM_SECOND;
		detector_upto(detector, end);
	}
	detector_call(detector, &names, c);
}

struct run {
	const struct model *model;
	double pace, alarms_per_hour;
	double least_effect; /* 0: none is asked for */
	bool whole, follow;
	uint64_t seed;
};

/* The job s is made and run by what; returns when it began. */
static uint64_t run(const struct run *r, void (*what)(struct sim_job *s), double *ret_hours)
{
	struct sim_job s;
	sim_make(&s, r->seed);
	sim_rename_layer(&s, "cuda", device_layer);
	s.pace = r->pace;
	s.emit = on_call;
	names = sim_names(&s);
	found_len = told = 0;
	uint64_t begin = s.now_ns;
	detector = detector_new(&(struct detector_options){
		.model = r->model,
		.window_ns = SIM_SECOND,
		.alarms_per_hour = r->alarms_per_hour,
		.least_effect = r->least_effect > 0 ? r->least_effect : NO_EFFECT,
		.whole = r->whole,
		.follow = r->follow,
		.tell = on_anomaly});
	what(&s);
	detector_end(detector);
	if (ret_hours)
		*ret_hours = (double)(s.now_ns - begin) / 3.6e12;
	sim_free(&s);
	return begin;
}

static void done(void)
{
	detector_free(detector);
	detector = NULL;
}

#define ONSET 60 /* seconds of clean running before a fault */

static const struct found *of_layer(enum detect_layer layer)
{
	for (size_t i = 0; i < found_len; i++)
		if (found[i].layer == layer)
			return &found[i];
	fail_msg("no anomaly of layer %d among %zu", layer, found_len);
	return NULL;
}

/* Found in this layer, with this name, from its onset to its end within a window and the two that
 * may follow. */
static void assert_found(uint64_t begin, enum detect_layer layer, const char *name, double seconds)
{
	const struct found *f = of_layer(layer);
	double start = (double)(f->start_ns - begin) / 1e9, end = (double)(f->end_ns - begin) / 1e9;
	if (start < ONSET - 1.01 || start > ONSET + 1.01 || end < ONSET + seconds - 0.2 * seconds ||
	    end > ONSET + seconds + 3.01)
		fail_msg("from %.2f to %.2f s: %s", start - ONSET, end - ONSET, f->why);
	if (name)
		assert_string_equal(f->name, name);
}

/* ---- faults ---- */

static void slow_lasting(struct sim_job *s)
{
	sim_run(s, ONSET);
	s->slow[1] = 1.3;
	sim_run(s, 60);
	s->slow[1] = 1;
	sim_run(s, 30);
}

static void slow_short(struct sim_job *s)
{
	sim_run(s, ONSET);
	s->slow[11] = 2;
	sim_run(s, 3);
	s->slow[11] = 1;
	sim_run(s, 30);
}

/* Hardly any of the job's time, but two of its 24 calls. */
static void slow_allocations(struct sim_job *s)
{
	sim_run(s, ONSET);
	s->slow[8] = 3;
	sim_run(s, 3);
	s->slow[8] = 1;
	sim_run(s, 30);
}

static void stalls(struct sim_job *s)
{
	sim_run(s, ONSET);
	s->stall_ns = 3e7;
	sim_run(s, 4);
	s->stall_ns = 0;
	sim_run(s, 30);
}

static void errors(struct sim_job *s)
{
	sim_run(s, ONSET);
	s->error_ratio = 0.05;
	sim_run(s, 5);
	s->error_ratio = 0;
	sim_run(s, 30);
}

/* Many calls that no model has seen: at first their keys are new, then it would be other work. */
static void many_small_calls(struct sim_job *s)
{
	sim_run(s, ONSET);
	s->others = 250;
	sim_run(s, 40);
	s->others = 0;
	sim_run(s, 30);
}

static void faults_are_found(void **state)
{
	(void)state;
	const struct model *models[] = {&quick, &tainted};
	for (size_t m = 0; m < 2; m++) {
		struct run r = {
			.model = models[m], .pace = QUICK, .alarms_per_hour = 1, .seed = 99};
		uint64_t begin = run(&r, slow_lasting, NULL);
		assert_found(begin, DETECT_TORCH, "aten::addmm", 60);
		assert_non_null(strstr(of_layer(DETECT_TORCH)->why, "x as long as usual"));
		done();
		begin = run(&r, slow_short, NULL);
		assert_found(begin, DETECT_CUDA, "cudaStreamSynchronize", 3);
		assert_int_equal(told, 2 * found_len);
		done();
		begin = run(&r, stalls, NULL);
		assert_found(begin, DETECT_TORCH, "aten::mm", 4);
		assert_non_null(strstr(of_layer(DETECT_TORCH)->why, "passed before calls"));
		done();
		begin = run(&r, errors, NULL);
		assert_found(begin, DETECT_TORCH, NULL, 5);
		assert_found(begin, DETECT_CUDA, NULL, 5);
		assert_non_null(strstr(of_layer(DETECT_CUDA)->why, "failed"));
		done();
		begin = run(&r, many_small_calls, NULL);
		assert_found(begin, DETECT_TORCH, NULL, 40);
		assert_true(found_len <= 2); /* one of each layer */
		done();
	}
}

/* One that only a file names, with a model and without; a model of before does not know it. */
static void named_layers_are_judged(void **state)
{
	(void)state;
	struct model model;
	device_layer = "mylib";
	learn(&model, QUICK, 60, 0);
	assert_int_equal(model.layers[DETECT_CUDA].columns, 0);
	assert_true(model.layers[DETECT_NAMED].columns > 0);
	const struct model *models[] = {&model, &quick};
	for (size_t m = 0; m < 2; m++) {
		struct run r = {
			.model = models[m], .pace = QUICK, .alarms_per_hour = 1, .seed = 99};
		uint64_t begin = run(&r, slow_short, NULL);
		assert_string_equal(detector_layers(detector)->names[0], "mylib");
		if (models[m] == &model) {
			assert_found(begin, DETECT_NAMED, "cudaStreamSynchronize", 3);
			assert_string_equal(of_layer(DETECT_NAMED)->layer_name, "mylib");
		}
		for (size_t i = 0; i < found_len; i++)
			assert_true(models[m] == &model || found[i].layer != DETECT_NAMED);
		done();
	}
	model_free(&model);
	device_layer = "cuda";
}

/* The same from a file, where all comes before the end, and again. */
static void streams_and_files_tell_the_same(void **state)
{
	(void)state;
	void (*const faults[])(struct sim_job *) = {slow_lasting, slow_short, stalls};
	for (size_t i = 0; i < 3; i++) {
		struct run r = {.model = &quick, .pace = QUICK, .alarms_per_hour = 1, .seed = 7};
		run(&r, faults[i], NULL);
		struct found first[FOUND_MOST];
		size_t n = found_len;
		memcpy(first, found, sizeof(first));
		done();
		for (int whole = 0; whole < 2; whole++) {
			r.whole = whole;
			run(&r, faults[i], NULL);
			assert_int_equal(found_len, n);
			assert_memory_equal(first, found, n * sizeof(*found));
			done();
		}
	}
}

/* Events are told of a recording alone. */
static void run_marked(void (*what)(struct sim_job *s))
{
	char path[] = "/tmp/eacgm-detector-XXXXXX";
	struct sim_job s;
	struct rec_writer *w;
	struct rec_reader *r;
	struct err e = {0};
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	sim_make(&s, 3);
	sim_rename_layer(&s, "cuda", device_layer);
	s.pace = QUICK;
	assert_int_equal(sim_open(&s, &w, path, &e), 0);
	what(&s);
	assert_int_equal(rec_writer_close(w, false, &e), 0);
	sim_free(&s);
	assert_int_equal(rec_open(&r, path, &e), 0);
	found_len = told = events = anomalous = 0;
	detector = detector_new(&(struct detector_options){.model = &quick,
							   .window_ns = SIM_SECOND,
							   .alarms_per_hour = 0.2,
							   .least_effect = NO_EFFECT,
							   .whole = true,
							   .tell = on_anomaly,
							   .event = on_event});
	detector_recording(detector, rec_source(r), NULL, NULL);
	rec_close(r);
	unlink(path);
}

/* The calls that are slow are told so, hardly any others are. */
static void events_are_marked(void **state)
{
	(void)state;
	run_marked(slow_allocations);
	struct detector_stats stats;
	detector_stats(detector, &stats);
	assert_int_equal(events, stats.events);
	/* Two of 24 calls are slow, in three seconds of 93. */
	double share = (double)anomalous / (double)events;
	assert_true(share > 0.9 * 2 * 3 / 93 / 24 && share < 1.1 * 2 * 3 / 93 / 24);
	done();
}

static void starts_slowly(struct sim_job *s)
{
	s->slow[0] = 20;
	sim_run(s, 3);
	s->slow[0] = 1;
	sim_run(s, 30);
}

/* Calls far beyond what is usual, as first calls are, are not anomalous where nothing is judged. */
static void events_of_the_warmup_are_not(void **state)
{
	(void)state;
	run_marked(starts_slowly);
	assert_true(events > 0);
	assert_int_equal(anomalous, 0);
	done();
}

/* ---- what is no fault ---- */

static void batches(struct sim_job *s)
{
	sim_run(s, ONSET);
	s->batch = 64;
	sim_run(s, 240);
	s->batch = 32;
	sim_run(s, 60);
}

static void evaluations(struct sim_job *s)
{
	for (int i = 0; i < 3; i++) {
		sim_run(s, ONSET);
		s->evaluates = true;
		sim_run(s, 30);
		s->evaluates = false;
	}
	sim_run(s, ONSET);
}

static void slow_after_batch(struct sim_job *s)
{
	s->batch = 64;
	sim_run(s, ONSET);
	s->slow[5] = 2;
	sim_run(s, 10);
	s->slow[5] = 1;
	sim_run(s, 30);
}

static void benign_changes_do_not_alarm(void **state)
{
	(void)state;
	struct run r = {.model = &quick, .pace = QUICK, .alarms_per_hour = 0.2, .seed = 99};
	for (int follow = 0; follow < 2; follow++) {
		r.follow = follow;
		run(&r, batches, NULL);
		assert_int_equal(found_len, 0);
		done();
		run(&r, evaluations, NULL);
		assert_int_equal(found_len, 0);
		done();
	}
	/* What is new is judged once it was learned. */
	uint64_t begin = run(&r, slow_after_batch, NULL);
	assert_found(begin, DETECT_TORCH, "AddmmBackward0", 10);
	done();
}

static double begins; /* of a window: where another batch does */

static void batches_within_windows(struct sim_job *s)
{
	sim_run(s, ONSET + begins);
	s->batch = 64;
	sim_run(s, 60);
	s->batch = 32;
	sim_run(s, 30);
}

/* The window that a batch of another size begins in has less of the usual work, and is not slow. */
static void other_batches_begin_within_windows(void **state)
{
	(void)state;
	struct run r = {.model = &quick, .pace = QUICK, .alarms_per_hour = 0.2, .seed = 5};
	for (begins = 0.1; begins < 1; begins += 0.2) {
		run(&r, batches_within_windows, NULL);
		assert_int_equal(found_len, 0);
		done();
	}
}

static void batches_again(struct sim_job *s)
{
	sim_run(s, ONSET);
	for (int i = 0; i < 3; i++) {
		s->batch = 64;
		sim_run(s, 40);
		s->batch = 32;
		sim_run(s, 30);
	}
}

/* Nor is the work that it comes back to, whose keys are new no more. */
static void other_batches_come_again(void **state)
{
	(void)state;
	struct run r = {.model = &quick, .pace = QUICK, .alarms_per_hour = 0.2, .seed = 6};
	r.least_effect = LEAST_EFFECT; /* what windows have in which it comes back is none */
	run(&r, batches_again, NULL);
	assert_int_equal(found_len, 0);
	done();
}

static void drift(struct sim_job *s)
{
	for (int i = 0; i < 3600; i++) {
		s->all = 1 + 0.1 * i / 3600;
		sim_run(s, 1);
	}
}

static void drift_is_followed(void **state)
{
	(void)state;
	struct run r = {.model = &slow, .pace = 1, .alarms_per_hour = 1, .seed = 4};
	run(&r, drift, NULL);
	size_t without = found_len;
	done();
	r.follow = true;
	run(&r, drift, NULL);
	assert_true(found_len <= 4);
	assert_true(without > found_len);
	done();
}

static void clean_day(struct sim_job *s)
{
	sim_run(s, 20 * 3600);
}

/* Twenty hours, and nothing has grown. */
static void clean_running_alarms_as_asked(void **state)
{
	(void)state;
	struct run r = {
		.model = &slow, .pace = 1, .alarms_per_hour = 2, .follow = true, .seed = 21};
	double hours;
	run(&r, clean_day, &hours);
	double asked = hours * r.alarms_per_hour;
	if ((double)found_len < asked / 2 || (double)found_len > asked * 2)
		fail_msg("%zu alarms in %.1f hours", found_len, hours);
	assert_int_equal(detector->judging.series.list.len, 2);
	assert_int_equal(detector->episodes.list.len, 0);
	assert_int_equal(detector->fresh.counts[0].len + detector->fresh.counts[1].len, 0);
	assert_true(detector->fresh.first_seen.len <= SIM_FUNCTIONS);
	for (size_t i = 0; i < detector->judging.series.list.len; i++)
		assert_true(detector->judging.series.list.data[i]->shifts.list.len <= 2);
	done();
}

/* Processes that come and go for two days. */
static void processes_are_forgotten(void **state)
{
	(void)state;
	size_t most = 0;
	detector = detector_new(&(struct detector_options){.model = &quick});
	for (uint64_t s = 1000; s < 1000 + 2 * 86400; s += 10) {
		struct feature_row row = {.start_ns = s * SIM_SECOND,
					  .end_ns = (s + 1) * SIM_SECOND,
					  .layer = DETECT_TORCH,
					  .pid = (uint32_t)(s / 60),
					  .gpu = -1,
					  .regime = 1,
					  .events = 100};
		detector_row(detector, &row);
		detector_upto(detector, row.end_ns);
		most = detector->judging.series.list.len > most ? detector->judging.series.list.len
								: most;
	}
	assert_in_range(most, 2, 20);
	assert_in_range(detector->judging.series.at.len, 1, 20);
	assert_in_range(detector->job.work_since.len, 1, 20);
	detector_end(detector);
	done();
}

/* ---- without a model ---- */

static void slow_late(struct sim_job *s)
{
	sim_run(s, 120);
	slow_short(s);
}

static void without_a_model(void **state)
{
	(void)state;
	struct run r = {.pace = QUICK, .alarms_per_hour = 1, .seed = 12};
	uint64_t begin = run(&r, slow_late, NULL) + 120 * SIM_SECOND;
	assert_found(begin, DETECT_CUDA, "cudaStreamSynchronize", 3);
	for (size_t i = 0; i < found_len; i++)
		assert_true(found[i].start_ns > begin - 70 * SIM_SECOND);
	done();
}

/* Rows that are learned from, of counters alone; in ten seconds calls are lost. */
static uint64_t rows_of_counters(bool lost)
{
	char path[] = "/tmp/eacgm-detector-XXXXXX";
	struct rec_writer *w;
	struct rec_reader *r;
	struct model m;
	struct err e = {0};
	uint64_t seed = 4;
	close(mkstemp(path));
	assert_int_equal(rec_writer_open(&w, path, NULL, &e), 0);
	rec_put_meta(w, "start_monotonic_ns", "1000000000000");
	uint32_t cpu = add_metric_of(w, "pid 7", "cpu_ratio");
	uint32_t losses = add_metric_of(w, "eacgm", "lost_calls");
	for (uint64_t i = 0; i <= 60; i++)
		rec_put_counter(w, &(struct m_counter){(1000 + i) * SIM_SECOND, cpu,
						       0.5 + 0.1 * random_normal(&seed)});
	for (uint64_t i = 0; i < 2 && lost; i++)
		rec_put_counter(w, &(struct m_counter){(1020 + 10 * i) * SIM_SECOND, losses,
						       7.0 + (double)i});
	assert_int_equal(rec_writer_close(w, false, &e), 0);
	assert_int_equal(rec_open(&r, path, &e), 0);
	struct learn_options o = {.warmup_s = 5};
	const struct row_source *source = rec_source(r);
	assert_int_equal(learn_model(&m, &source, 1, &o, &e), 0);
	assert_true(m.seconds == 55);
	uint64_t rows = m.layers[DETECT_HOST].gmm.rows;
	model_free(&m);
	rec_close(r);
	unlink(path);
	return rows;
}

/* The warm-up is that of the recording, not of the host. */
static void without_calls(void **state)
{
	(void)state;
	assert_int_equal(rows_of_counters(false), 56);
	assert_int_equal(rows_of_counters(true), 46);
}

static void count_alarms(void *ctx, const struct feature_row *row, double score, double p,
			 bool alarmed)
{
	uint64_t *alarms = ctx;
	(void)score;
	(void)p;
	*alarms += alarmed && row->start_ns > 8000 * SIM_SECOND;
}

/* Each fit is of the rows that the one before let through: it must not shut out ever more. */
static void what_is_learned_stays_as_wide(void **state)
{
	(void)state;
	uint64_t alarms = 0, seed = 3;
	struct detector *d = detector_new(&(struct detector_options){.alarms_per_hour = 1,
								     .least_effect = NO_EFFECT,
								     .row = count_alarms,
								     .tell_ctx = &alarms});
	for (uint64_t i = 0; i < 12000; i++) {
		struct feature_row row = {.start_ns = (1000 + i) * SIM_SECOND,
					  .end_ns = (1001 + i) * SIM_SECOND,
					  .layer = DETECT_STEP,
					  .pid = 1,
					  .gpu = -1,
					  .regime = 1,
					  .events = 1};
		for (size_t f = 0; f < FEATURES_MOST; f++)
			row.x[f] = f < 3 ? 0.1 * random_normal(&seed) : NAN;
		detector_row(d, &row);
	}
	detector_end(d);
	detector_free(d);
	assert_true(alarms < 20); /* of 5,000 rows */
}

/* ---- alarms are shared ---- */

static const enum detect_layer sharing[] = {DETECT_STEP, DETECT_TORCH, DETECT_PYTHON};
static size_t told_of[DETECT_LAYERS];

static void count_told(void *ctx, const struct anomaly *a)
{
	(void)ctx;
	told_of[a->layer] += a->ended;
}

/* A row of four normal numbers, some of them correlated. */
static struct feature_row noise_row(enum detect_layer layer, uint64_t second, uint64_t *seed)
{
	struct feature_row row = {.start_ns = second * SIM_SECOND,
				  .end_ns = (second + 1) * SIM_SECOND,
				  .layer = layer,
				  .pid = 1,
				  .gpu = -1,
				  .regime = 1,
				  .events = 100};
	double common = random_normal(seed);
	for (size_t f = 0; f < FEATURES_MOST; f++)
		row.x[f] = f < 4 ? 0.1 * (common + random_normal(seed)) : NAN;
	return row;
}

static void noise_model(struct model *m, uint64_t seed)
{
	enum { ROWS = 1800 };
	static struct feature_row rows[ROWS];
	struct err e = {0};
	model_init(m);
	m->window_ns = SIM_SECOND;
	m->regimes.len = 0;
	vec_push(&m->regimes);
	for (size_t l = 0; l < 3; l++) {
		for (uint64_t i = 0; i < ROWS; i++)
			rows[i] = noise_row(sharing[l], 1000 + i, &seed);
		struct learn_mixture_options o = {0};
		assert_int_equal(
			learn_mixture(&m->layers[sharing[l]], sharing[l], rows, ROWS, &o, &e), 0);
	}
}

/* Rows of a file come layer by layer. Each has its share of the alarms, over several models. */
static void layers_share_the_alarms(void **state)
{
	(void)state;
	enum { MODELS = 8, HOURS = 4, ASKED = 6 };
	memset(told_of, 0, sizeof(told_of));
	for (uint64_t seed = 1; seed <= MODELS; seed++) {
		struct model m;
		uint64_t random = 100 * seed;
		noise_model(&m, seed);
		m.recordings = 1000;
		struct detector *d =
			detector_new(&(struct detector_options){.model = &m,
								.alarms_per_hour = ASKED,
								.least_effect = NO_EFFECT,
								.whole = true,
								.tell = count_told});
		d->last_event_ns = UINT64_MAX; /* rows alone: none of them ends early */
		for (size_t l = 0; l < 3; l++)
			for (uint64_t i = 0; i < HOURS * 3600; i++) {
				struct feature_row row = noise_row(sharing[l], 10000 + i, &random);
				detector_row(d, &row);
			}
		detector_end(d);
		detector_free(d);
		model_free(&m);
	}
	size_t whole = 0;
	const double asked = MODELS * HOURS * ASKED;
	for (size_t l = 0; l < 3; l++) {
		double of_layer = (double)told_of[sharing[l]];
		whole += told_of[sharing[l]];
		if (of_layer < asked / 3 / 3 || of_layer > asked / 3 * 2)
			fail_msg("%g alarms of layer %d of %g", of_layer, sharing[l], asked / 3);
	}
	if ((double)whole < asked / 2 || (double)whole > asked * 2)
		fail_msg("%zu alarms of %g", whole, asked);
	if (getenv("EACGM_TEST_TELL"))
		print_message("%zu + %zu + %zu alarms of %g\n", told_of[sharing[0]],
			      told_of[sharing[1]], told_of[sharing[2]], asked);
}

/* The second of that number, of which two features are known. */
static struct feature_row row_of_two(size_t i, uint64_t *seed)
{
	struct feature_row ret = {.start_ns = i * SIM_SECOND,
				  .end_ns = (i + 1) * SIM_SECOND,
				  .layer = DETECT_TORCH,
				  .pid = 1,
				  .gpu = -1,
				  .regime = 1};
	for (size_t f = 0; f < FEATURES_MOST; f++)
		ret.x[f] = f < 2 ? 0.05 * random_normal(seed) : NAN;
	return ret;
}

/* A tenth of the rows is far out: p of such a row, by the mixture that is made of them. */
static double p_of_far_row(bool scattered)
{
	enum { ROWS = 300 };
	struct feature_row *rows = xcalloc(ROWS, sizeof(*rows));
	struct learn_mixture_options o = {.seed = 1, .components = 1};
	struct model_mixture m = {0};
	struct explained x;
	struct err e = {0};
	uint64_t seed = 3;
	for (size_t i = 0; i < ROWS; i++) {
		bool far = scattered ? i % 10 == 5 : i >= 200 && i < 230;
		rows[i] = row_of_two(i, &seed);
		rows[i].x[0] += far ? 1 : 0;
	}
	struct feature_row row = rows[205];
	row.x[0] = 1;
	row.x[1] = 0;
	assert_int_equal(learn_mixture(&m, DETECT_TORCH, rows, ROWS, &o, &e), 0);
	explain_row(&x, &m, DETECT_TORCH, row.x);
	double p = tail_p(&m.tail, x.score);
	learn_mixture_free(&m);
	free(rows);
	return p;
}

/* Its place in the distance is that of what is usual, which no component need be near. */
static void what_is_not_known_explains_nothing(void **state)
{
	enum { ROWS = 300 };
	(void)state;
	struct feature_row *rows = xcalloc(ROWS, sizeof(*rows));
	struct learn_mixture_options o = {.seed = 1, .components = 2};
	struct model_mixture m = {0};
	struct explained x;
	struct err e = {0};
	uint64_t seed = 3;
	for (size_t i = 0; i < ROWS; i++) {
		rows[i] = row_of_two(i, &seed);
		for (size_t f = 0; f < 2; f++)
			rows[i].x[f] += i % 2 ? 3 : 0;
	}
	struct feature_row row = rows[1];
	row.x[0] = 3.3;
	row.x[1] = NAN;
	assert_int_equal(learn_mixture(&m, DETECT_TORCH, rows, ROWS, &o, &e), 0);
	explain_row(&x, &m, DETECT_TORCH, row.x);
	assert_true(x.shares[0] > 0);
	assert_true(x.shares[1] == 0);
	learn_mixture_free(&m);
	free(rows);
}

/* What lasts is a fault; what comes back for a row each time is normal, though as many rows are. */
static void scattered_rows_are_no_fault(void **state)
{
	(void)state;
	assert_true(p_of_far_row(false) < 1e-4);
	assert_true(p_of_far_row(true) > 0.01);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_are_found),
		cmocka_unit_test(named_layers_are_judged),
		cmocka_unit_test(scattered_rows_are_no_fault),
		cmocka_unit_test(what_is_not_known_explains_nothing),
		cmocka_unit_test(streams_and_files_tell_the_same),
		cmocka_unit_test(events_are_marked),
		cmocka_unit_test(events_of_the_warmup_are_not),
		cmocka_unit_test(benign_changes_do_not_alarm),
		cmocka_unit_test(other_batches_begin_within_windows),
		cmocka_unit_test(other_batches_come_again),
		cmocka_unit_test(drift_is_followed),
		cmocka_unit_test(clean_running_alarms_as_asked),
		cmocka_unit_test(processes_are_forgotten),
		cmocka_unit_test(without_a_model),
		cmocka_unit_test(without_calls),
		cmocka_unit_test(what_is_learned_stays_as_wide),
		cmocka_unit_test(layers_share_the_alarms),
	};
	return cmocka_run_group_tests(tests, make_models, free_models);
}
