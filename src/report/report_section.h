/* report_section.h - the parts of the report that stand for themselves: one file each, named
 * report_*.c, and one line in report_section.c. In the text each stands where its relevance puts
 * it. */
#pragma once

#include "report/report_json.h"
#include "report/report_page.h"

/* Who goes through the recording, in the order in which they end: those that need the timeline come
 * after it, the others before it, so that what they hold is free when it is put together. */
struct report_visitors {
	struct row_visitor *before[16], *after[16];
	size_t nbefore, nafter;
};

/* How much a part has to say to who asks where the time went; the greater comes first. What tells
 * of time has its share of the recording's, report_share(): from 0 to 1. */
#define RELEVANT_WHY	 3000.0
#define RELEVANT_ACCOUNT 2000.0
#define RELEVANT_HEAD	 1000.0
#define RELEVANT_FAULT	 100.0 /* something is wrong */
#define RELEVANT_STEPS	 50.0
#define RELEVANT_RANKS	 40.0
#define RELEVANT_AFTER	 0.5 /* times the share: what the same time looks like from another side */
#define RELEVANT_DETAIL	 (-1.0)
#define RELEVANT_LAST	 (-100.0)
#define RELEVANT_NOT	 (-1e9) /* the text has nothing to say */

/* A piece of the text under a name of its own. */
struct report_part {
	const char *name;  /* as --section asks for it; several may share it */
	const char *group; /* likewise, with others; NULL none */
	double relevance;
	bool whole; /* never cut to the first lines */
	void (*text)(const struct page *p, const void *state);
	const void *state;
};
struct report_parts {
	VEC(struct report_part) list;
};

struct report_section {
	/* Before the recording is read: what it works out, and who reads for it. NULL: the
	 * recording has none of it, and nothing is printed. */
	void *(*begin)(const struct report *r, struct report_visitors *v);
	/* All has been read: r->timeline and r->collectives are there. False: there is nothing to
	 * say. */
	bool (*make)(const struct report *r, void *state);
	void (*text)(const struct page *p, const void *state); /* NULL: see parts */
	void (*json)(struct json_stream *out, const struct report *r,
		     const void *state); /* adds its keys; NULL: none */
	void (*end)(void *state);	 /* frees it */
	const char *name;
	double (*relevance)(const struct report *r, const void *state);
	/* Of a section whose text is several pieces. */
	void (*parts)(const struct report *r, const void *state, struct report_parts *ret);
};

extern const struct report_section report_account; /* opens the text */
extern const struct report_section report_timeline;
extern const struct report_section report_steps;
extern const struct report_section report_flops;
extern const struct report_section report_operators;
extern const struct report_section report_gpu_lines;
extern const struct report_section report_collectives;
extern const struct report_section report_ranks;
extern const struct report_section report_incidents;
extern const struct report_section report_outlook;
extern const struct report_section report_told;
extern const struct report_section report_counters;
extern const struct report_section report_stalls;
extern const struct report_section report_disks;

/* What another section worked out, once all are made; NULL: the recording has none of it. */
const void *report_section_state(const struct report *r, const struct report_section *of);

/* What report_timeline.c worked out, likewise. */
struct gpu_gaps;
struct gpu_transfers;
const struct gpu_gaps *report_timeline_gaps(const struct report *r);
const struct gpu_transfers *report_timeline_transfers(const struct report *r);

/* What of the recording's time so much is: 0 to 1. */
double report_share(const struct report *r, uint64_t ns);

/* Parts of what is no section: report_gpu_text.c, report_profile.c, report_account_waits.c,
 * report_processes.c, report_layers.c, report_notes.c, report_text.c. */
void report_gpu_parts(const struct report *r, struct report_parts *ret);
void report_profile_parts(const struct report *r, struct report_parts *ret);
void report_processes_parts(const struct report *r, struct report_parts *ret);
void report_waits_parts(const struct report *r, struct report_parts *ret);
void report_layers_parts(const struct report *r, struct report_parts *ret);
void report_notes_parts(const struct report *r, struct report_parts *ret);
void report_text_parts(const struct report *r, struct report_parts *ret);

/* Adds a part, unless it is RELEVANT_NOT. */
void report_part_add(struct report_parts *to, const struct report_part *part);

/* Called by report_make, report_text, report_json and report_free. */
void report_sections_begin(struct report *r, struct report_visitors *v);
void report_sections_make(struct report *r);
void report_sections_text(const struct page *p);
void report_sections_json(struct json_stream *out, const struct report *r);
void report_sections_end(struct report *r);
