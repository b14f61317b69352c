/* report.c - works out what a report says; prints nothing. */
#include "report/report.h"

#include <errno.h>
#include <string.h>

#include "base/human.h"
#include "base/kernel_name.h"
#include "base/layer.h"
#include "events/losses.h"
#include "symbolize/demangle.h"
#include "report/report_section.h"

static bool has_traits(const struct rec_tables *t, uint32_t probe, unsigned traits)
{
	const struct m_probe *p = &t->probes.data[probe];
	return layer_traits_of_name(strtab_get(&t->strings, p->layer, NULL)) & traits;
}

bool report_turned_down(const struct rec_tables *t, unsigned traits)
{
	for (size_t i = 0; i < t->coverages.len; i++) {
		const struct m_coverage *c = &t->coverages.data[i];
		if (c->off_ns && c->probe < t->probes.len && has_traits(t, c->probe, traits))
			return true;
	}
	return false;
}

bool report_gpu_partial(const struct rec_tables *t)
{
	for (size_t i = 0; i < t->hists.len; i++)
		if (has_traits(t, t->hists.data[i].probe, LAYER_NEEDS_GPU))
			return true;
	return report_turned_down(t, LAYER_NEEDS_GPU);
}

uint64_t report_number(const struct rec_tables *t, const char *key)
{
	const char *text = rec_meta(t, key);
	if (!text || text[0] < '0' || text[0] > '9')
		return 0;
	errno = 0;
	char *end;
	uint64_t v = strtoull(text, &end, 10);
	return *end || errno ? 0 : v;
}

static struct report_loss *loss_of(struct report *r, struct map64 *place_of, uint32_t cause)
{
	uint64_t at;
	if (map64_get(place_of, cause, &at))
		return &r->losses.data[at];
	map64_set(place_of, cause, r->losses.len);
	struct report_loss *l = vec_push(&r->losses);
	l->cause = strtab_get(&r->tables->strings, cause, NULL);
	l->call_kept = loss_is_kept(l->cause);
	return l;
}

static void make_losses(struct report *r)
{
	const struct rec_tables *t = r->tables;
	struct map64 place_of = {0};
	for (size_t i = 0; i < t->losses.len; i++) { /* one row for each cause and CPU */
		const struct m_loss *row = &t->losses.data[i];
		if (!row->count)
			continue;
		struct report_loss *l = loss_of(r, &place_of, row->cause);
		l->count += row->count;
		*(l->call_kept ? &r->incomplete : &r->lost) += row->count;
	}
	map64_free(&place_of);
}

static uint64_t end_ns(const struct rec_tables *t)
{
	uint64_t end = rec_end_ns(t);
	return end >= report_number(t, "start_monotonic_ns") ? end : t->last_ns;
}

static uint64_t duration_from(const struct rec_tables *t, uint64_t start_ns)
{
	uint64_t end = end_ns(t);
	return end > start_ns ? end - start_ns : 0;
}

int report_check_from(const struct rec_tables *t, uint64_t from_ns, struct err *e)
{
	uint64_t start_ns = report_number(t, "start_monotonic_ns");
	uint64_t duration_ns = duration_from(t, start_ns);
	char from[HUMAN_BYTES], duration[HUMAN_BYTES];
	if (!start_ns || !from_ns || from_ns < duration_ns)
		return 0;
	return err_set(e, ERANGE, "--from %s is after the end: the recording is %s long",
		       human_ns(from, from_ns), human_ns(duration, duration_ns));
}

static void make_times(struct report *r)
{
	const struct rec_tables *t = r->tables;
	uint64_t start = report_number(t, "start_monotonic_ns");
	r->duration_ns = duration_from(t, start ? start : r->summary->first_ns);
	r->start_realtime_ns = report_number(t, "start_realtime_ns");
}

static double number(const struct rec_tables *t, const char *key)
{
	return (double)report_number(t, key);
}

/* A number that recordings of before do not have. */
static double number_or(const struct rec_tables *t, const char *key, double otherwise)
{
	return rec_meta(t, key) ? number(t, key) : otherwise;
}

/* Of recordings of before: what a call cost is as it was measured when they began. */
static double calls_cost_ns(const struct rec_tables *t)
{
	return number(t, "probe_hits") * number(t, "probe_ns_each");
}

static void make_cost(struct report *r)
{
	const struct rec_tables *t = r->tables;
	const struct cost_seen seen = {
		.job_cpu_s = cost_job_cpu_s(t),
		.running_cpu_s = number_or(t, "running_cpu_ns", calls_cost_ns(t)) / 1e9,
		.held_cpu_s = number_or(t, "held_cpu_ns", number(t, "held_ns")) / 1e9,
	};
	double own_ns = number(t, "collector_cpu_ns"), start_ns = number(t, "start_cpu_ns");
	cost_reckon(&r->cost, &seen);
	r->cost_known = rec_meta(t, "running_cpu_ns") || rec_meta(t, "probe_hits");
	r->start_cpu_s = start_ns / 1e9;
	r->held_s = number(t, "held_ns") / 1e9;
	r->collector_cpu_s = own_ns > start_ns ? (own_ns - start_ns) / 1e9 : 0;
	r->displacing_cpu_s = number_or(t, "displacing_cpu_ns", r->collector_cpu_s * 1e9) / 1e9;
}

static uint64_t sort_key(const struct summary_function *f, enum report_sort sort)
{
	switch (sort) {
	case SORT_SELF:
		return f->self_known ? f->self_ns : 0;
	case SORT_CALLS:
		return f->calls;
	case SORT_P99:
		return f->p99_ns;
	case SORT_MAX:
		return f->max_ns;
	case SORT_TOTAL:
		break;
	}
	return f->total_ns;
}

