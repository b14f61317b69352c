/* steps_test.c - steps that are found in recordings made by hand, against where they were put.
 *
 * A recording is written as a text of words, one call each, as word() reads them; "|" is where one
 * step ends and the next begins. What is found must end and begin at exactly those operations.
 * links: analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/types.h>

#include <cmocka.h>

#include "analyze/steps.h"
#include "base/map64.h"
#include "recording/recording.h"
#include "wire/event.h"
#include "made_file.h"

#define US  1000ULL
#define GAP (2 * US) /* between calls */

/* ---- writing ---- */

struct put {
	uint64_t start_ns, end_ns;
};

#define POOL 4

struct job {
	struct rec_writer *w;
	struct map64 probes; /* hash of a word's name -> probe */
	uint32_t thread, engine, pool[POOL];
	uint32_t next_of_pool;
	uint64_t now;
	uint64_t last_end; /* of the last call on the main thread */
	bool begins;	   /* the next call is the first of a step */
	VEC(struct put) steps;
};

/* A process with a thread, autograd's own and a pool of others: pid and tids are 10 * number and
 * the next. */
static void process_put(struct job *j, uint32_t number, uint32_t parent, bool exited)
{
	uint32_t pid = 10 * number;
	j->thread = rec_add_thread(j->w, &(struct m_thread){pid, pid, 0});
	j->engine = rec_add_thread(j->w, &(struct m_thread){pid, pid + 1, 0});
	for (uint32_t i = 0; i < POOL; i++)
		j->pool[i] = rec_add_thread(j->w, &(struct m_thread){pid, pid + 2 + i, 0});
	rec_put_process(j->w, &(struct m_process){.pid = pid,
						  .parent_pid = parent,
						  .start_ns = 1,
						  .end_ns = exited ? 1ULL << 60 : 0,
						  .rank = -1});
}

static struct job created(bool exited)
{
	struct job j = {.now = 1000 * US};
	struct err e = {0};
	if (rec_writer_open(&j.w, path, NULL, &e))
		fail_msg("%s", e.msg);
	process_put(&j, 1, 1, exited);
	return j;
}

static uint32_t probe_of(struct job *j, const char *layer, const char *name, const char *role,
			 const char *arg, bool instant)
{
	char all[256];
	snprintf(all, sizeof(all), "%s %s %s", layer, name, role);
	uint64_t key = hash_bytes(all, strlen(all)), number;
	if (map64_get(&j->probes, key, &number))
		return (uint32_t)number;
	struct m_probe row = {.kind = instant ? SITE_INSTANT : SITE_SPAN, .name_arg = -1};
	row.layer = rec_string_z(j->w, layer);
	row.name = rec_string_z(j->w, name);
	row.role = rec_string_z(j->w, role);
	if (arg) {
		row.nargs = 1;
		row.name_arg = 0;
		row.arg_names[0] = rec_string_z(j->w, arg);
		row.arg_types[0] = ARG_TYPE_STRING;
	}
	number = rec_add_probe(j->w, &row);
	map64_set(&j->probes, key, number);
	return (uint32_t)number;
}

static void call_put(struct job *j, uint32_t thread, uint32_t probe, const char *arg, uint64_t dur)
{
	struct m_call c = {.start_ns = j->now, .dur_ns = dur, .thread = thread, .probe = probe};
	if (arg) {
		c.nargs = 1;
		c.args[0] = rec_string_z(j->w, arg);
	}
	if (!dur)
		c.flags = CALL_INSTANT;
	rec_put_calls(j->w, &c, 1);
	if (thread == j->thread) {
		if (j->begins)
			vec_push(&j->steps)->start_ns = j->now;
		j->begins = false;
		j->last_end = j->now + dur;
	}
	j->now += dur + GAP;
}

/* "|" ends a step, "(" begins one behind what is none; "=300" is a pause of 300 us. Calls:
 * "linear", an operator, of 5 us, or of 70 us as "linear:70"; "backward";
 * "@Optimizer.step#SGD.step", a range's mark; "k.name" a launch, "e.name" one on autograd's thread,
 * "p.name" one of the pool's, by turns, "g.name" that of a graph; "dtoh", "sync", "allreduce" of
 * the device. */
static void word(struct job *j, char *name)
{
	char *colon = strchr(name, ':'), text[128];
	uint64_t dur = 5 * US;
	if (colon) {
		*colon = 0;
		dur = strtoull(colon + 1, NULL, 10) * US;
	}
	if (!strcmp(name, "|") || !strcmp(name, "(")) {
		if (*name == '|')
			j->steps.data[j->steps.len - 1].end_ns = j->last_end;
		j->begins = true;
	} else if (*name == '=') {
		j->now += strtoull(name + 1, NULL, 10) * US;
	} else if (*name == '@') {
		call_put(j, j->thread, probe_of(j, "torch", "range", "", "name", true), name + 1,
			 0);
	} else if (!strncmp(name, "k.", 2) || !strncmp(name, "e.", 2)) {
		call_put(j, *name == 'k' ? j->thread : j->engine,
			 probe_of(j, "cuda", "cuLaunchKernel", "launch", "kernel", false), name + 2,
			 dur);
	} else if (!strncmp(name, "p.", 2)) {
		call_put(j, j->pool[j->next_of_pool++ % POOL],
			 probe_of(j, "cuda", "cuLaunchKernel", "launch", "kernel", false), name + 2,
			 dur);
	} else if (!strncmp(name, "g.", 2)) {
		call_put(j, j->thread,
			 probe_of(j, "cuda", "cuGraphLaunch", "graph_launch", "graph_exec", false),
			 name + 2, dur);
	} else if (!strcmp(name, "dtoh")) {
		call_put(j, j->thread, probe_of(j, "cuda", "copy", "copy_dtoh", NULL, false), NULL,
			 dur);
	} else if (!strcmp(name, "sync")) {
		call_put(j, j->thread, probe_of(j, "cuda", "sync", "sync", NULL, false), NULL, dur);
	} else if (!strcmp(name, "allreduce")) {
		call_put(j, j->thread,
			 probe_of(j, "nccl", "ncclAllReduce", "collective", NULL, false), NULL,
			 dur);
	} else {
		bool backward = !strcmp(name, "backward");
		snprintf(text, sizeof(text), "%s%s", backward ? "" : "aten::", name);
		call_put(j, j->thread,
			 probe_of(j, "torch", text, backward ? "backward" : "", NULL, false), NULL,
			 backward ? 20 * US : dur);
	}
}

