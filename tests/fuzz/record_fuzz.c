/* record_fuzz.c - hostile records of the rings, as a kernel that lies would write them.
 *
 * The input is a row of records: two bytes of length each, then so many of its bytes; one of no
 * bytes ends a pass. Every probe that records may name has arguments of another kind. What goes
 * into the recording has numbers that are in range.
 *
 * links: base recording symbolize parser pipeline */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/pipeline.h"
#include "pipeline/listeners.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct told {
	struct pipeline *pipeline;
	uint32_t probes, threads;
	uint64_t calls;
};

static void check(int holds)
{
	if (!holds)
		abort();
}

static void on_calls(struct told *t, const struct m_call *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check(rows[i].probe < t->probes && rows[i].thread < t->threads &&
		      rows[i].nargs <= MODEL_MAX_ARGS && !(rows[i].flags & CALL_NAMED));
	t->calls += n;
}

static void on_rows(void *ctx, enum row_kind kind, uint32_t number, const void *rows, size_t n)
{
	struct told *t = ctx;
	if (kind == ROW_CALL)
		on_calls(t, rows, n);
	else if (kind == ROW_PROBE)
		check(number == t->probes++);
	else if (kind == ROW_THREAD)
		t->threads = number + 1 > t->threads ? number + 1 : t->threads;
}

static void define_probes(struct pipeline *p)
{
	pipeline_define_enum(p, "type", 1, "float32", 4);
	for (unsigned raw = RAW_PLAIN; raw <= RAW_KERNEL; raw++) {
		char name[] = "import {name}";
		struct pipeline_probe probe = {
			.id = raw,
			.layer = "mylib",
			.library = "libmylib.so",
			.symbol = "function",
			.name = name,
			.nargs = 3,
			.has_return = raw & 1,
			.name_arg = raw == RAW_STRING ? 0 : -1,
			.arg_names = {"a", "b", "return"},
			.arg_types = {raw == RAW_PLAIN	? ARG_TYPE_U64
				      : raw == RAW_CODE ? ARG_TYPE_CODE
							: ARG_TYPE_STRING,
				      ARG_TYPE_U64, ARG_TYPE_I64},
			.arg_raw = {raw},
			.arg_enums = {NULL, "type", NULL},
			.stack_every = 1,
			.nfactors = 2,
			.factors = {{.arg = raw == RAW_PLAIN ? 0 : -1, .value = 3}, {.arg = 1}},
		};
		pipeline_define_probe(p, &probe);
	}
}

static void pass_records(struct pipeline *p, const uint8_t *data, size_t size)
{
	uint16_t len;
	while (size >= sizeof(len)) {
		memcpy(&len, data, sizeof(len));
		data += sizeof(len);
		size -= sizeof(len);
		if (len > size)
			len = (uint16_t)size;
		void *record = malloc(len ? len : 1); /* of its own: reading beyond it is seen */
		check(record != NULL);
		memcpy(record, data, len);
		if (len)
			pipeline_record(p, record, len);
		else
			pipeline_pass_end(p);
		free(record);
		data += len;
		size -= len;
	}
	pipeline_pass_end(p);
	pipeline_pass_end(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rec_writer *w;
	struct told told = {0};
	struct pipeline_stats stats;
	check(!rec_writer_open(&w, NULL, NULL, NULL));
	told.pipeline = pipeline_new(w, "/nonexistent", NULL);
	pipeline_listen(told.pipeline, &(struct event_listener){.ctx = &told, .rows = on_rows});
	define_probes(told.pipeline);
	pass_records(told.pipeline, data, size);
	pipeline_stats(told.pipeline, &stats);
	check(stats.calls == told.calls);
	pipeline_close(told.pipeline, NULL);
	return 0;
}
