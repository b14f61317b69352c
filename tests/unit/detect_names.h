/* detect_names.h - names of rows for tests of src/detect, made by hand: probes of a small job, two
 * threads for each process. Strings are added as they are asked for. */
#pragma once

#include <linux/types.h>
#include <string.h>

#include "base/strtab.h"
#include "detect/names.h"
#include "events/metric.h"
#include "wire/event.h"

enum fake_probe {
	FAKE_OPERATOR,	 /* torch, aten::mm with two shapes */
	FAKE_FUNCTION,	 /* python, named by code */
	FAKE_COPY,	 /* cuda, cuMemcpyHtoD_v2 with bytes */
	FAKE_LAUNCH,	 /* cuda, cuLaunchKernel, named by the kernel, with a grid */
	FAKE_ALL_REDUCE, /* nccl, with bytes and comm */
	FAKE_GROUP_START,
	FAKE_GROUP_END,
	FAKE_RUNTIME_COPY, /* cuda, cudaMemcpyAsync with bytes and kind */
	FAKE_INSTANT,	   /* torch, named by a string */
	FAKE_OTHER_LAYER,  /* gpu */
	FAKE_COMM_DESTROY, /* nccl */
	FAKE_PROBES,
};
#define FAKE_CODES   4
#define FAKE_THREADS 20000 /* thread n is of process 100 + n / 2 */

struct fake_names {
	struct strtab strings;
	VEC(struct m_metric) metrics;
	struct m_probe probes[FAKE_PROBES];
	struct m_code codes[FAKE_CODES];
	struct m_thread thread; /* the one that was asked for last */
	struct m_comm comm;
	uint32_t comms; /* 0: there is none */
};

static inline uint32_t fake_string(struct fake_names *f, const char *s)
{
	return strtab_add_z(&f->strings, s);
}

/* The number of a metric by the text of what it is of. */
static inline uint32_t fake_metric(struct fake_names *f, const char *entity, const char *name)
{
	struct entity of;
	entity_parse(&of, entity);
	struct m_metric m = metric_of(&of, name);
	m.host = strtab_add(&f->strings, of.host, of.host_len);
	m.label = fake_string(f, of.label);
	m.name = fake_string(f, name);
	for (uint32_t i = 0; i < f->metrics.len; i++)
		if (metric_is(&f->metrics.data[i], &m))
			return i;
	*vec_push(&f->metrics) = m;
	return (uint32_t)f->metrics.len - 1;
}

static inline void fake_probe(struct fake_names *f, enum fake_probe which, const char *layer,
			      const char *name, const char *role)
{
	f->probes[which] = (struct m_probe){.layer = fake_string(f, layer),
					    .name = fake_string(f, name),
					    .role = fake_string(f, role),
					    .kind = SITE_SPAN,
					    .name_arg = -1};
}

static inline void fake_arg(struct fake_names *f, enum fake_probe which, const char *name,
			    enum arg_type type)
{
	struct m_probe *p = &f->probes[which];
	p->arg_names[p->nargs] = fake_string(f, name);
	p->arg_types[p->nargs++] = (uint8_t)type;
}