static void play(struct job *j, const char *text)
{
	char *copy = xstrdup(text), *rest = copy, *next;
	while ((next = strsep(&rest, " ")))
		if (*next)
			word(j, next);
	free(copy);
}

static void play_often(struct job *j, unsigned times, const char *text)
{
	for (unsigned i = 0; i < times; i++)
		play(j, text);
}

/* ---- reading ---- */

static struct rec_reader *reader;

static struct steps found(struct job *j)
{
	struct err e = {0};
	struct steps s;
	if (rec_writer_close(j->w, false, &e) || rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	steps_make(&s, rec_source(reader), &(struct steps_options){0});
	return s;
}

static void done(struct job *j, struct steps *s)
{
	steps_free(s);
	rec_close(reader);
	map64_free(&j->probes);
	vec_free(&j->steps);
}

/* The phases of each step make up its time. */
static void check_phases(const struct steps_process *p)
{
	for (size_t i = 0; i < p->steps.len; i++) {
		uint64_t sum = 0;
		for (int k = 0; k < STEPS_PHASES; k++)
			sum += p->steps.data[i].phase_ns[k];
		assert_int_equal(sum, p->steps.data[i].end_ns - p->steps.data[i].start_ns);
	}
}

/* A loop's steps are those that were put, from the one numbered first on. */
static void check_loop(const struct job *j, const struct steps_process *p,
		       const struct steps_loop *l, size_t first, size_t n)
{
	assert_int_equal(l->steps, n);
	assert_true(first + n <= j->steps.len);
	for (size_t i = 0; i < n; i++) {
		const struct steps_step *s = &p->steps.data[l->first + i];
		const struct put *want = &j->steps.data[first + i];
		assert_int_equal(s->index, i);
		if (s->end_ns != want->end_ns)
			fail_msg("step %zu ends %+lld ns off", i,
				 (long long)(s->end_ns - want->end_ns));
		/* Where nothing lies between, it begins when the one before it ended. */
		if (s->start_ns > want->start_ns ||
		    (i && s->start_ns < j->steps.data[first + i - 1].end_ns))
			fail_msg("step %zu begins %+lld ns off", i,
				 (long long)(s->start_ns - want->start_ns));
	}
	if (p->steps.data[l->first].start_ns < j->steps.data[first].start_ns)
		fail_msg("the first step begins too early");
	check_phases(p);
}

/* All steps that were put, and no others, in the one loop of the one process. */
static void check_all(struct job *j, enum steps_kind kind)
{
	struct steps s = found(j);
	assert_int_equal(s.processes.len, 1);
	assert_int_equal(s.main, 0);
	const struct steps_process *p = &s.processes.data[0];
	assert_int_equal(p->loops.len, 1);
	assert_int_equal(p->loops.data[0].kind, kind);
	check_loop(j, p, &p->loops.data[0], 0, j->steps.len);
	done(j, &s);
}

static void check_none(struct job *j)
{
	struct steps s = found(j);
	assert_int_equal(s.main, SIZE_MAX);
	done(j, &s);
}

#define SETUP	"empty uniform_ empty uniform_ zeros detach_ copy_ copy_ "
#define FORWARD "embedding linear relu linear relu linear cross_entropy_loss "
#define ADAM	"mul_ add_ addcmul_ sqrt div add_ addcdiv_ "
#define UPDATE	ADAM ADAM ADAM
#define FOREACH                                                                                    \
	"@Optimizer.step#AdamW.step _foreach_add_ _foreach_mul_ _foreach_lerp_ _foreach_addcdiv_ "

/* ---- training ---- */

static void updates_end_steps(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	play_often(&j, 20, FORWARD "backward " UPDATE "| ");
	check_all(&j, STEPS_TRAINING);
}

static void marks_of_optimizers_end_steps(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	play_often(&j, 20,
		   FORWARD "backward linalg_vector_norm stack _foreach_mul_ " FOREACH
			   "@Optimizer.zero_grad#AdamW.zero_grad | ");
	check_all(&j, STEPS_TRAINING);
}

/* The first update makes the optimizer's state: other operations, and fewer. */
static void the_first_update_may_differ(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( " FORWARD "backward clone add_ clone add_ clone add_ | ");
	play_often(&j, 20, FORWARD "backward mul_ add_ add_ mul_ add_ add_ mul_ add_ add_ | ");
	check_all(&j, STEPS_TRAINING);
}

static void gradients_are_accumulated(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	for (int i = 0; i < 15; i++) {
		play_often(&j, 4, FORWARD "div backward ");
		play(&j, UPDATE "| ");
	}
	check_all(&j, STEPS_TRAINING);
}

static void check_number(struct job *j, size_t n)
{
	struct steps s = found(j);
	const struct steps_loop *l = &s.processes.data[0].loops.data[0];
	assert_int_equal(l->kind, STEPS_TRAINING);
	assert_int_equal(l->steps, n);
	done(j, &s);
}

/* A batch ramp: more batches for an update as training goes on. */
static void more_batches_are_accumulated(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	for (int i = 0; i < 60; i++) {
		play_often(&j, i < 40 ? 2 : 32, FORWARD "div backward ");
		play(&j, UPDATE "| ");
	}
	check_number(&j, 60);
}

/* Steps that change much in place for a while are no updates among passes without: what comes
 * before and after them are steps as well. */
static void a_stretch_does_more_in_place(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	play_often(&j, 30, FORWARD "backward " UPDATE "| ");
	for (int i = 0; i < 8; i++) {
		play(&j, FORWARD);
		play_often(&j, 40, "add_ mul_ ");
		play(&j, "linear backward " UPDATE "| ");
	}
	play_often(&j, 30, FORWARD "backward " UPDATE "| ");
	check_all(&j, STEPS_TRAINING);
}

/* One step in eight does it, for a while: that is no update of gradients that were accumulated. */
static void some_steps_of_a_stretch_do_more_in_place(void **state)
{
	(void)state;
	for (int batches = 1; batches <= 4; batches += 3) {
		struct job j = created(true);
		play(&j, SETUP "( ");
		for (int i = 0; i < 150; i++) {
			for (int k = 0; k < batches; k++) {
				play(&j, FORWARD);
				if (i > 60 && i < 100 && i % 8 == 0 && !k)
					play_often(&j, 40, "add_ mul_ ");
				play(&j, "linear backward ");
			}
			play(&j, UPDATE "| ");
		}
		check_all(&j, STEPS_TRAINING);
	}
}

/* Losses are summed up in place, in each batch of an evaluation at the end of each epoch. */
static void evaluations_do_more_in_place(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP);
	for (int epoch = 0; epoch < 5; epoch++) {
		play(&j, "( ");
		play_often(&j, 100, FORWARD "backward " UPDATE "| ");
		j.begins = false;
		play_often(&j, 30, FORWARD "add_ add_ add_ ");
	}
	check_number(&j, 500);
}

/* Copies to the device begin a step, gradients are set to zero there. */
static void batches_are_loaded(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "item ( ");
	play_often(&j, 20,
		   "@enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__ =90 copy_ "
		   "copy_ conv2d add_ relu conv2d add_ relu cross_entropy_loss "
		   "@Optimizer.zero_grad#SGD.zero_grad backward @Optimizer.step#SGD.step "
		   "_foreach_mul_ _foreach_add_ | ");
	play(&j, "@enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__");
	struct steps s = found(&j);
	const struct steps_process *p = &s.processes.data[0];
	assert_int_equal(p->loops.len, 1);
	const struct steps_loop *l = &p->loops.data[0];
	check_loop(&j, p, l, 0, 20);
	/* The wait and two copies. */
	assert_int_equal(l->phase_median_ns[STEPS_LOAD], 90 * US + 2 * 5 * US + 3 * GAP);
	assert_int_equal(l->phase_median_ns[STEPS_BACKWARD], 20 * US + GAP);
	assert_int_equal(l->phase_median_ns[STEPS_OPTIMIZER], 2 * 5 * US + 4 * GAP);
	done(&j, &s);
}

