/* made_evidence.h - the evidence of a process, made by hand, for tests of what comes of it. Each
 * test begins with steps that were as long as usual, and adds to them. */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include <cmocka.h>

#include "base/entity.h"
#include "events/tables.h"
#include "incident/cause_words.h"
#include "incident/diagnosis_impl.h"
#include "incident/evidence_impl.h"
#include "wire/stalls.h"

#define MS 1e6
#define S  1000000000ULL
enum { MM, ADD, ITEM, MALLOC, COPY, LAUNCH, PROBES };
enum { THROTTLED, OTHERS, CLOCK, USED, LIMIT, METRICS };

static struct rec_tables tables;
static struct evidence e;

static inline void name_probe(uint32_t at, const char *layer, const char *name, const char *role)
{
	while (tables.probes.len <= at)
		*vec_push(&tables.probes) = (struct m_probe){.name_arg = -1};
	struct m_probe *p = &tables.probes.data[at];
	p->layer = strtab_add(&tables.strings, layer, strlen(layer));
	p->name = strtab_add(&tables.strings, name, strlen(name));
	p->role = strtab_add(&tables.strings, role, strlen(role));
}

static inline void name_metric(uint8_t kind, const char *name)
{
	*vec_push(&tables.metrics) =
		(struct m_metric){.kind = kind,
				  .instance = -1,
				  .name = strtab_add(&tables.strings, name, strlen(name))};
}

static inline int begin(void **state)
{
	(void)state;
	tables = (struct rec_tables){0};
	strtab_add(&tables.strings, "", 0);
	name_probe(MM, "torch", "aten::mm", "");
	name_probe(ADD, "torch", "aten::add_", "");
	name_probe(ITEM, "torch", "aten::item", "");
	name_probe(MALLOC, "cuda", "cudaMalloc", "alloc");
	name_probe(COPY, "cuda", "cudaMemcpy", "copy");
	name_probe(LAUNCH, "cuda", "cuLaunchKernel", "launch");
	name_metric(ENTITY_CGROUP, "throttled_ratio");
	name_metric(ENTITY_GPU, "other_processes");
	name_metric(ENTITY_GPU, "sm_clock_mhz");
	name_metric(ENTITY_CGROUP, "memory_used_bytes");
	name_metric(ENTITY_CGROUP, "memory_limit_bytes");
	*vec_push(&tables.threads) = (struct m_thread){7, 7, 0};
	e = (struct evidence){.t = &tables,
			      .pid = 7,
			      .by_steps = true,
			      .n_slow = 10,
			      .n_usual = 100,
			      .saving_frame = BLAME_NO_FRAME,
			      .collecting_frame = BLAME_NO_FRAME};
	e.blame.usual_ns = 1000 * MS;
	e.blame.whole_ns = 1000 * MS;
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	evidence_free(&e);
	strtab_free(&tables.strings);
	vec_free(&tables.probes);
	vec_free(&tables.metrics);
	vec_free(&tables.threads);
	vec_free(&tables.processes);
	vec_free(&tables.sources);
	vec_free(&tables.events);
	return 0;
}

static inline void event(uint64_t time_ns, const char *entity, const char *name, const char *text)
{
	*vec_push(&tables.events) = (struct m_event){time_ns, strtab_add_z(&tables.strings, entity),
						     strtab_add_z(&tables.strings, name),
						     strtab_add_z(&tables.strings, text)};
	e.from_ns = 10000000000ULL;
	e.to_ns = 20000000000ULL;
}

static inline void part(enum blame_kind kind, enum blame_via via, double ms, uint32_t pid)
{
	*vec_push(&e.blame.parts) = (struct blame_part){.owner = {.kind = (uint8_t)kind,
								  .via = (uint8_t)via,
								  .thread = pid ? UINT32_MAX : 0,
								  .pid = pid,
								  .frame = BLAME_NO_FRAME},
							.ns = ms * MS};
	e.blame.whole_ns += ms * MS;
}

static inline void called(uint32_t probe, double n, double usual_n, double ms, double usual_ms)
{
	*vec_push(&e.calls) = (struct call_growth){.probe = probe,
						   .n = n,
						   .usual_n = usual_n,
						   .ns = ms * MS,
						   .usual_ns = usual_ms * MS};
}

/* Of the last calls: by themselves. */
static inline void of_them_own(double ms)
{
	struct call_growth *c = &e.calls.data[e.calls.len - 1];
	c->own_ns = ms * MS;
	c->usual_own_ns = c->usual_ns;
	c->outer_n = c->n;
	c->usual_outer_n = c->usual_n;
}

static inline void counts(uint32_t metric, double mean, double usual)
{
	*vec_push(&e.counters) = (struct counter_change){metric, mean, usual};
}

static inline struct cause_found is(enum cause want)
{
	struct cause_found f;
	cause_find(&f, &e);
	if (f.cause != want)
		fail_msg("%s, wanted %s", cause_id(f.cause), cause_id(want));
	assert_true(f.confidence >= 0 && f.confidence <= 1);
	assert_true(cause_title(f.cause)[0] && cause_advice(f.cause)[0]);
	struct cause_found ret = f;
	cause_free(&f);
	ret.evidence_len = 0; /* its texts are gone */
	ret.against = NULL;
	return ret;
}

static inline void says(const struct cause_found *f, const char *want)
{
	struct buf b = {0};
	cause_headline(&b, &tables, f);
	buf_byte(&b, 0);
	assert_string_equal((const char *)b.data, want);
	buf_free(&b);
}

static inline void of_host(const char *name, double mean, double usual)
{
	name_metric(ENTITY_HOST, name);
	counts((uint32_t)tables.metrics.len - 1, mean, usual);
}

static inline void nic(double bytes_per_s, double usual)
{
	static const char name[] = "sent_bytes_per_s", label[] = "eth0 of pid 7";
	name_metric(ENTITY_INTERFACE, name);
	tables.metrics.data[tables.metrics.len - 1].label = strtab_add_z(&tables.strings, label);
	counts((uint32_t)tables.metrics.len - 1, bytes_per_s, usual);
}

static inline void round_trip(double ms, double usual_ms)
{
	name_metric(ENTITY_PROCESS, "net_round_trip_ns");
	tables.metrics.data[tables.metrics.len - 1].pid = 7;
	counts((uint32_t)tables.metrics.len - 1, ms * MS, usual_ms * MS);
}

static inline void grows(const char *name, double by, double usual)
{
	name_metric(ENTITY_PROCESS, name);
	tables.metrics.data[tables.metrics.len - 1].pid = 7;
	counts((uint32_t)tables.metrics.len - 1, by, usual);
}

/* A second; segments that were sent again. */
static inline void sent(double bytes, double usual, double again, double usual_again)
{
	e.counters.len = 0;
	grows("net_sent_bytes", bytes, usual);
	grows("net_received_bytes", bytes, usual);
	grows("net_retransmits", again, usual_again);
}

static inline void of_cgroup(const char *label, double mean)
{
	name_metric(ENTITY_CGROUP, "throttled_ratio");
	tables.metrics.data[tables.metrics.len - 1].label = strtab_add_z(&tables.strings, label);
	counts((uint32_t)tables.metrics.len - 1, mean, 0);
}
