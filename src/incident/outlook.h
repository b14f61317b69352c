/* outlook.h - what will go wrong if it goes on as it does: memory of a device, a cgroup or the host
 * that runs out, file systems that fill, memory that a process never gives back, a GPU that warms
 * up to where it slows down; and what has begun to go wrong: memory errors of GPUs, segments that
 * TCP sends again. Counters in, warnings out; files and sessions alike. Pure: no I/O. Memory is
 * bounded: OUTLOOK_SERIES_MOST values are looked at, in 6 KB each. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/entity.h"
#include "detect/names.h"

#define OUTLOOK_SERIES_MOST 2048

enum outlook_kind {
	OUTLOOK_RUNS_OUT, /* memory: value is used of limit; of the host, what is left */
	OUTLOOK_FILLS,	  /* a file system: value is what is left */
	OUTLOOK_HEATS,	  /* value and limit in degrees Celsius */
	OUTLOOK_ERRORS,	  /* value is how many are new */
	OUTLOOK_RESENDS,  /* value is segments that were sent again in the last 15 s */
	OUTLOOK_LEAK,	  /* value is what is used */
	OUTLOOK_KINDS,
};

struct outlook_warning {
	uint64_t id; /* from 1 on */
	enum outlook_kind kind;
	struct entity of;   /* its strings are borrowed, for the call */
	const char *name;   /* of the counter; lives on */
	double value, from; /* now, and when it began */
	double limit;	    /* NAN: it has none */
	double per_s;	    /* by how much it comes nearer; above 0. Of errors NAN */
	double left_s;	    /* NAN: unknown */
	double share;	    /* of RESENDS: of all segments; NAN unknown */
	uint32_t by_pid;    /* whose memory grows most of it; 0: it is not known */
	double by_per_s;
	uint64_t since_ns, now_ns;
	bool ended; /* it is no longer so */
};

struct outlook_options {
	/* All counters come before outlook_end: a file. What may happen is judged at its end alone,
	 * by what is known then. */
	bool whole;
	/* When it is found, and when it has ended. Of a whole file at its end, once more of errors
	 * and segments what it came to. */
	void (*tell)(void *ctx, const struct outlook_warning *w);
	void *ctx;
};

struct outlook;
struct outlook *outlook_new(const struct outlook_options *o);
void outlook_free(struct outlook *o);

/* Of each metric in order of time. */
void outlook_counter(struct outlook *o, const struct detect_names *n, const struct m_counter *c);
/* Counters of this metric come no more by its number. */
void outlook_metric_gone(struct outlook *o, uint32_t metric);
/* All counters up to then have come: what has not been told of for a while has ended. */
void outlook_upto(struct outlook *o, uint64_t now_ns);
void outlook_end(struct outlook *o);
/* Values that were not looked at: there were too many at a time. */
uint64_t outlook_left_out(const struct outlook *o);

/* "runs-out", "leak" */
const char *outlook_kind_name(enum outlook_kind kind);
/* What is so, of who: "device memory runs out in 4 min: ..." */
#define OUTLOOK_WHAT_BYTES 320
const char *outlook_what(char ret[static OUTLOOK_WHAT_BYTES], const struct outlook_warning *w);
#define OUTLOOK_LINE_BYTES 480
/* "early warning, gpu 0: device memory ..." */
const char *outlook_line(char ret[static OUTLOOK_LINE_BYTES], const struct outlook_warning *w);
