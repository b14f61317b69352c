/* report_section.h - the parts of the report that stand for themselves: one file each, named
 * report_*.c, and one line in report_section.c, whose order is that of the text. */
#pragma once

#include "report/report_json.h"
#include "report/report_page.h"

/* Who goes through the recording, in the order in which they end: those that need the timeline come
 * after it, the others before it, so that what they hold is free when it is put together. */
struct report_visitors {
	struct row_visitor *before[16], *after[16];
	size_t nbefore, nafter;
};

struct report_section {
	/* Before the recording is read: what it works out, and who reads for it. NULL: the
	 * recording has none of it, and nothing is printed. */
	void *(*begin)(const struct report *r, struct report_visitors *v);
	/* All has been read: r->timeline and r->collectives are there. False: there is nothing to
	 * say. */
	bool (*make)(const struct report *r, void *state);
	void (*text)(const struct page *p, const void *state);
	void (*json)(struct json_stream *out, const struct report *r,
		     const void *state); /* adds its keys */
	void (*end)(void *state);	 /* frees it */
};

extern const struct report_section report_account; /* opens the text */
extern const struct report_section report_timeline;
extern const struct report_section report_steps;
extern const struct report_section report_flops;
extern const struct report_section report_operators;
extern const struct report_section report_gpu_lines;
extern const struct report_section report_collectives;
extern const struct report_section report_ranks;
extern const struct report_section report_told;
extern const struct report_section report_counters;

/* What another section worked out, once all are made; NULL: the recording has none of it. */
const void *report_section_state(const struct report *r, const struct report_section *of);
struct gpu_gaps;
const struct gpu_gaps *report_gaps(const struct report *r);

/* Called by report_make, report_text, report_json and report_free. */
void report_sections_begin(struct report *r, struct report_visitors *v);
void report_sections_make(struct report *r);
void report_sections_head(const struct page *p); /* the first one */
void report_sections_text(const struct page *p); /* the others */
void report_sections_json(struct json_stream *out, const struct report *r);
void report_sections_end(struct report *r);