static double phase_ms(const struct steps_loop *l, enum steps_phase phase)
{
	return l->phase_mean_ns[phase] / 1e6;
}

/* Batches come through something that has no mark: what the host waits for in front of the model
 * is load, with gradients reset behind the update, in front of the model, or of the pass. */
static void waits_in_front_of_the_model_are_load(void **state)
{
	(void)state;
	static const char *const steps[] = {
		"( =16000 detach_ set_ linear relu linear cross_entropy_loss backward " UPDATE
		"zeros zero_ zero_ zero_ | ",
		"( =16000 zeros zero_ zero_ zero_ linear relu linear cross_entropy_loss "
		"backward " UPDATE "| ",
		"( =16000 linear relu linear cross_entropy_loss zeros zero_ zero_ zero_ "
		"backward " UPDATE "| "};
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct job j = created(true);
		play(&j, SETUP);
		play_often(&j, 20, steps[i]);
		struct steps s = found(&j);
		const struct steps_process *p = &s.processes.data[0];
		const struct steps_loop *l = &p->loops.data[0];
		check_loop(&j, p, l, 0, 20);
		/* The first step's wait has no beginning. */
		assert_float_equal(phase_ms(l, STEPS_LOAD), 16.0 * 19 / 20, 0.1);
		assert_float_equal(phase_ms(l, STEPS_OPTIMIZER), 0.17, 0.02);
		done(&j, &s);
	}
}

/* Samples are made by operations in the same thread, one after the other. */
static void making_batches_is_load(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	for (int i = 0; i < 20; i++) {
		play_often(&j, 8, "full =1900 permute:100 ");
		play(&j, "stack zeros zero_ zero_ linear relu linear cross_entropy_loss backward ");
		play(&j, "add_ add_ add_ | ");
	}
	struct steps s = found(&j);
	const struct steps_process *p = &s.processes.data[0];
	const struct steps_loop *l = &p->loops.data[0];
	check_loop(&j, p, l, 0, 20);
	assert_float_equal(phase_ms(l, STEPS_LOAD), 16.1, 0.1);
	done(&j, &s);
}

/* Each of the batches whose gradients are accumulated is waited for. */
static void every_accumulated_batch_is_loaded(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	for (int i = 0; i < 15; i++) {
		play_often(&j, 4, "=3000 detach_ set_ " FORWARD "div backward ");
		play(&j, UPDATE "| ");
	}
	struct steps s = found(&j);
	const struct steps_process *p = &s.processes.data[0];
	const struct steps_loop *l = &p->loops.data[0];
	check_loop(&j, p, l, 0, 15);
	assert_float_equal(phase_ms(l, STEPS_LOAD), 12 - 3.0 / 15, 0.1);
	assert_float_equal(phase_ms(l, STEPS_FORWARD), 0.2, 0.1);
	done(&j, &s);
}

/* What follows the update is none of the phases before; so is what precedes PyTorch's mark of the
 * next batch. */
static void what_follows_the_update_is_apart(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	play_often(
		&j, 20,
		"@enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__ =8000 set_ " FORWARD
		"backward " FOREACH "=500 item | =3000 ");
	struct steps s = found(&j);
	const struct steps_process *p = &s.processes.data[0];
	const struct steps_loop *l = &p->loops.data[0];
	check_loop(&j, p, l, 0, 20);
	assert_float_equal(phase_ms(l, STEPS_LOAD), 8, 0.05);
	assert_float_equal(phase_ms(l, STEPS_OTHER), 0.5 + 3.0 * 19 / 20, 0.05);
	done(&j, &s);
}

