/* model_fit.c - the fits of processes, and what is told of them. */
#include "incident/model_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "detect/learn.h"
#include "detect/learn_known.h"
#include "incident/detector.h"
#include "incident/excuses.h"

#define WARMUP_NS ((uint64_t)(WARMUP_S * 1e9))

static void process_free(struct process_fit *p)
{
	free(p->differs);
	free(p);
}

void model_fit_free(struct model_fit *f)
{
	for (size_t i = 0; i < f->list.len; i++)
		process_free(f->list.data[i]);
	vec_free(&f->list);
	map64_free(&f->at);
}

/* NULL: there is none. */
static struct process_fit *process_of(const struct model_fit *f, uint32_t pid)
{
	uint64_t at;
	return map64_get(&f->at, pid, &at) ? f->list.data[at - 1] : NULL;
}

static struct process_fit *have_process(struct model_fit *f, const struct feature_row *row)
{
	struct process_fit *p = process_of(f, row->pid);
	if (p)
		return p;
	p = xcalloc(1, sizeof(*p));
	p->pid = row->pid;
	p->work_ns = row->start_ns;
	*vec_push(&f->list) = p;
	map64_set(&f->at, row->pid, f->list.len);
	return p;
}

/* What the run was made on, against what the model was. */
static const char *differs(const struct model_fit *f, struct process_fit *p)
{
	if (!p->asked && f->o->setting) {
		struct setting now = {0};
		f->o->setting(f->o->tell_ctx, p->pid, &now);
		p->differs = setting_difference(&f->o->model->setting, &now);
		setting_free(&now);
	}
	p->asked = true;
	return p->differs;
}

static bool is_off(const struct model_fit *f)
{
	return !f->o->model || f->o->model->without & WITHOUT_PACE ||
	       f->o->without_excuses & excuse_bit("stale-model");
}

/* What never fitted did not from its first window on. */
static void decide(struct process_fit *p)
{
	struct fit_evidence e;
	fit_evidence(&p->fit, &e);
	p->since_ns = p->fit.looked_at == FIT_WINDOWS ? p->work_ns : e.since_ns;
	p->decided_ns = p->last_ns;
}

/* With or without what its CPUs did: the slope of that is not the same in all launches. */
static double nearest_pace(const struct feature_row *row)
{
	double whole = row->pace * exp(-row->cpus);
	return row->pace > 0 && fabs(log(whole)) < fabs(log(row->pace)) ? whole : row->pace;
}

void model_fit_row(struct model_fit *f, const struct feature_row *row)
{
	bool of_work = detect_layer_traits(row->layer) & LAYER_IS_WORK;
	if (is_off(f) || !of_work || row->parents_pace || !(row->events > 0))
		return;
	struct process_fit *p = have_process(f, row);
	if (p->last_ns >= row->end_ns)
		return;
	p->last_ns = row->end_ns;
	if (row->start_ns < p->work_ns + WARMUP_NS)
		return;
	fit_add(&p->fit, &(struct fit_window){.start_ns = row->start_ns,
					      .pace = nearest_pace(row),
					      .unknown = row->unknown_share,
					      .resized = row->resized_share,
					      .other_mix = row->other_mix});
	if (p->fit.verdict == FIT_SLOWER && !differs(f, p))
		fit_accept(&p->fit);
	if (p->fit.verdict > FIT_FITS && !p->decided_ns)
		decide(p);
}

/* Other sizes are learned beside those of the model, which stays. */
static bool is_unfit(enum fit_verdict v)
{
	return v == FIT_QUICKER || v == FIT_SLOWER || v == FIT_OTHER_CALLS;
}

bool model_fit_excuses(const struct model_fit *f, const struct feature_row *row)
{
	struct process_fit *p = process_of(f, row->pid ? row->pid : row->gpu_pid);
	enum fit_verdict v = p ? fit_leaning(&p->fit) : FIT_FITS;
	if (p && row->start_ns < p->since_ns)
		return false;
	return v == FIT_SLOWER ? differs(f, p) != NULL : is_unfit(v);
}

/* ---- telling ---- */

static void describe(char *ret, size_t size, const struct model_misfit *m)
{
	double percent = 100 * m->share;
	if (m->verdict == FIT_OTHER_CALLS && m->share < FIT_OTHER) {
		snprintf(ret, size, "its mix of calls is none that the model knows");
		return;
	}
	switch (m->verdict) {
	case FIT_QUICKER:
	case FIT_SLOWER:
		snprintf(ret, size, "its work takes %.2f%s the usual time", 1 / m->pace,
			 m->verdict == FIT_QUICKER ? " of" : " x");
		return;
	case FIT_OTHER_SIZES:
		snprintf(ret, size, "%.0f %% of its time is in calls of other sizes", percent);
		return;
	default:
		snprintf(ret, size, "%.0f %% of its time is in calls that the model does not know",
			 percent);
	}
}

static void tell(struct model_fit *f, struct process_fit *p, bool relearns)
{
	struct fit_evidence e;
	char what[96], who[48] = "this run";
	fit_evidence(&p->fit, &e);
	struct model_misfit m = {.pid = p->pid,
				 .since_ns = p->since_ns,
				 .told_ns = p->decided_ns,
				 .verdict = p->fit.verdict,
				 .pace = e.pace,
				 .share = e.share,
				 .relearns = relearns,
				 .differs = differs(f, p)};
	const char *then = relearns ? "what is usual is learned anew" : "it is not judged";
	if (m.verdict == FIT_OTHER_SIZES)
		then = "what is usual for them is learned beside the model";
	else if (!relearns)
		snprintf(who, sizeof(who), "process %u", p->pid);
	describe(what, sizeof(what), &m);
	snprintf(m.why, sizeof(m.why), "%s is not the job that was learned: %s; %s%s%s", who, what,
		 then, m.differs ? ". Other than learned: " : "", m.differs ? m.differs : "");
	p->told = true;
	if (f->o->misfit)
		f->o->misfit(f->o->tell_ctx, &m);
}

static bool any_fits(const struct model_fit *f)
{
	for (size_t i = 0; i < f->list.len; i++)
		if (f->list.data[i]->fit.verdict == FIT_FITS)
			return true;
	return false;
}

/* Of a run that fits nowhere the process that shows it first speaks for all. */
bool model_fit_settle(struct model_fit *f, uint64_t *ret_since_ns)
{
	bool any = any_fits(f), relearns = false;
	*ret_since_ns = UINT64_MAX;
	for (size_t i = 0; i < f->list.len; i++) {
		struct process_fit *p = f->list.data[i];
		if (p->fit.verdict <= FIT_FITS || (p->told && any))
			continue;
		bool unfit = is_unfit(p->fit.verdict);
		if (!p->told && !relearns)
			tell(f, p, unfit && !any);
		if (!unfit || any)
			continue;
		*ret_since_ns = p->since_ns < *ret_since_ns ? p->since_ns : *ret_since_ns;
		relearns = true;
	}
	return relearns;
}

void model_fit_forget(struct model_fit *f, uint32_t pid)
{
	uint64_t at;
	if (!map64_get(&f->at, pid, &at))
		return;
	map64_del(&f->at, pid);
	process_free(f->list.data[at - 1]);
	struct process_fit *last = f->list.data[--f->list.len];
	if (at > f->list.len)
		return;
	f->list.data[at - 1] = last;
	map64_set(&f->at, last->pid, at);
}
