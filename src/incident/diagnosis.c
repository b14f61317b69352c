/* diagnosis.c - puts anomalies together to incidents, and says of each whose its time was and why.
 */
#include "incident/diagnosis.h"

#include <math.h>
#include <stdlib.h>

#include "incident/diagnosis_impl.h"
#include "incident/incidents.h"

/* Of all slices of a recording. */
#define SLICES_MOST  4000.0
#define SLICES_LEAST 100.0
#define SLICES_BYTES 268435456.0
#define SUM_BYTES    24.0 /* of a probe or a metric in a slice, where all come */

/* A piece of what was told before is known after so much of it, at the soonest; twice as much where
 * its cause is beside another. */
#define PIECE_KNOWN_NS 1000000000ULL

/* ---- incidents ---- */

static struct diagnosed *incident_of(struct diagnosis *d, const struct anomaly *a)
{
	for (size_t i = 0; i < d->incidents.len && a->incident; i++)
		if (d->incidents.data[i].id == a->incident)
			return &d->incidents.data[i];
	struct diagnosed *ret = vec_push(&d->incidents);
	*ret = (struct diagnosed){
		.cause.culprit = {.frame = BLAME_NO_FRAME, .metric = UINT32_MAX, .rank = -1},
		.id = a->incident,
		.onset_ns = a->start_ns,
		.end_ns = a->end_ns,
		.told_ns = a->told_ns};
	return ret;
}

static void gather(struct diagnosing *x)
{
	for (size_t i = 0; i < x->list->rows.len; i++) {
		const struct anomaly *a = &x->list->rows.data[i].a;
		struct diagnosed *in = incident_of(x->ret, a);
		in->onset_ns = a->start_ns < in->onset_ns ? a->start_ns : in->onset_ns;
		in->end_ns = a->end_ns > in->end_ns ? a->end_ns : in->end_ns;
		in->told_ns = a->told_ns < in->told_ns ? a->told_ns : in->told_ns;
		*vec_push(&in->anomalies) = i;
	}
	/* Times of a damaged file may be any. */
	for (size_t i = 0; i < x->ret->incidents.len; i++) {
		struct diagnosed *in = &x->ret->incidents.data[i];
		uint64_t last_ns = x->s->tables->last_ns;
		in->end_ns = last_ns && in->end_ns > last_ns ? last_ns : in->end_ns;
		in->onset_ns = in->onset_ns < in->end_ns ? in->onset_ns : in->end_ns;
	}
}

static const struct anomaly *anomaly_at(const struct diagnosing *x, const struct diagnosed *in,
					size_t i)
{
	return &x->list->rows.data[in->anomalies.data[i]].a;
}

static void find_victim(const struct diagnosing *x, struct diagnosed *in)
{
	const struct anomaly **all = xcalloc(in->anomalies.len + 1, sizeof(const struct anomaly *));
	for (size_t i = 0; i < in->anomalies.len; i++)
		all[i] = anomaly_at(x, in, i);
	in->first = 0;
	for (size_t i = 0; i < in->anomalies.len; i++)
		if (incident_rank(all[i]) < incident_rank(all[in->first]))
			in->first = i;
	in->pid = diagnosis_victim(x->s->tables, all, in->anomalies.len, &in->cost_ns);
	in->lost_until_ns = 0;
	in->lost_by_pace = false;
	for (size_t i = 0; i < in->anomalies.len; i++) {
		const struct anomaly *a = all[i];
		uint64_t until_ns = a->lost_until_ns ? a->lost_until_ns : a->end_ns;
		in->lost_until_ns = until_ns > in->lost_until_ns ? until_ns : in->lost_until_ns;
		if (a->pid == in->pid && a->lost_ns >= in->cost_ns)
			in->lost_by_pace = a->lost_by_pace;
	}
	free(all);
}

