/* sim_job.h - a simulated job for tests of detection: steps of calls whose latencies span three
 * decades, with faults and with changes that are none. The same events in every run of a seed. */
#pragma once

#include <linux/types.h>
#include <string.h>

#include "base/random.h"
#include "base/strtab.h"
#include "detect/names.h"
#include "recording/recording.h"
#include "wire/event.h"
#include "wire/shape.h"

#define SIM_SECOND    1000000000ULL
#define SIM_PID	      100
#define SIM_FUNCTIONS 12
#define SIM_SHAPED    3		    /* the first functions have a shape, with the batch in it */
#define SIM_OTHER     SIM_FUNCTIONS /* probe of an operator that it calls in a fault alone */

struct sim_function {
	const char *layer, *name;
	double median_ns, sigma; /* of the logarithm */
	bool evaluates;		 /* is called in evaluation too */
};

static const struct sim_function sim_functions[SIM_FUNCTIONS] = {
	{"torch", "aten::mm", 1.2e6, 0.08, true},
	{"torch", "aten::addmm", 3.1e6, 0.1, true},
	{"torch", "aten::embedding", 21e3, 0.2, true},
	{"torch", "aten::gelu", 2.1e5, 0.1, true},
	{"torch", "aten::layer_norm", 78e3, 0.12, true},
	{"torch", "AddmmBackward0", 5.5e6, 0.1, false},
	{"torch", "Optimizer.step", 2.5e6, 0.07, false},
	{"cuda", "cudaLaunchKernel", 5.2e3, 0.25, true},
	{"cuda", "cudaMalloc", 1.9e5, 0.3, false},
	{"cuda", "cudaEventRecord", 2.1e3, 0.2, true},
	{"cuda", "cudaEventQuery", 1.3e3, 0.2, false},
	{"cuda", "cudaStreamSynchronize", 1.1e7, 0.06, true},
};

struct sim_job {
	uint64_t seed, now_ns;
	struct strtab strings;
	struct m_probe probes[SIM_FUNCTIONS + 1];
	struct m_thread thread;
	void (*emit)(void *ctx, const struct m_call *c);
	void *ctx;
	/* What is done to it */
	double slow[SIM_FUNCTIONS]; /* factors of durations */
	double all;		    /* of all durations and gaps: drift */
	double pace;		    /* likewise: 1 = steps of a tenth of a second */
	double stall_ns;	    /* before the first call of each step */
	double error_ratio;
	uint32_t batch;
	uint32_t others; /* calls of SIM_OTHER in each step, of 0.1 ms */
	bool evaluates;
	uint64_t calls;
};

static inline void sim_make(struct sim_job *s, uint64_t seed)
{
	*s = (struct sim_job){
		.seed = seed, .now_ns = 1000 * SIM_SECOND, .all = 1, .pace = 1, .batch = 32};
	s->thread = (struct m_thread){SIM_PID, SIM_PID, strtab_add_z(&s->strings, "python3")};
	for (uint32_t i = 0; i < SIM_FUNCTIONS; i++) {
		struct m_probe *p = &s->probes[i];
		s->slow[i] = 1;
		*p = (struct m_probe){.layer = strtab_add_z(&s->strings, sim_functions[i].layer),
				      .name = strtab_add_z(&s->strings, sim_functions[i].name),
				      .kind = SITE_SPAN,
				      .name_arg = -1};
		if (i >= SIM_SHAPED)
			continue;
		p->nargs = 1;
		p->arg_names[0] = strtab_add_z(&s->strings, "input");
		p->arg_types[0] = ARG_TYPE_SHAPE;
	}
	s->probes[SIM_OTHER] = s->probes[0];
	s->probes[SIM_OTHER].name = strtab_add_z(&s->strings, "aten::copy_");
}

/* Its calls of a layer are of another one. */
static inline void sim_rename_layer(struct sim_job *s, const char *from, const char *to)
{
	uint32_t before = strtab_add_z(&s->strings, from), after = strtab_add_z(&s->strings, to);
	for (uint32_t i = 0; i <= SIM_OTHER; i++)
		if (s->probes[i].layer == before)
			s->probes[i].layer = after;
}

static inline void sim_free(struct sim_job *s)
{
	strtab_free(&s->strings);
}

static inline const char *sim_string(void *ctx, uint32_t number)
{
	return strtab_get(&((struct sim_job *)ctx)->strings, number, NULL);
}