/* A pause in which the thread waits from `before` on until `waker` ends it. */
static void wait_put(struct job *j, uint64_t before, uint64_t us, uint32_t waker)
{
	uint64_t start = j->now + before * US;
	rec_put_wait(j->w, &(struct m_wait){.start_ns = start,
					    .end_ns = start + us * US,
					    .thread = j->thread,
					    .syscall = -1,
					    .waker_pid = waker,
					    .waker_tid = waker,
					    .reason = WAIT_POLL});
	j->now = start + us * US;
}

/* Where children end the waits they make the batches: what the host does before is not for it, and
 * a wait for them is load in the midst of a step too. Where nobody does, all of it is. */
static void who_ends_waits_tells_load(void **state)
{
	(void)state;
	for (int children = 0; children < 2; children++) {
		struct job j = created(true);
		rec_put_process(j.w,
				&(struct m_process){
					.pid = 70, .parent_pid = 10, .start_ns = 1, .rank = -1});
		play(&j, SETUP "( ");
		for (int i = 0; i < 20; i++) {
			wait_put(&j, 3000, 8000, children ? 70 : 999);
			play(&j, FORWARD);
			wait_put(&j, 0, 1000, children ? 70 : 999);
			play(&j, "linear cross_entropy_loss backward " UPDATE "| ");
		}
		struct steps s = found(&j);
		const struct steps_process *p = &s.processes.data[0];
		const struct steps_loop *l = &p->loops.data[0];
		check_loop(&j, p, l, 0, 20);
		assert_float_equal(phase_ms(l, STEPS_OTHER), children ? 3.0 * 19 / 20 : 0, 0.02);
		assert_float_equal(phase_ms(l, STEPS_LOAD),
				   children ? 8.0 * 19 / 20 + 1 : 11.0 * 19 / 20, 0.02);
		done(&j, &s);
	}
}

/* Phases that alternate have a median that no step's time is made of: means add up to it. */
static void means_of_phases_add_up(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	for (int i = 0; i < 40; i++)
		play(&j, i % 4 ? FORWARD "backward " UPDATE "| "
			       : "=40000 " FORWARD "backward " UPDATE "| ");
	struct steps s = found(&j);
	const struct steps_loop *l = &s.processes.data[0].loops.data[0];
	double sum = 0;
	for (int i = 0; i < STEPS_PHASES; i++)
		sum += l->phase_mean_ns[i];
	assert_float_equal(sum, l->mean_ns, 1);
	assert_float_equal(phase_ms(l, STEPS_LOAD), 9, 0.1);
	assert_true(l->phase_median_ns[STEPS_LOAD] < 10 * US);
	done(&j, &s);
}

static void other_ranks_are_told(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	play_often(&j, 20,
		   "@DistributedDataParallel.forward " FORWARD "backward " FOREACH
		   "copy_ allreduce | ");
	struct steps s = found(&j);
	const struct steps_process *p = &s.processes.data[0];
	check_loop(&j, p, &p->loops.data[0], 0, 20);
	assert_int_equal(p->loops.data[0].phase_median_ns[STEPS_COMMUNICATION], 5 * US + GAP);
	done(&j, &s);
}

static void evaluations_lie_between_steps(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP);
	for (int i = 0; i < 4; i++) {
		play(&j, "( ");
		play_often(&j, 6, FORWARD "backward " UPDATE "| ");
		j.begins = false;
		play_often(&j, 3, FORWARD);
	}
	struct steps s = found(&j);
	const struct steps_process *p = &s.processes.data[0];
	assert_int_equal(p->loops.len, 2);
	check_loop(&j, p, &p->loops.data[0], 0, 24);
	assert_int_equal(p->loops.data[0].stretches, 4);
	assert_int_equal(p->loops.data[1].kind, STEPS_EVALUATION);
	assert_int_equal(p->loops.data[1].steps, 12);
	assert_int_equal(p->loops.data[1].stretches, 4);
	assert_ptr_equal(steps_main_loop(p), &p->loops.data[0]);
	done(&j, &s);
}

/* Tensors that are made for a loader precede the first batch, and two batches' may come at once. */
static void batches_of_evaluations_are_counted(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP);
	for (int i = 0; i < 4; i++) {
		play(&j, "zeros =9000 random_ item =4000 zeros ( ");
		play_often(&j, 6, "set_ " FORWARD "backward " UPDATE "| ");
		j.begins = false;
		play(&j, "zeros random_ item =5000 zeros ");
		play(&j, "set_ set_ linear relu linear argmax sum item ");
		play(&j, "linear relu linear argmax sum item ");
		play_often(&j, 3, "set_ linear relu linear argmax sum item ");
	}
	struct steps s = found(&j);
	const struct steps_process *p = &s.processes.data[0];
	assert_int_equal(p->loops.data[0].steps, 24);
	assert_int_equal(p->loops.data[1].kind, STEPS_EVALUATION);
	assert_int_equal(p->loops.data[1].steps, 20);
	/* Making the loader is of the first batch, and of the first step behind an evaluation. */
	assert_float_equal(phase_ms(&p->loops.data[0], STEPS_LOAD), 13.0 * 3 / 24, 0.1);
	assert_float_equal(phase_ms(&p->loops.data[1], STEPS_LOAD), 1, 0.1);
	done(&j, &s);
}

/* A value is read now and then: no step is lost or added. */
static void logs_are_no_steps(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	for (int i = 0; i < 40; i++)
		play(&j, i % 10 == 9 ? FORWARD "backward " UPDATE "item | =50"
				     : FORWARD "backward " UPDATE "| =50");
	check_all(&j, STEPS_TRAINING);
}

static void two_optimizers_take_turns(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	play_often(&j, 20,
		   "randn linear linear sigmoid backward " ADAM ADAM
		   "linear relu sigmoid backward " ADAM "| ");
	check_all(&j, STEPS_TRAINING);
}