/* Two of one victim at one time are one: some of it was told of its threads or its GPU. */
static void join_overlapping(struct diagnosis *d)
{
	for (size_t i = 0; i < d->incidents.len; i++)
		for (size_t k = d->incidents.len; k-- > i + 1;) {
			struct diagnosed *a = &d->incidents.data[i], *b = &d->incidents.data[k];
			if (a->pid != b->pid || a->onset_ns >= b->end_ns ||
			    b->onset_ns >= a->end_ns)
				continue;
			if (b->onset_ns < a->onset_ns)
				a->onset_ns = b->onset_ns;
			a->end_ns = b->end_ns > a->end_ns ? b->end_ns : a->end_ns;
			a->told_ns = b->told_ns < a->told_ns ? b->told_ns : a->told_ns;
			a->cost_ns = fmax(a->cost_ns, b->cost_ns);
			for (size_t j = 0; j < b->anomalies.len; j++)
				*vec_push(&a->anomalies) = b->anomalies.data[j];
			vec_free(&b->anomalies);
			for (size_t j = k; j + 1 < d->incidents.len; j++)
				d->incidents.data[j] = d->incidents.data[j + 1];
			d->incidents.len--;
			k = d->incidents.len; /* it is longer now */
		}
}

static int by_onset(const void *a, const void *b)
{
	const struct diagnosed *x = a, *y = b;
	return x->onset_ns < y->onset_ns ? -1 : x->onset_ns > y->onset_ns;
}

/* ---- pieces ---- */

/* An incident, and which slices and pieces are of it. */
struct asked {
	struct diagnosed *of;
	size_t slices, nslices; /* first, number */
	size_t pieces, npieces;
	bool cut;		 /* into several, one behind another */
	uint64_t from_ns, to_ns; /* of its slices */
};

struct asking {
	VEC(struct asked) incidents;
	questions_t slices, pieces;
};

/* Those that were slower; slices of plain time are no steps. */
static void keep_steps(struct diagnosed *in, const struct evidence_question *q, struct blame *each)
{
	for (size_t i = 0; i < q->slow.len; i++) {
		if (!q->by_steps || !(each[i].whole_ns > each[i].usual_ns)) {
			blame_free(&each[i]);
			continue;
		}
		*vec_push(&in->steps) = (struct diagnosed_step){.start_ns = q->slow.data[i].from_ns,
								.end_ns = q->slow.data[i].to_ns,
								.pid = in->pid,
								.blame = each[i]};
	}
}

/* When a piece was told that began after its incident was: with the first anomaly that began in it,
 * else once some of it had passed. */
static uint64_t piece_told(const struct diagnosing *x, const struct diagnosed *of,
			   const struct evidence_question *q)
{
	uint64_t told_ns = UINT64_MAX;
	uint64_t from_ns = q->slow.data[0].from_ns, to_ns = q->slow.data[q->slow.len - 1].to_ns;
	uint64_t known_ns = q->beside ? 2 * PIECE_KNOWN_NS : PIECE_KNOWN_NS;
	for (size_t i = 0; i < of->anomalies.len; i++) {
		const struct anomaly *a = anomaly_at(x, of, i);
		if (a->start_ns >= from_ns && a->start_ns < to_ns && a->told_ns >= from_ns &&
		    a->told_ns < told_ns)
			told_ns = a->told_ns;
	}
	if (told_ns < UINT64_MAX)
		return told_ns;
	return to_ns - from_ns < known_ns ? to_ns : from_ns + known_ns;
}

/* One piece of an incident as an incident of its own: with those of its anomalies that lie in it,
 * and the one that says most. */
static void add_piece(const struct diagnosing *x, struct diagnosis *to, const struct asked *a,
		      const struct evidence_question *q, struct evidence *e, struct blame *each)
{
	struct diagnosed *in = vec_push(&to->incidents);
	uint64_t from_ns = q->slow.data[0].from_ns, to_ns = q->slow.data[q->slow.len - 1].to_ns;
	bool cut = a->cut || q->beside;
	/* Without what is none of it at its ends (see diagnosis_cut.c). */
	bool since_onset = !cut && from_ns <= a->from_ns, until_end = !cut && to_ns >= a->to_ns;
	*in = (struct diagnosed){.id = a->of->id,
				 .onset_ns = since_onset ? a->of->onset_ns : from_ns,
				 .end_ns = until_end ? a->of->end_ns : to_ns,
				 .told_ns = a->of->told_ns,
				 .pid = a->of->pid,
				 .aside = a->of->aside,
				 .beside = q->beside,
				 .cost_ns = fmax(0, evidence_excess(e)),
				 .blamed = true,
				 .evidence = *e};
	if (in->told_ns <= in->onset_ns)
		in->told_ns = piece_told(x, a->of, q);
	for (size_t i = 0; i < a->of->anomalies.len; i++) {
		const struct anomaly *row = anomaly_at(x, a->of, i);
		if ((!since_onset || !until_end) &&
		    (row->start_ns >= in->end_ns || row->end_ns <= in->onset_ns) &&
		    i != a->of->first)
			continue;
		if (i == a->of->first)
			in->first = in->anomalies.len;
		*vec_push(&in->anomalies) = a->of->anomalies.data[i];
	}
	cause_find(&in->cause, &in->evidence);
	if (each)
		keep_steps(in, q, each);
}