static inline const struct m_probe *sim_probe(void *ctx, uint32_t number)
{
	return number <= SIM_OTHER ? &((struct sim_job *)ctx)->probes[number] : NULL;
}

static inline const struct m_thread *sim_thread(void *ctx, uint32_t index)
{
	return index ? NULL : &((struct sim_job *)ctx)->thread;
}

static inline const struct m_code *sim_code(void *ctx, uint32_t number)
{
	(void)ctx;
	(void)number;
	return NULL;
}

static inline const struct m_comm *sim_comm(void *ctx, uint32_t pid, uint64_t handle, uint64_t time)
{
	(void)ctx;
	(void)pid;
	(void)handle;
	(void)time;
	return NULL;
}

static inline struct detect_names sim_names(struct sim_job *s)
{
	return (struct detect_names){.ctx = s,
				     .string = sim_string,
				     .probe = sim_probe,
				     .thread = sim_thread,
				     .code = sim_code,
				     .comm = sim_comm};
}

static inline void sim_call(struct sim_job *s, uint32_t i)
{
	const struct sim_function *f = &sim_functions[i];
	double size = i < SIM_SHAPED ? s->batch / 32.0 : 1;
	double every = s->all * s->pace;
	double gap = 2e4 * exp(0.3 * random_normal(&s->seed)) * every;
	double duration =
		f->median_ns * exp(f->sigma * random_normal(&s->seed)) * s->all * s->slow[i] * size;
	struct m_call c = {
		.start_ns = s->now_ns + (uint64_t)gap, .dur_ns = (uint64_t)duration, .probe = i};
	if (i < SIM_SHAPED) {
		const __u64 sizes[SHAPE_DIMS] = {s->batch, 768};
		c.nargs = 1;
		c.args[0] = shape_pack(sizes, 2);
	}
	if (s->error_ratio > 0 && random_uniform(&s->seed) < s->error_ratio)
		c.flags = CALL_ERROR;
	s->now_ns = c.start_ns + c.dur_ns;
	s->calls++;
	s->emit(s->ctx, &c);
}

static inline void sim_other_calls(struct sim_job *s)
{
	const __u64 sizes[SHAPE_DIMS] = {16, 16};
	struct m_call c = {.dur_ns = 100000, .probe = SIM_OTHER, .nargs = 1};
	c.args[0] = shape_pack(sizes, 2);
	for (uint32_t i = 0; i < s->others; i++) {
		c.start_ns = s->now_ns + 1000;
		s->now_ns = c.start_ns + c.dur_ns;
		s->calls++;
		s->emit(s->ctx, &c);
	}
}

/* One step: a tenth of a second of training, nearly half of it a pause. */
static inline void sim_step(struct sim_job *s)
{
	s->now_ns += (uint64_t)s->stall_ns;
	for (int twice = 0; twice < 2; twice++)
		for (uint32_t i = 0; i < SIM_FUNCTIONS; i++)
			if (!s->evaluates || sim_functions[i].evaluates)
				sim_call(s, i);
	sim_other_calls(s);
	double pause = 4e7 * exp(0.05 * random_normal(&s->seed)) * s->all * s->pace;
	s->now_ns += (uint64_t)pause;
}

static inline void sim_run(struct sim_job *s, double seconds)
{
	uint64_t end = s->now_ns + (uint64_t)(seconds * 1e9);
	while (s->now_ns < end)
		sim_step(s);
}

static inline void sim_write_call(void *ctx, const struct m_call *c)
{
	rec_put_calls(ctx, c, 1);
}

/* Where a job that emits to sim_write_call goes. */
static inline int sim_open(struct sim_job *s, struct rec_writer **ret, const char *path,
			   struct err *e)
{
	int rc = rec_writer_open(ret, path, NULL, e);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < SIM_FUNCTIONS; i++) {
		struct m_probe p = s->probes[i];
		p.layer = rec_string_z(*ret, sim_string(s, p.layer));
		p.name = rec_string_z(*ret, sim_functions[i].name);
		p.arg_names[0] = p.nargs ? rec_string_z(*ret, "input") : 0;
		rec_add_probe(*ret, &p);
	}
	rec_put_process(*ret, &(struct m_process){.pid = SIM_PID, .start_ns = s->now_ns});
	rec_add_thread(*ret, &(struct m_thread){SIM_PID, SIM_PID, 0});
	s->emit = sim_write_call;
	s->ctx = *ret;
	return 0;
}