static void batches_of_two_kinds_take_turns(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	play_often(&j, 10,
		   "randn linear relu linear mean backward " UPDATE
		   "| randn tanh layer_norm square mean backward " UPDATE "| ");
	check_all(&j, STEPS_TRAINING);
}

/* Two workers' batches arrive in pairs, and making tensors of them stands behind the update: every
 * other one looks longer. */
static void batches_that_arrive_in_pairs_take_no_turns(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	play_often(&j, 20,
		   "zero_ zero_ linear relu linear cross_entropy_loss backward zeros add_ add_ "
		   "zeros | zeros zero_ zero_ linear relu linear cross_entropy_loss backward zeros "
		   "add_ add_ zeros detach_ set_ detach_ set_ | ");
	struct steps s = found(&j);
	assert_int_equal(s.processes.data[0].loops.len, 1);
	assert_in_range(s.processes.data[0].loops.data[0].steps, 39, 40);
	done(&j, &s);
}

/* ---- inference ---- */

#define LAYER "layer_norm linear scaled_dot_product_attention linear add gelu linear add "

/* The layers repeat as well, and more often. */
static void tokens_are_steps(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	for (int i = 0; i < 30; i++) {
		play(&j, "arange embedding embedding add ");
		play_often(&j, 12, i ? LAYER "cat " : LAYER);
		play(&j, "layer_norm linear softmax multinomial item | ");
	}
	check_all(&j, STEPS_INFERENCE);
}

/* What comes once a layer comes at the token's ends as well: fourteen times a token, at the same
 * distances. The token is known by the value that is read in each. */
static void layers_in_step_are_no_steps(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	for (int i = 0; i < 30; i++) {
		play(&j, "embedding neg ");
		play_often(&j, 5, "mul cos sin add linear mul ");
		for (int k = 0; k < 12; k++) {
			play(&j, "neg scaled_dot_product_attention silu ");
			play_often(&j, 6, "mul pow mean rsqrt linear add ");
			play(&j, "cat ");
		}
		play(&j, "neg ");
		play_often(&j, 5, "mul pow mean rsqrt linear sort ");
		play(&j, "softmax multinomial is_nonzero | ");
	}
	check_all(&j, STEPS_INFERENCE);
}

static void tokens_of_requests_are_steps(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP);
	for (int i = 0; i < 8; i++) {
		j.begins = false;
		play(&j, "randint ( ");
		play_often(&j, 6, "embedding " LAYER LAYER "argmax item | ");
	}
	j.begins = false;
	struct steps s = found(&j);
	const struct steps_process *p = &s.processes.data[0];
	assert_int_equal(p->loops.len, 1);
	check_loop(&j, p, &p->loops.data[0], 0, 48);
	done(&j, &s);
}

static void one_operation_is_a_step(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, "randn eye ( ");
	play_often(&j, 30, "mm | ");
	check_all(&j, STEPS_INFERENCE);
}

/* ---- launches alone ---- */

static void launches_of_training(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, "k.fill k.fill k.init k.fill ( ");
	play_often(&j, 20,
		   "k.gather k.gemm k.relu k.gemm k.loss e.loss_grad e.gemm e.relu_grad e.gemm "
		   "e.gather_grad k.multi_tensor_apply_kernel k.multi_tensor_apply_kernel | ");
	struct steps s = found(&j);
	const struct steps_process *p = &s.processes.data[0];
	assert_true(p->from_launches);
	assert_int_equal(p->loops.len, 1);
	assert_int_equal(p->loops.data[0].kind, STEPS_TRAINING);
	check_loop(&j, p, &p->loops.data[0], 0, 20);
	assert_int_equal(p->steps.data[3].launches, 12);
	done(&j, &s);
}

/* No kernel's name tells of an update. */
static void launches_of_accumulation(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, "k.fill k.fill k.init k.fill ( ");
	for (int i = 0; i < 12; i++) {
		play_often(&j, 4,
			   "k.gather k.gemm k.relu k.gemm k.loss e.loss_grad e.gemm e.relu_grad "
			   "e.gemm e.gather_grad ");
		play(&j, "k.elementwise k.elementwise k.elementwise k.other | ");
	}
	check_all(&j, STEPS_TRAINING);
}

/* JAX makes its graphs anew when it has loaded another program: the step has another handle. An
 * evaluation that comes at the end takes longer, and is no such step. */
static void graphs_that_are_made_anew(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, "k.fill k.fill k.fill ( ");
	play_often(&j, 40, "g.a:50 | ");
	play_often(&j, 25, "g.b:55 | ");
	play_often(&j, 30, "g.c:48 | ");
	check_all(&j, STEPS_INFERENCE);

	struct job two = created(true);
	play_often(&two, 40, "g.a:50 ");
	play_often(&two, 40, "g.b:150 ");
	struct steps s = found(&two);
	assert_int_equal(s.processes.data[0].loops.len, 2);
	done(&two, &s);
}

/* Three graphs a step. */
static void several_graphs_that_are_made_anew(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, "k.fill k.fill k.fill ( ");
	play_often(&j, 40, "g.a:50 g.b:20 g.c:30 dtoh | ");
	play_often(&j, 40, "g.d:50 g.e:20 g.f:30 dtoh | ");
	check_all(&j, STEPS_INFERENCE);
}

/* Autograd has a thread for each GPU. */
static void launches_of_many_backward_threads(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, "k.fill k.fill k.init k.fill ( ");
	play_often(&j, 20,
		   "k.gather k.gemm k.relu k.gemm k.loss p.loss_grad p.gemm p.relu_grad p.gemm "
		   "p.loss_grad p.gemm p.relu_grad p.gemm p.loss_grad p.gemm p.relu_grad p.gemm "
		   "p.loss_grad p.gemm p.relu_grad p.gemm p.gather_grad p.loss_grad p.gemm "
		   "p.relu_grad p.gemm k.multi_tensor_apply_kernel k.multi_tensor_apply_kernel | ");
	struct steps s = found(&j);
	assert_int_equal(s.processes.data[0].loops.data[0].kind, STEPS_TRAINING);
	assert_int_equal(s.processes.data[0].loops.data[0].steps, 20);
	done(&j, &s);
}