static inline void fake_names_make(struct fake_names *f)
{
	*f = (struct fake_names){0};
	fake_probe(f, FAKE_OPERATOR, "torch", "aten::mm", "matmul");
	fake_arg(f, FAKE_OPERATOR, "a", ARG_TYPE_SHAPE);
	fake_arg(f, FAKE_OPERATOR, "b", ARG_TYPE_SHAPE);
	fake_probe(f, FAKE_FUNCTION, "python", "_PyEval_EvalFrameDefault", "");
	fake_arg(f, FAKE_FUNCTION, "frame", ARG_TYPE_CODE);
	fake_probe(f, FAKE_COPY, "cuda", "cuMemcpyHtoD_v2", "copy_htod");
	fake_arg(f, FAKE_COPY, "destination", ARG_TYPE_PTR);
	fake_arg(f, FAKE_COPY, "bytes", ARG_TYPE_BYTES);
	fake_probe(f, FAKE_LAUNCH, "cuda", "cuLaunchKernel", "launch");
	fake_arg(f, FAKE_LAUNCH, "kernel", ARG_TYPE_STRING);
	fake_arg(f, FAKE_LAUNCH, "grid", ARG_TYPE_DIM3);
	fake_probe(f, FAKE_ALL_REDUCE, "nccl", "ncclAllReduce", "collective");
	fake_arg(f, FAKE_ALL_REDUCE, "comm", ARG_TYPE_PTR);
	fake_arg(f, FAKE_ALL_REDUCE, "bytes", ARG_TYPE_BYTES);
	fake_probe(f, FAKE_GROUP_START, "nccl", "ncclGroupStart", "nccl_group");
	fake_probe(f, FAKE_GROUP_END, "nccl", "ncclGroupEnd", "nccl_group");
	fake_probe(f, FAKE_RUNTIME_COPY, "cuda", "cudaMemcpyAsync", "");
	fake_arg(f, FAKE_RUNTIME_COPY, "bytes", ARG_TYPE_BYTES);
	fake_arg(f, FAKE_RUNTIME_COPY, "kind", ARG_TYPE_I64);
	fake_probe(f, FAKE_INSTANT, "torch", "record_function", "");
	fake_arg(f, FAKE_INSTANT, "name", ARG_TYPE_STRING);
	fake_probe(f, FAKE_OTHER_LAYER, "gpu", "something", "");
	fake_probe(f, FAKE_COMM_DESTROY, "nccl", "ncclCommDestroy", "comm_destroy");
	fake_arg(f, FAKE_COMM_DESTROY, "comm", ARG_TYPE_PTR);
	f->probes[FAKE_FUNCTION].name_arg = f->probes[FAKE_LAUNCH].name_arg =
		f->probes[FAKE_INSTANT].name_arg = 0;
	for (uint32_t i = 0; i < FAKE_CODES; i++)
		f->codes[i] = (struct m_code){fake_string(f, i % 2 ? "forward" : "step"),
					      fake_string(f, "/home/x/model.py"), 10 + i};
}

static inline const char *fake_get_string(void *ctx, uint32_t number)
{
	return strtab_get(&((struct fake_names *)ctx)->strings, number, NULL);
}

static inline const struct m_probe *fake_get_probe(void *ctx, uint32_t number)
{
	return number < FAKE_PROBES ? &((struct fake_names *)ctx)->probes[number] : NULL;
}

static inline const struct m_thread *fake_get_thread(void *ctx, uint32_t index)
{
	struct fake_names *f = ctx;
	f->thread = (struct m_thread){100 + index / 2, 1000 + index, 0};
	return index < FAKE_THREADS ? &f->thread : NULL;
}

static inline const struct m_code *fake_get_code(void *ctx, uint32_t number)
{
	return number < FAKE_CODES ? &((struct fake_names *)ctx)->codes[number] : NULL;
}

static inline const struct m_metric *fake_get_metric(void *ctx, uint32_t number)
{
	const struct fake_names *f = ctx;
	return number < f->metrics.len ? &f->metrics.data[number] : NULL;
}

static inline const struct m_comm *fake_get_comm(void *ctx, uint32_t pid, uint64_t handle,
						 uint64_t time_ns)
{
	struct fake_names *f = ctx;
	(void)pid;
	(void)time_ns;
	return f->comms && f->comm.handle == handle ? &f->comm : NULL;
}

static inline struct detect_names fake_names_of(struct fake_names *f)
{
	return (struct detect_names){.ctx = f,
				     .string = fake_get_string,
				     .probe = fake_get_probe,
				     .thread = fake_get_thread,
				     .code = fake_get_code,
				     .comm = fake_get_comm,
				     .metric = fake_get_metric};
}

static inline struct m_call fake_call(enum fake_probe probe, uint32_t thread, uint64_t start_ns,
				      uint64_t dur_ns)
{
	return (struct m_call){.start_ns = start_ns,
			       .dur_ns = dur_ns,
			       .thread = thread,
			       .probe = probe,
			       .nargs = 2};
}
