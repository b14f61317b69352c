/* report.h - what a report says, worked out once for text and JSON. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analyze/collectives.h"
#include "analyze/cost.h"
#include "analyze/gpu.h"
#include "analyze/kernel_times.h"
#include "analyze/profile.h"
#include "analyze/programs.h"
#include "analyze/rank_times.h"
#include "analyze/summary.h"
#include "analyze/timeline.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/map64.h"
#include "events/visitor.h"

struct report_section;

enum report_sort { SORT_TOTAL, SORT_SELF, SORT_CALLS, SORT_P99, SORT_MAX };

struct report_options {
	enum report_sort sort;
	uint64_t top;		  /* rows of a table; 0 = all */
	uint32_t pid;		  /* 0 = all */
	uint64_t from_ns, to_ns;  /* GPUs and samples; 0 = from the beginning, to the end */
	VEC(const char *) layers; /* empty = all */
	const char *sections;	  /* of the text: names with commas; NULL = all */
	bool brief;		  /* of each section REPORT_LINES at most */
	unsigned width;
	bool colour;
	bool steps;			   /* in JSON each step */
	const struct report_section *only; /* NULL: the whole report */
};

#define REPORT_LINES 10
/* Rows of a table that a brief section has room for, beside title, heads and what is left. */
#define REPORT_BRIEF_TOP (REPORT_LINES - 3)
#define REPORT_LONGEST	 5 /* collectives of each size that are listed */

struct report_loss {
	const char *cause;
	uint64_t count;
	bool call_kept; /* something about a call is missing, not the call */
};

/* The functions of one layer, as far as they are shown. */
struct report_layer {
	const char *name;
	uint64_t functions, calls;
	uint64_t total_ns; /* without nested calls, where that is known */
	bool errors;
};

struct report {
	const char *path;
	const struct row_source *source;
	const struct rec_tables *tables;
	const struct report_options *options;
	/* With options->only of these the timeline and the collectives alone. */
	struct summary *summary;
	struct gpu_summary *gpu;
	struct profile *profile;
	struct timeline *timeline; /* without spans where there are none */
	struct collectives *collectives;
	struct programs *programs;
	struct rank_times *rank_times;
	uint64_t duration_ns;
	uint64_t start_realtime_ns; /* 0 unknown */
	uint64_t lost;		    /* calls and records that are missing */
	uint64_t incomplete;	    /* calls of which something is missing */
	VEC(struct report_loss) losses;
	struct cost cost;
	bool cost_known;	 /* else of what eacgm took nothing is known: it was killed */
	double collector_cpu_s;	 /* what eacgm's processes took beside the job, after their start */
	double displacing_cpu_s; /* that of it while no CPU was idle */
	double start_cpu_s;	 /* what their start took */
	double held_s;		 /* for how long tasks of the job were held, in sum */
	VEC(const struct summary_function *) functions; /* chosen and sorted */
	VEC(struct report_layer) layers;		/* in the order of their first functions */
	void **sections; /* what report_section.c worked out; NULL: there is none of it */
	struct kernel_times kernel_times; /* on the device; all 0 without spans */
	struct map64 kernel_names;	  /* hashes of the names of gpu->kernels */
};

/* Goes through the source once, with all that works out a part of the report, and fills in all of
 * *ret, which the path, the source and the options must outlive. */
void report_make(struct report *ret, const char *path, const struct row_source *source,
		 const struct report_options *options, const struct visit_options *visit);
void report_free(struct report *r);

/* Calls of the layers cuda and nccl were counted without being recorded (modes tail, stats):
 * what is read from their arguments is incomplete. */
bool report_gpu_partial(const struct rec_tables *t);
/* Functions of layers with these traits were off for a time, to keep a budget. */
bool report_turned_down(const struct rec_tables *t, unsigned traits);

/* A meta value as a number, 0 when it is absent or none. */
uint64_t report_number(const struct rec_tables *t, const char *key);

/* A span of time that begins after the recording's end has nothing in it: -ERANGE and a sentence
 * that says how long the recording is. from_ns: since its start. */
int report_check_from(const struct rec_tables *t, uint64_t from_ns, struct err *e);

void report_text(FILE *out, const struct report *r);

/* What the header says of the recording itself - what is lost, what it cost -, a sentence a line:
 * "lost: 0". malloc'ed. */
char *report_verdict(const struct row_source *source);

/* 0 where all sections that the options name are there. -ENOENT: one has nothing to say of this
 * recording; -EINVAL: there is none of that name. The sentence has the names that there are. */
int report_check_sections(const struct report *r, struct err *e);

/* 0 or negative errno (the output could not be written). */
int report_json(FILE *to, const struct report *r);

/* The same as a value of jansson's, within limits; the caller's. */
struct json_stream_limits;
struct json_t *report_json_within(const struct report *r, const struct json_stream_limits *limits);

/* Fills in r->layers. */
void report_layers_make(struct report *r);

/* What a function is called in a table: kernels by their short name, in ret or as they are. */
const char *report_function_name(const struct report *r, const struct summary_function *f,
				 char *ret, size_t size);