/* JAX meets a new size now and then: its threads try kernels while the step waits, which is no
 * backward pass. */
static void launches_while_compiling(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, "k.fill k.fill k.fill ( ");
	for (int i = 0; i < 4; i++) {
		play_often(&j, 400, "k.broadcast g.step dtoh | ");
		play(&j, "k.broadcast ");
		play_often(&j, 64, "p.gemm p.fusion p.gemm:20 ");
		play(&j, "g.step dtoh | ");
	}
	check_all(&j, STEPS_INFERENCE);
}

static void launches_of_tokens(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, "k.fill k.fill k.fill ( ");
	for (int i = 0; i < 30; i++) {
		play(&j, "k.gather ");
		play_often(&j, 24, "k.norm k.gemv k.attention k.gemv k.add k.gemv k.act k.gemv ");
		play(&j, i % 5 ? "k.norm k.gemv k.sample dtoh sync | "
			       : "k.norm k.gemv k.split k.sample dtoh sync | ");
	}
	check_all(&j, STEPS_INFERENCE);
}

/* ---- parts of a loop ---- */

static void cut_recordings(void **state)
{
	(void)state;
	static const char *const begins[] = {"relu linear cross_entropy_loss backward " UPDATE,
					     "addcmul_ sqrt " ADAM, "backward " UPDATE,
					     "cross_entropy_loss backward " UPDATE};
	static const char *const ends[] = {FORWARD, "embedding", FORWARD "backward ",
					   FORWARD "backward " ADAM};
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		struct job j = created(false);
		play(&j, begins[i]);
		play(&j, "( ");
		play_often(&j, 15, FORWARD "backward " UPDATE "| ");
		j.begins = false;
		play(&j, ends[i]);
		struct steps s = found(&j);
		const struct steps_process *p = &s.processes.data[0];
		assert_int_equal(p->loops.len, 1);
		check_loop(&j, p, &p->loops.data[0], 0, 15);
		done(&j, &s);
	}
}

/* Of what ran when the probes came only the inner operations are told. */
static void a_job_that_was_joined(void **state)
{
	(void)state;
	struct job j = created(false);
	rec_put_process(j.w,
			&(struct m_process){.pid = 10, .start_ns = 1, .rank = -1, .joined = true});
	play(&j, "addmm relu linear relu linear cross_entropy_loss backward " UPDATE "( ");
	play_often(&j, 15, FORWARD "backward " UPDATE "| ");
	struct steps s = found(&j);
	check_loop(&j, &s.processes.data[0], &s.processes.data[0].loops.data[0], 0, 15);
	done(&j, &s);
}

/* It begins within an operation: of that there is only what it calls. Nothing else tells where
 * steps of this kind begin but a value that is read. */
static void evaluation_that_was_joined(void **state)
{
	(void)state;
	struct job j = created(false);
	rec_put_process(j.w,
			&(struct m_process){.pid = 10, .start_ns = 1, .rank = -1, .joined = true});
	play(&j, "addmm relu linear relu linear argmax item ( ");
	play_often(&j, 15, "embedding linear relu linear relu linear argmax item | ");
	struct steps s = found(&j);
	check_loop(&j, &s.processes.data[0], &s.processes.data[0].loops.data[0], 0, 15);
	done(&j, &s);
}

/* Rows that are written behind its end, of waits that had not ended, are of no time in which the
 * job did nothing. */
static void recording_that_ended_within_an_update(void **state)
{
	char text[32];
	(void)state;
	struct job j = created(false);
	play(&j, SETUP "( ");
	play_often(&j, 15, FORWARD "backward " UPDATE "| ");
	j.begins = false;
	play(&j, FORWARD "backward mul_ add_ ");
	snprintf(text, sizeof(text), "%lu", j.now);
	rec_put_meta(j.w, "end_monotonic_ns", text);
	process_put(&j, 2, 1, false);
	j.now += 100 * GAP;
	play(&j, "relu ");
	struct steps s = found(&j);
	check_loop(&j, &s.processes.data[0], &s.processes.data[0].loops.data[0], 0, 15);
	done(&j, &s);
}

/* Probes were off for a while: no step is told that reaches into it. */
static void what_is_not_traced_is_no_slow_step(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	play_often(&j, 15, FORWARD "backward " UPDATE "| ");
	rec_put_window(j.w, &(struct m_window){.start_ns = 1, .end_ns = j.now + 60 * US});
	play(&j, FORWARD "backward ");
	j.now += 3000000 * US;
	rec_put_window(j.w, &(struct m_window){.start_ns = j.now, .end_ns = 1ULL << 60});
	play(&j, "linear cross_entropy_loss backward " UPDATE "| ( ");
	play_often(&j, 15, FORWARD "backward " UPDATE "| ");
	struct steps s = found(&j);
	const struct steps_process *p = &s.processes.data[0];
	assert_int_equal(p->loops.len, 1);
	assert_int_equal(p->loops.data[0].steps, 30);
	assert_int_equal(p->loops.data[0].slow_total, 0);
	assert_true(p->untraced >= 1);
	assert_true(p->loops.data[0].max_ns < 1000 * US);
	done(&j, &s);
}

/* A training of which more calls were counted than are recorded. */
static struct job counted(void)
{
	struct job j = created(true);
	play(&j, SETUP "( ");
	play_often(&j, 20, FORWARD "backward " UPDATE "| ");
	rec_put_hist(j.w, &(struct m_hist){
				  .pid = 10,
				  .probe = probe_of(&j, "torch", "aten::linear", "", NULL, false),
				  .count = 600});
	return j;
}

/* Of calls that are counted, not recorded one by one, some are recorded all the same. */
static void counted_calls_have_no_steps(void **state)
{
	(void)state;
	struct job j = counted();
	struct steps s = found(&j);
	assert_int_equal(s.main, SIZE_MAX);
	assert_true(s.counted);
	done(&j, &s);
}

