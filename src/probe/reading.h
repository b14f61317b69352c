/* reading.h - the files that wait to be read. Internal to src/probe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct parser_host;
struct tracer;
struct probed_file;
struct reading;

/* The operations of the parser's processes that the tracer asks for. */
enum parse_op { PARSE_FACTS, PARSE_UNWIND_FACTS, PARSE_UNWIND_TABLE, PARSE_DEFINERS, PARSE_OPS };

struct catalog;
struct reading *reading_new(struct parser_host *host, const struct catalog *catalog);
void reading_free(struct reading *r);

/* The file, FILE_NEW, will be FILE_READ or FILE_REFUSED. */
void reading_want(struct tracer *t, struct probed_file *f);
/* The same of an earlier session's answer alone; false: it stays FILE_NEW, or is FILE_REFUSED. */
bool reading_recall(struct tracer *t, struct probed_file *f);
/* Takes the answers that are there; true when there was one. */
bool reading_go_on(struct tracer *t);
bool reading_is_busy(const struct reading *r);

/* How many files were read, and how many an earlier session had read (facts_cache.h). */
struct reading_stats {
	uint64_t read;
	uint64_t cached;
};
void reading_stats(const struct reading *r, struct reading_stats *ret);