struct sortable {
	const struct summary_function *function;
	uint64_t key;
};

static int compare_keys(const void *a, const void *b)
{
	const struct sortable *x = a, *y = b;
	if (x->key != y->key)
		return x->key > y->key ? -1 : 1;
	return x->function < y->function ? -1 : 1; /* keeps the summary's order */
}

static bool layer_wanted(const struct report_options *o, const char *layer)
{
	for (size_t i = 0; i < o->layers.len; i++)
		if (!strcmp(o->layers.data[i], layer))
			return true;
	return !o->layers.len;
}

static void choose_functions(struct report *r)
{
	VEC(struct sortable) chosen = {0};
	for (size_t i = 0; i < r->summary->functions.len; i++) {
		const struct summary_function *f = &r->summary->functions.data[i];
		if (layer_wanted(r->options, f->layer))
			*vec_push(&chosen) = (struct sortable){f, sort_key(f, r->options->sort)};
	}
	if (chosen.len)
		qsort(chosen.data, chosen.len, sizeof(*chosen.data), compare_keys);
	for (size_t i = 0; i < chosen.len; i++)
		*vec_push(&r->functions) = chosen.data[i].function;
	vec_free(&chosen);
}

const char *report_function_name(const struct report *r, const struct summary_function *f,
				 char *ret, size_t size)
{
	uint64_t unused;
	if (!(layer_traits_of_name(f->layer) & LAYER_HAS_KERNELS) ||
	    !map64_get(&r->kernel_names, hash_bytes(f->name, strlen(f->name)), &unused))
		return f->name;
	kernel_name_short(ret, size, f->name);
	return ret;
}

/* What of the report is about nothing but a section is that section's; this is the rest. */
static void make_rest(struct report *r)
{
	for (size_t i = 0; i < r->gpu->kernels.len; i++) {
		const char *name = r->gpu->kernels.data[i].name;
		map64_set(&r->kernel_names, hash_bytes(name, strlen(name)), 1);
	}
	kernel_times_make(&r->kernel_times, r->timeline, r->gpu, demangle);
	make_losses(r);
	make_times(r);
	make_cost(r);
	choose_functions(r);
	report_layers_make(r);
	programs_make(r->programs, r->source, r->summary, end_ns(r->tables));
}

void report_make_verdict(struct report *ret, const struct row_source *source,
			 const struct report_options *options)
{
	*ret = (struct report){.source = source, .tables = source->tables, .options = options};
	make_losses(ret);
	make_cost(ret);
}

static void begin_rest(struct report *r, struct report_visitors *v,
		       const struct visit_options *visit)
{
	const struct report_options *o = r->options;
	v->before[v->nbefore++] =
		summary_visitor(r->summary, r->source, &(struct summary_options){.pid = o->pid});
	v->before[v->nbefore++] = gpu_summary_visitor(
		r->gpu, r->source,
		&(struct gpu_options){
			.pid = o->pid, .from_ns = o->from_ns, .to_ns = o->to_ns, .visit = *visit});
	v->before[v->nbefore++] = rank_times_visitor(r->rank_times, r->source, o->pid);
	profile_make(
		r->profile, r->source,
		&(struct profile_options){.pid = o->pid, .from_ns = o->from_ns, .to_ns = o->to_ns});
}

void report_make(struct report *ret, const char *path, const struct row_source *source,
		 const struct report_options *options, const struct visit_options *visit)
{
	struct report_visitors visitors = {0};
	*ret = (struct report){.path = path,
			       .source = source,
			       .tables = source->tables,
			       .options = options,
			       .summary = xcalloc(1, sizeof(*ret->summary)),
			       .gpu = xcalloc(1, sizeof(*ret->gpu)),
			       .profile = xcalloc(1, sizeof(*ret->profile)),
			       .timeline = xcalloc(1, sizeof(*ret->timeline)),
			       .collectives = xcalloc(1, sizeof(*ret->collectives)),
			       .programs = xcalloc(1, sizeof(*ret->programs)),
			       .rank_times = xcalloc(1, sizeof(*ret->rank_times))};
	if (!options->only)
		begin_rest(ret, &visitors, visit);
	struct row_visitor *timeline =
		timeline_visitor(ret->timeline, source,
				 &(struct timeline_options){.pid = options->pid,
							    .from_ns = options->from_ns,
							    .to_ns = options->to_ns,
							    .demangle = demangle});
	report_sections_begin(ret, &visitors);
	visitors.before[visitors.nbefore++] = timeline;
	for (size_t i = 0; i < visitors.nafter; i++)
		visitors.before[visitors.nbefore++] = visitors.after[i];
	rows_visit(source, visitors.before, visitors.nbefore, visit);
	collectives_make(ret->collectives, ret->timeline, REPORT_LONGEST);
	if (!options->only)
		make_rest(ret);
	report_sections_make(ret);
}

void report_free(struct report *r)
{
	vec_free(&r->losses);
	vec_free(&r->functions);
	vec_free(&r->layers);
	programs_free(r->programs);
	rank_times_free(r->rank_times);
	free(r->programs);
	free(r->rank_times);
	kernel_times_free(&r->kernel_times);
	map64_free(&r->kernel_names);
	report_sections_end(r);
	collectives_free(r->collectives);
	timeline_free(r->timeline);
	profile_free(r->profile);
	gpu_summary_free(r->gpu);
	summary_free(r->summary);
	free(r->collectives);
	free(r->timeline);
	free(r->profile);
	free(r->gpu);
	free(r->summary);
}