/* Of a worker that lived while each call was still recorded they would be told as the job's. */
static void what_one_with_counted_calls_started_has_no_steps(void **state)
{
	(void)state;
	struct job j = counted();
	process_put(&j, 2, 10, true);
	play(&j, SETUP "( ");
	play_often(&j, 20, FORWARD "backward " UPDATE "| ");
	process_put(&j, 3, 20, true);
	play(&j, SETUP "( ");
	play_often(&j, 20, FORWARD "backward " UPDATE "| ");
	process_put(&j, 4, 1, true); /* one of another's */
	play(&j, SETUP "( ");
	play_often(&j, 20, FORWARD "backward " UPDATE "| ");
	struct steps s = found(&j);
	assert_int_equal(s.processes.len, 1);
	assert_int_equal(s.processes.data[0].pid, 40);
	done(&j, &s);
}

/* ---- slow steps ---- */

static void slow_steps_are_explained(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, SETUP "( ");
	for (int i = 0; i < 40; i++)
		play(&j, i == 11   ? "embedding linear:900 relu backward " UPDATE "| "
			 : i == 23 ? "embedding linear =700 relu backward " UPDATE "| "
			 : i == 30 ? "=800 embedding linear relu backward " UPDATE "| "
				   : "embedding linear relu backward " UPDATE "| ");
	struct steps s = found(&j);
	const struct steps_process *p = &s.processes.data[0];
	const struct steps_loop *l = &p->loops.data[0];
	check_loop(&j, p, l, 0, 40);
	assert_int_equal(l->slow_total, 3);
	static const struct {
		uint32_t index;
		enum steps_phase phase;
		const char *name;
		bool before;
		int64_t more_ns;
	} want[] = {{11, STEPS_FORWARD, "aten::linear", false, 895000},
		    {30, STEPS_LOAD, "aten::embedding", true, 800000},
		    {23, STEPS_FORWARD, "aten::relu", true, 700000}};
	for (size_t i = 0; i < 3; i++) {
		const struct steps_slow *slow = &l->slow.data[i];
		assert_int_equal(p->steps.data[slow->step].index, want[i].index);
		assert_int_equal(slow->phase, want[i].phase);
		assert_int_equal(slow->phase_more_ns, want[i].more_ns);
		assert_string_equal(slow->causes[0].name, want[i].name);
		assert_int_equal(slow->causes[0].before, want[i].before);
		/* The first step lacks the pause before it, which the mean tells. */
		assert_in_range(slow->causes[0].more_ns, want[i].more_ns, want[i].more_ns + 100);
	}
	done(&j, &s);
}

/* ---- nothing, and several processes ---- */

static void no_order_is_no_loop(void **state)
{
	(void)state;
	static const char *const names[] = {"sin", "cos",  "exp",     "tanh",  "relu", "abs",
					    "mm",  "sqrt", "softmax", "floor", "neg",  "cumsum"};
	struct job j = created(true);
	uint64_t x = 1;
	for (int i = 0; i < 2000; i++) {
		x = hash_u64(x + 1);
		play(&j, names[x % (sizeof(names) / sizeof(names[0]))]);
	}
	check_none(&j);
}

/* How many of them a step has, nobody can tell. */
static void one_kernel_over_and_over_is_no_loop(void **state)
{
	(void)state;
	struct job j = created(true);
	play_often(&j, 100, "k.add ");
	check_none(&j);
}

static void setup_is_no_loop(void **state)
{
	(void)state;
	struct job j = created(true);
	play_often(&j, 50, "empty uniform_ empty uniform_ ");
	check_none(&j);
}

static void empty_recordings_have_no_steps(void **state)
{
	(void)state;
	struct job j = created(true);
	check_none(&j);
	j = created(true);
	play(&j, "backward backward backward");
	check_none(&j);
}

static void check_launches(struct job *j, size_t steps)
{
	struct steps s = found(j);
	const struct steps_process *p = &s.processes.data[s.main];
	assert_int_equal(p->loops.len, 1);
	assert_int_equal(p->loops.data[0].steps, steps);
	assert_int_equal(p->loops.data[0].kind, STEPS_INFERENCE);
	check_phases(p);
	done(j, &s);
}

/* A function that JAX compiled, for each of four batches: then the thread waits for the loss, which
 * others hand to it. Now and then there is an evaluation. */
static void runs_of_a_graph_are_steps(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, "( ");
	for (int i = 0; i < 5; i++) {
		play_often(&j, 60, "g.a =300 g.a =500 g.a =400 g.a | =5000 ");
		play(&j, "g.b =10 g.b =10 g.b =900 ");
	}
	play_often(&j, 60, "g.a =300 g.a =500 g.a =400 g.a | =5000 ");
	check_launches(&j, 360);
}

/* A quota holds the thread back amid steps: as many launches as usual are one. Behind them runs are
 * whole again; one that lacks a launch is a step. */
static void runs_that_are_held_up_are_steps(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, "( ");
	play_often(&j, 100, "g.a =300 g.a =500 g.a =400 g.a | =5000 ");
	play_often(&j, 5,
		   "g.a =9000 g.a =300 g.a =9000 g.a =9000 g.a =500 g.a =9000 "
		   "g.a =9000 g.a =300 g.a =9000 g.a =9000 g.a =9000 g.a =5000 ");
	play_often(&j, 50, "g.a =300 g.a =500 g.a =400 g.a | =5000 ");
	play(&j, "g.a =300 g.a =500 g.a =5000 ");
	play_often(&j, 50, "g.a =300 g.a =500 g.a =400 g.a | =5000 ");
	check_launches(&j, 100 + 15 + 50 + 1 + 50);
}

/* Evenly: each launch is one. */
static void launches_of_a_graph_are_steps(void **state)
{
	(void)state;
	struct job j = created(true);
	play(&j, "( ");
	play_often(&j, 100, "g.a =300 | ");
	play(&j, "g.b ");
	check_launches(&j, 100);
}