/* A second; longer where sums of all slices, of each probe and metric, would need too much memory.
 */
static uint64_t slice_ns(const struct diagnosing *x)
{
	const struct rec_tables *t = x->s->tables;
	double each = SUM_BYTES * (double)(t->probes.len + t->metrics.len + 1), ns = 0;
	double most = fmin(SLICES_MOST, SLICES_BYTES / each);
	for (size_t i = 0; i < x->ret->incidents.len; i++) {
		const struct diagnosed *in = &x->ret->incidents.data[i];
		ns += (double)(in->end_ns - in->onset_ns);
	}
	return (uint64_t)fmin(1e18, fmax(1e9, ns / fmax(SLICES_LEAST, most)));
}

/* Which time of which incidents is asked for; those without any are told as they are. */
static void ask(struct diagnosing *x, struct asking *all, struct diagnosis *to)
{
	uint64_t length_ns = slice_ns(x);
	for (size_t i = 0; i < x->ret->incidents.len; i++) {
		struct diagnosed *in = &x->ret->incidents.data[i];
		struct evidence_question whole = {0};
		struct asked a = {.of = in, .slices = all->slices.len};
		if (diagnosis_spans(x, in, &whole)) {
			diagnosis_slice(&whole, length_ns, &all->slices);
			a.nslices = all->slices.len - a.slices;
			a.from_ns = whole.slow.data[0].from_ns;
			a.to_ns = whole.slow.data[whole.slow.len - 1].to_ns;
			*vec_push(&all->incidents) = a;
		} else {
			*vec_push(&to->incidents) = *in;
		}
		vec_free(&whole.slow);
	}
}

/* Which pieces are of which incident, when some were dropped: their stretches are as before. */
static void count_pieces(struct asking *all)
{
	size_t first = 0;
	for (size_t i = 0; i < all->incidents.len; i++) {
		struct asked *a = &all->incidents.data[i];
		size_t last_stretch = a->pieces + a->npieces;
		size_t apart = 0;
		a->pieces = first;
		for (; first < all->pieces.len && all->pieces.data[first].stretch <= last_stretch;
		     first++)
			apart += !all->pieces.data[first].beside;
		a->npieces = first - a->pieces;
		a->cut = apart > 1;
	}
}

static void cut(struct diagnosing *x, struct asking *all, const struct diagnosis_options *options)
{
	struct evidence *e = xcalloc(all->slices.len + 1, sizeof(*e));
	evidence_make(e, NULL, x->s, x->t, x->w, all->slices.data, all->slices.len);
	for (size_t i = 0; i < all->incidents.len; i++) {
		struct asked *a = &all->incidents.data[i];
		a->pieces = all->pieces.len;
		diagnosis_cut(all->slices.data + a->slices, e + a->slices, a->nslices,
			      options->besides, &all->pieces);
		a->npieces = all->pieces.len - a->pieces;
	}
	for (size_t i = 0; i < all->slices.len; i++)
		evidence_free(&e[i]);
	free(e);
	diagnosis_compare_beside(x, &all->pieces);
	count_pieces(all);
}

static void answer(const struct diagnosing *x, struct asking *all, struct diagnosis *to,
		   const struct diagnosis_options *options)
{
	size_t n = all->pieces.len;
	bool each = options->each;
	struct evidence *e = xcalloc(n + 1, sizeof(*e));
	struct blame **steps = xcalloc(n + 1, sizeof(struct blame *));
	for (size_t i = 0; i < n && each; i++)
		if (!all->pieces.data[i].beside) /* its steps are of what it came to */
			steps[i] = xcalloc(all->pieces.data[i].slow.len, sizeof(struct blame));
	evidence_make(e, each ? steps : NULL, x->s, x->t, x->w, all->pieces.data, n);
	for (size_t i = 0; i < all->incidents.len; i++) {
		const struct asked *a = &all->incidents.data[i];
		size_t first = to->incidents.len;
		for (size_t k = a->pieces; k < a->pieces + a->npieces; k++) {
			add_piece(x, to, a, &all->pieces.data[k], &e[k], steps[k]);
			to->incidents.data[to->incidents.len - 1].question = k;
		}
		diagnosis_compare_pace(to->incidents.data + first, a->npieces, a->of);
		vec_free(&a->of->anomalies);
	}
	for (size_t i = 0; i < n; i++)
		free(steps[i]);
	free(steps);
	free(e);
}

