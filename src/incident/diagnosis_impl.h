/* diagnosis_impl.h - what the files that make a diagnosis share. */
#pragma once

#include "incident/diagnosis.h"

/* Usual stretches of a process: of one loop of its steps, or plain time. */
struct usual_time {
	uint32_t pid, loop; /* loop UINT32_MAX: plain time */
	uint32_t thread;
	bool closely; /* without steps before which the loop stood for longer than one takes */
	struct evidence_usual usual;
};

struct diagnosing {
	struct diagnosis *ret;
	const struct row_source *s;
	const struct timeline *t;
	const struct steps *steps;
	const struct anomaly_list *list;
	struct blame_world *w;
	VEC(struct usual_time *) usual;
};

/* diagnosis_victim.c: sets where its victim lost most. */
void diagnosis_place(struct diagnosed *in, const struct anomaly_list *list);
/* diagnosis_victim.c: the process that lost most, of n anomalies of an incident; or its parent, or
 * that one's, where it lost time as well: children that make data wait for work while their parent
 * is slow, and the walk from the parent comes to them where they are the reason. 0: there is none.
 */
uint32_t diagnosis_victim(const struct rec_tables *t, const struct anomaly *const *all, size_t n,
			  double *ret_lost_ns);

/* diagnosis_spans.c: an incident's stretches and those that are usual. false: there are none. */
bool diagnosis_spans(struct diagnosing *x, const struct diagnosed *in,
		     struct evidence_question *ret);
void diagnosis_spans_free(struct diagnosing *x);

/* Both ends of each incident whose process has steps, as far as diagnosis_edges moves them. */
void diagnosis_spread(struct diagnosing *x);

struct diagnosis_range {
	uint64_t from_ns, to_ns;
};

/* How long the steps of a loop are outside of incidents. */
struct usual_length {
	double mean_ns; /* 0: not known */
	double long_ns; /* as in struct evidence_usual */
};

/* diagnosis_edges.c: makes an incident longer by the steps before and behind it that are slow as
 * those within at that end, and lie in the time that is free. steps: of its loop, in order. */
void diagnosis_edges(const blame_spans_t *steps, const struct usual_length *usual,
		     const struct diagnosis_range *free_ns, struct diagnosis_range *incident);

/* diagnosis_ranks.c: adds to incidents of a rank the same of another, aside; */
void diagnosis_ask_ranks(struct diagnosing *x);
/* and joins what was found of ranks to one, where they waited for one of them. */
void diagnosis_join_ranks(struct diagnosis *d);
void diagnosed_free(struct diagnosed *in);

/* diagnosis_path.c: the paths of incidents along the slow stretches of their questions. */
void diagnosis_paths(struct diagnosis *d, const struct evidence_question *questions,
		     const struct blame_world *w, const struct diagnosis_options *options);

typedef VEC(struct evidence_question) questions_t;

/* diagnosis_cut.c: slices of a stretch of time, put together until they are so long; */
void diagnosis_slice(const struct evidence_question *whole, uint64_t slice_ns, questions_t *ret);
/* and n slices put together to pieces that have one cause each, by the evidence of each slice; what
 * is as usual between them is in none. At least one piece. besides: behind one that others came to
 * those of these. */
void diagnosis_cut(const struct evidence_question *slices, const struct evidence *e, size_t n,
		   bool besides, questions_t *ret);

/* diagnosis_pace.c: what was lost of an incident's time, as far as it was told: 0 to 1. */
double diagnosis_lost_share(const struct diagnosed *of);
/* Pieces of one incident: where its victim's pace says what was lost, and their steps explain next
 * to none of that, they have no cause, and it is unexplained. */
void diagnosis_compare_pace(struct diagnosed *parts, size_t n, const struct diagnosed *of);

/* What slices of one cause are judged by: how much of each a cause explains, by enum cause, ns. */
struct slice_judged {
	const double *explains;
	double excess_ns, usual_ns;
};

/* diagnosis_beside.c: a cause that came beside that of n slices, and in which of them. */
struct beside {
	size_t first, end;
	enum cause cause;
};
bool diagnosis_beside(struct beside *ret, const struct slice_judged *slices, size_t n,
		      enum cause stands);
/* Pieces of causes beside another are compared with the rest of its slices, so that what they cost
 * is what came to it; where they are not of that cause then, they are dropped. */
void diagnosis_compare_beside(struct diagnosing *x, questions_t *pieces);

/* diagnosis_spans.c: a mean, ns; and another set of usual stretches, freed with x. */
double diagnosis_mean_length(const blame_spans_t *spans);
const struct evidence_usual *diagnosis_usual_of(struct diagnosing *x, uint32_t pid,
						const blame_spans_t *spans);