/* Many launches of one graph, and then something else each time, as an image that is decoded. */
static void what_follows_launches_marks_the_step(void **state)
{
	(void)state;
	static const char *const marks[] = {"k.decode dtoh", "k.decode", "g.b"};
	for (size_t m = 0; m < sizeof(marks) / sizeof(marks[0]); m++) {
		struct job j = created(true);
		for (int i = 0; i < 60; i++) {
			play_often(&j, 20, "g.a =100 ");
			play(&j, marks[m]);
		}
		check_launches(&j, 60);
	}
}

/* What comes each hundredth launch is an evaluation. */
static void an_evaluation_now_and_then_marks_nothing(void **state)
{
	(void)state;
	struct job j = created(true);
	for (int i = 0; i < 10; i++) {
		play_often(&j, 100, "g.a =100 ");
		play(&j, "g.b =100 ");
	}
	check_launches(&j, 1000);
}

/* As many tokens in each, and pauses until the next one comes: a launch is a step. */
static void requests_are_no_steps(void **state)
{
	(void)state;
	struct job j = created(true);
	char pause[32];
	for (unsigned i = 0; i < 60; i++) {
		play_often(&j, 8, "g.a =100 ");
		snprintf(pause, sizeof(pause), "=%u ", 3000 + i * 7919 % 60000);
		play(&j, pause);
	}
	check_launches(&j, 480);
}

/* Of few runs nobody can tell. */
static void few_runs_are_no_steps(void **state)
{
	(void)state;
	struct job j = created(true);
	for (int i = 0; i < 4; i++) {
		play_often(&j, 8, "g.a =100 ");
		play(&j, "=9000 ");
	}
	check_launches(&j, 32);
}

static void the_process_that_trains_is_the_main_one(void **state)
{
	(void)state;
	struct job j = created(true);
	process_put(&j, 2, 30, true); /* makes batches for the one that trains */
	play_often(&j, 100, "rand rand rand stack:500 set_ ");
	process_put(&j, 3, 1, true);
	play(&j, SETUP "( ");
	play_often(&j, 10, FORWARD "backward " UPDATE "| ");
	struct steps s = found(&j);
	assert_int_equal(s.processes.len, 2);
	const struct steps_process *p = &s.processes.data[s.main];
	assert_int_equal(p->pid, 30);
	check_loop(&j, p, steps_main_loop(p), 0, 10);
	const struct steps_process *loader = &s.processes.data[!s.main];
	assert_int_equal(loader->loops.len, 1);
	assert_int_equal(loader->loops.data[0].kind, STEPS_LOADING);
	assert_int_equal(loader->loops.data[0].steps, 100);
	/* It has no forward pass. */
	assert_float_equal(loader->loops.data[0].phase_mean_ns[STEPS_LOAD],
			   loader->loops.data[0].mean_ns, 1);
	done(&j, &s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_of_a_graph_are_steps),
		cmocka_unit_test(runs_that_are_held_up_are_steps),
		cmocka_unit_test(launches_of_a_graph_are_steps),
		cmocka_unit_test(what_follows_launches_marks_the_step),
		cmocka_unit_test(an_evaluation_now_and_then_marks_nothing),
		cmocka_unit_test(requests_are_no_steps),
		cmocka_unit_test(few_runs_are_no_steps),
		cmocka_unit_test(updates_end_steps),
		cmocka_unit_test(marks_of_optimizers_end_steps),
		cmocka_unit_test(the_first_update_may_differ),
		cmocka_unit_test(gradients_are_accumulated),
		cmocka_unit_test(more_batches_are_accumulated),
		cmocka_unit_test(a_stretch_does_more_in_place),
		cmocka_unit_test(some_steps_of_a_stretch_do_more_in_place),
		cmocka_unit_test(evaluations_do_more_in_place),
		cmocka_unit_test(batches_are_loaded),
		cmocka_unit_test(waits_in_front_of_the_model_are_load),
		cmocka_unit_test(making_batches_is_load),
		cmocka_unit_test(every_accumulated_batch_is_loaded),
		cmocka_unit_test(what_follows_the_update_is_apart),
		cmocka_unit_test(who_ends_waits_tells_load),
		cmocka_unit_test(means_of_phases_add_up),
		cmocka_unit_test(other_ranks_are_told),
		cmocka_unit_test(evaluations_lie_between_steps),
		cmocka_unit_test(batches_of_evaluations_are_counted),
		cmocka_unit_test(logs_are_no_steps),
		cmocka_unit_test(two_optimizers_take_turns),
		cmocka_unit_test(batches_of_two_kinds_take_turns),
		cmocka_unit_test(batches_that_arrive_in_pairs_take_no_turns),
		cmocka_unit_test(tokens_are_steps),
		cmocka_unit_test(tokens_of_requests_are_steps),
		cmocka_unit_test(layers_in_step_are_no_steps),
		cmocka_unit_test(one_operation_is_a_step),
		cmocka_unit_test(launches_of_training),
		cmocka_unit_test(launches_of_accumulation),
		cmocka_unit_test(launches_while_compiling),
		cmocka_unit_test(graphs_that_are_made_anew),
		cmocka_unit_test(several_graphs_that_are_made_anew),
		cmocka_unit_test(launches_of_many_backward_threads),
		cmocka_unit_test(launches_of_tokens),
		cmocka_unit_test(cut_recordings),
		cmocka_unit_test(a_job_that_was_joined),
		cmocka_unit_test(evaluation_that_was_joined),
		cmocka_unit_test(recording_that_ended_within_an_update),
		cmocka_unit_test(what_is_not_traced_is_no_slow_step),
		cmocka_unit_test(counted_calls_have_no_steps),
		cmocka_unit_test(what_one_with_counted_calls_started_has_no_steps),
		cmocka_unit_test(slow_steps_are_explained),
		cmocka_unit_test(no_order_is_no_loop),
		cmocka_unit_test(one_kernel_over_and_over_is_no_loop),
		cmocka_unit_test(setup_is_no_loop),
		cmocka_unit_test(empty_recordings_have_no_steps),
		cmocka_unit_test(the_process_that_trains_is_the_main_one),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}