static void asking_free(struct asking *all)
{
	for (size_t i = 0; i < all->slices.len; i++)
		vec_free(&all->slices.data[i].slow);
	for (size_t i = 0; i < all->pieces.len; i++)
		vec_free(&all->pieces.data[i].slow);
	vec_free(&all->slices);
	vec_free(&all->pieces);
	vec_free(&all->incidents);
}

/* ---- all of it ---- */

/* What all cost: of those at one time, such as ranks that wait for each other, the dearest. */
static double cost_of(const struct diagnosis *d)
{
	double ret = 0, dearest = 0;
	uint64_t end_ns = 0;
	for (size_t i = 0; i < d->incidents.len; i++) {
		const struct diagnosed *in = &d->incidents.data[i];
		if (in->onset_ns >= end_ns) {
			ret += dearest;
			dearest = 0;
		}
		dearest = fmax(dearest, in->cost_ns);
		end_ns = in->end_ns > end_ns ? in->end_ns : end_ns;
	}
	return ret + dearest;
}

void diagnosis_make(struct diagnosis *ret, const struct row_source *s, const struct timeline *t,
		    const struct steps *steps, const struct anomaly_list *list,
		    const struct diagnosis_options *options)
{
	struct diagnosis found = {0};
	struct asking all = {0};
	struct diagnosing x = {.ret = &found, .s = s, .t = t, .steps = steps, .list = list};
	*ret = (struct diagnosis){0};
	gather(&x);
	if (!found.incidents.len)
		return;
	x.w = blame_world_new(s, t);
	if (options->no_walk)
		blame_world_forget_wakers(x.w);
	for (size_t i = 0; i < found.incidents.len; i++)
		find_victim(&x, &found.incidents.data[i]);
	join_overlapping(&found);
	qsort(found.incidents.data, found.incidents.len, sizeof(*found.incidents.data), by_onset);
	for (size_t i = 0; i < found.incidents.len; i++)
		find_victim(&x, &found.incidents.data[i]);
	diagnosis_spread(&x);
	diagnosis_ask_ranks(&x);
	ask(&x, &all, ret);
	cut(&x, &all, options);
	answer(&x, &all, ret, options);
	diagnosis_join_ranks(ret);
	if (options->path_most)
		diagnosis_paths(ret, all.pieces.data, x.w, options);
	qsort(ret->incidents.data, ret->incidents.len, sizeof(*ret->incidents.data), by_onset);
	ret->cost_ns = cost_of(ret);
	for (size_t i = 0; i < ret->incidents.len; i++)
		diagnosis_place(&ret->incidents.data[i], list);
	asking_free(&all);
	vec_free(&found.incidents);
	diagnosis_spans_free(&x);
	blame_world_free(x.w);
}

void diagnosed_free(struct diagnosed *in)
{
	for (size_t k = 0; k < in->steps.len; k++)
		blame_free(&in->steps.data[k].blame);
	vec_free(&in->steps);
	blame_path_free(&in->path);
	vec_free(&in->anomalies);
	if (in->blamed) {
		evidence_free(&in->evidence);
		cause_free(&in->cause);
	}
}

void diagnosis_free(struct diagnosis *d)
{
	for (size_t i = 0; i < d->incidents.len; i++)
		diagnosed_free(&d->incidents.data[i]);
	vec_free(&d->incidents);
}

const struct diagnosed *diagnosis_came_to(const struct diagnosis *d, const struct diagnosed *beside)
{
	for (size_t i = 0; i < d->incidents.len; i++) {
		const struct diagnosed *in = &d->incidents.data[i];
		if (!in->beside && in->id == beside->id && in->pid == beside->pid &&
		    in->onset_ns <= beside->onset_ns && in->end_ns >= beside->end_ns)
			return in;
	}
	return NULL;
}
