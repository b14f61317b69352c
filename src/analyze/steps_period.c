/* steps_period.c - repetition in a text of operations that has no update: inference.
 *
 * Operations and pairs of neighbours that come at regular distances are found first. Those of a
 * layer come more often than those of a batch or token, and what comes least often, but
 * regularly, marks the longest repetition. Two things come less often than steps and must not be
 * taken for them: values handed to the host now and then, and requests that have the same number
 * of tokens each; so a repetition that hands a value to the host each time is a step. */
#include "analyze/steps_impl.h"
#include "base/sort.h"

#define LEAST_STEPS 5
#define RUN_MOST    16 /* launches of a graph in a step, by their pauses */
#define STEP_MOST   80 /* by what marks it: the steps of a diffusion, and what follows */

/* An operation, or two neighbours, and where it is. */
struct gram {
	uint32_t count;
	uint32_t at;  /* of its positions */
	uint32_t gap; /* the median distance */
	bool read;    /* one of its operations hands something to the host */
};

struct grams {
	const struct steps_text *t;
	uint32_t *of;	     /* position -> gram; the pairs' from t->len on */
	uint32_t *positions; /* by gram */
	VEC(struct gram) rows;
};

/* ---- grams ---- */

static uint32_t gram_of_pair(struct grams *g, struct map64 *pairs, size_t i)
{
	const struct steps_op *o = g->t->ops + i;
	uint64_t key = (uint64_t)o[0].symbol << 24 | o[1].symbol, number;
	if (map64_get(pairs, key, &number))
		return (uint32_t)number;
	number = g->rows.len;
	map64_set(pairs, key, number);
	vec_push(&g->rows)->read = (steps_class(g->t, i) | steps_class(g->t, i + 1)) & CLASS_READ;
	return (uint32_t)number;
}

static void grams_make(struct grams *g, const struct steps_text *t)
{
	struct map64 pairs = {0};
	uint32_t at = 0;
	*g = (struct grams){.t = t};
	g->of = xcalloc(2 * t->len + 1, sizeof(*g->of));
	g->positions = xcalloc(2 * t->len + 1, sizeof(*g->positions));
	for (size_t s = 0; s < t->symbols_len; s++)
		vec_push(&g->rows)->read = t->symbols[s].class & CLASS_READ;
	for (size_t i = 0; i < t->len; i++) {
		g->of[i] = t->ops[i].symbol;
		if (i + 1 < t->len)
			g->of[t->len + i] = gram_of_pair(g, &pairs, i);
	}
	map64_free(&pairs);
	size_t all = t->len ? 2 * t->len - 1 : 0;
	for (size_t i = 0; i < all; i++)
		g->rows.data[g->of[i]].count++;
	for (size_t k = 0; k < g->rows.len; k++) {
		g->rows.data[k].at = at;
		at += g->rows.data[k].count;
		g->rows.data[k].count = 0;
	}
	for (size_t i = 0; i < all; i++) {
		struct gram *row = &g->rows.data[g->of[i]];
		g->positions[row->at + row->count++] = (uint32_t)(i < t->len ? i : i - t->len);
	}
}

static void grams_free(struct grams *g)
{
	free(g->of);
	free(g->positions);
	vec_free(&g->rows);
}

/* ---- regularity ---- */

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

static uint32_t median_gap(const uint32_t *positions, uint32_t n)
{
	uint32_t *gaps = xcalloc(n, sizeof(*gaps));
	for (uint32_t i = 0; i + 1 < n; i++)
		gaps[i] = positions[i + 1] - positions[i];
	qsort(gaps, n - 1, sizeof(*gaps), compare_u32);
	uint32_t ret = gaps[(n - 1) / 2];
	free(gaps);
	return ret;
}

/* At most a tenth of the distances, and one, are off by more than a quarter. */
static bool is_regular(struct grams *g, struct gram *row)
{
	const uint32_t *p = g->positions + row->at;
	uint32_t off = 0;
	if (row->count < LEAST_STEPS)
		return false;
	row->gap = median_gap(p, row->count);
	/* Of one kernel over and over nobody knows how many are a step; a graph is a whole one. */
	uint32_t class = steps_class(g->t, p[0]);
	if (row->gap < 2 && class & CLASS_LAUNCH && !(class & CLASS_GRAPH))
		return false;
	for (uint32_t i = 0; i + 1 < row->count; i++) {
		uint64_t gap = p[i + 1] - p[i];
		off += gap * 4 < (uint64_t)row->gap * 3 || gap * 4 > (uint64_t)row->gap * 5;
	}
	/* What the repetition makes up must be a good part of all. */
	return off <= 1 + row->count / 10 && (uint64_t)row->count * row->gap * 10 >= g->t->len * 3;
}

static bool about(uint64_t a, uint64_t b)
{
	uint64_t slack = 1 + (a > b ? a : b) / 33;
	return a > b ? a - b <= slack : b - a <= slack;
}

/* ---- choice ---- */

struct regular {
	struct grams *grams;
	VEC(struct gram *) rows; /* by count */
};

static int compare_counts(const void *a, const void *b)
{
	const struct gram *x = *(struct gram *const *)a, *y = *(struct gram *const *)b;
	if (x->count != y->count)
		return x->count < y->count ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* The largest count about as high as a value is handed to the host or a token chosen, or twice to
 * four times in each; 0: that is not done regularly. */
static uint32_t count_of_reads(const struct regular *r, const struct steps_text *t)
{
	uint32_t ret = 0;
	for (size_t s = 0; s < t->symbols_len; s++) {
		const struct gram *read = &r->grams->rows.data[s];
		bool hands_over = t->symbols[s].class & (CLASS_READ | CLASS_CHOICE);
		for (uint32_t k = 1; hands_over && read->count >= LEAST_STEPS && k <= 4; k++)
			for (size_t i = 0; i < r->rows.len; i++) {
				const struct gram *row = r->rows.data[i];
				if (!row->read && about((uint64_t)row->count * k, read->count) &&
				    row->count > ret)
					ret = row->count;
			}
	}
	return ret;
}

/* Steps of which few have a little more than the others must not be taken together to one: `often`
 * comes once a step, `seldom` once in several. */
static bool is_little_more(const struct gram *seldom, const struct gram *often)
{
	if (often->gap < 40 || seldom->gap < often->gap * 2)
		return false;
	uint64_t repeats = (seldom->gap + often->gap / 2) / often->gap;
	uint64_t usual = repeats * often->gap;
	uint64_t more = seldom->gap > usual ? seldom->gap - usual : 0;
	return more * 20 <= often->gap && about(repeats * seldom->count, often->count);
}

/* A graph that is nearly all there is, as of a function that JAX compiled: it is launched as a
 * whole, and what comes now and then among its launches is another function, as of an evaluation.
 * Not where something else comes by itself at regular distances that are no longer than a step may
 * be: that marks steps of many launches. */
static const struct gram *graph_alone(const struct regular *r, const struct steps_text *t)
{
	const struct gram *ret = NULL;
	for (size_t i = 0; i < r->rows.len; i++) {
		const struct gram *row = r->rows.data[i];
		size_t symbol = (size_t)(row - r->grams->rows.data);
		if (symbol >= t->symbols_len) /* two neighbours */
			continue;
		if (t->symbols[symbol].class & CLASS_GRAPH &&
		    (uint64_t)row->count * 10 >= (uint64_t)t->len * 9)
			ret = row;
		else if (row->gap <= STEP_MOST)
			return NULL;
	}
	return ret;
}

static const struct gram *choose(const struct regular *r, const struct steps_text *t)
{
	const struct gram *best = NULL;
	uint32_t with_reads = count_of_reads(r, t);
	for (size_t i = 0; i < r->rows.len; i++) {
		const struct gram *row = r->rows.data[i];
		if (row->read)
			continue;
		/* What hands over a value each time is a step, however evenly its layers repeat. */
		bool is_step = best && with_reads && about(best->count, with_reads);
		if (!best)
			best = row;
		else if (!is_step && is_little_more(best, row))
			best = row;
		/* Of about the same count the highest: none of its steps is missing. */
		else if (about(row->count, best->count) && row->count > best->count)
			best = row;
		else if (row->count == with_reads && best->count < with_reads)
			best = row;
	}
	return best;
}

/* Leaves out what lies apart from the rest at both ends. */
static void keep_run(const struct grams *g, const struct gram *row, steps_positions_t *ret)
{
	const uint32_t *p = g->positions + row->at;
	uint32_t first = 0, last = row->count - 1;
	while (first < last && (uint64_t)p[first + 1] - p[first] > 2ULL * row->gap)
		first++;
	while (last > first && (uint64_t)p[last] - p[last - 1] > 2ULL * row->gap)
		last--;
	for (uint32_t i = first; i <= last; i++)
		*vec_push(ret) = p[i];
}

/* ---- several launches a step ---- */

/* What the thread did between two operations, ns. */
static uint64_t pause_ns(const struct steps_text *t, uint32_t from, uint32_t to)
{
	const struct steps_op *a = &t->ops[from], *b = &t->ops[to];
	uint64_t end_ns = a->start_ns + a->dur_ns;
	return b->start_ns > end_ns ? b->start_ns - end_ns : 0;
}

/* Half of what the longest twentieth of the pauses is at least. */
static uint64_t long_pause_ns(const struct steps_text *t, const steps_positions_t *p)
{
	uint64_t *pauses = xcalloc(p->len, sizeof(*pauses));
	for (size_t i = 0; i + 1 < p->len; i++)
		pauses[i] = pause_ns(t, p->data[i], p->data[i + 1]);
	qsort(pauses, p->len - 1, sizeof(*pauses), sort_compare_u64);
	uint64_t ret = pauses[(p->len - 1) * 19 / 20] / 2;
	free(pauses);
	return ret;
}

/* Whether three of four long pauses are within half of the middle one: what is waited for there is
 * work, and not the next request. */
static bool are_even(const struct steps_text *t, const steps_positions_t *p, uint64_t long_ns)
{
	uint64_t *pauses = xcalloc(p->len, sizeof(*pauses));
	size_t n = 0, near = 0;
	for (size_t i = 1; i < p->len; i++) {
		uint64_t ns = pause_ns(t, p->data[i - 1], p->data[i]);
		if (ns > long_ns)
			pauses[n++] = ns;
	}
	qsort(pauses, n, sizeof(*pauses), sort_compare_u64);
	uint64_t middle = n ? pauses[n / 2] : 0;
	for (size_t i = 0; i < n; i++)
		near += pauses[i] * 2 >= middle && pauses[i] * 2 <= middle * 3;
	free(pauses);
	return n >= 2 * LEAST_STEPS && near * 4 >= n * 3;
}

/* The length of the run that begins with the i-th of them. */
static size_t run_length(const struct steps_text *t, const steps_positions_t *p, size_t i,
			 uint64_t long_ns)
{
	size_t n = 1;
	while (i + n < p->len && pause_ns(t, p->data[i + n - 1], p->data[i + n]) <= long_ns)
		n++;
	return n;
}

/* Of the launches those with which a step of `usual` begins: a run, but for shorter ones behind one
 * another. Something else held these up amid steps, as a quota of the CPU does. */
static void keep_first_of_steps(const struct steps_text *t, steps_positions_t *p, uint64_t long_ns,
				uint32_t usual)
{
	size_t left = 0, so_far = 0; /* launches of the step that short runs make up so far */
	for (size_t i = 0, n; i < p->len; i += n) {
		n = run_length(t, p, i, long_ns);
		bool is_whole = n >= usual;
		so_far = is_whole ? 0 : so_far;
		for (size_t k = 0; k < (is_whole ? 1 : n); k++) {
			if (!so_far)
				p->data[left++] = p->data[i + k];
			if (!is_whole && ++so_far == usual)
				so_far = 0;
		}
	}
	p->len = left;
}

/* Where launches of one function come in runs of as many each, with long pauses between that are
 * alike, a run is a step: batches whose gradients are accumulated, and the wait for the loss. */
static void join_runs(const struct steps_text *t, steps_positions_t *p)
{
	uint64_t lengths[RUN_MOST + 1] = {0};
	uint32_t length = 1, best = 1;
	if (p->len < LEAST_STEPS)
		return;
	uint64_t long_ns = long_pause_ns(t, p);
	for (size_t i = 1; i < p->len; i++) {
		if (pause_ns(t, p->data[i - 1], p->data[i]) <= long_ns) {
			length++;
			continue;
		}
		lengths[length <= RUN_MOST ? length : 0] += length;
		length = 1;
	}
	for (uint32_t i = 1; i <= RUN_MOST; i++)
		best = lengths[i] > lengths[best] ? i : best;
	if (best == 1 || lengths[best] * 4 < p->len * 3 || !are_even(t, p, long_ns))
		return;
	keep_first_of_steps(t, p, long_ns, best);
}

void steps_anchors_of_repetition(const struct steps_text *t, steps_positions_t *ret)
{
	struct grams g;
	struct regular regular = {.grams = &g};
	if (t->len < LEAST_STEPS || t->len >= UINT32_MAX / 2)
		return;
	grams_make(&g, t);
	for (size_t k = 0; k < g.rows.len; k++)
		if (is_regular(&g, &g.rows.data[k]))
			*vec_push(&regular.rows) = &g.rows.data[k];
	if (regular.rows.len) {
		qsort(regular.rows.data, regular.rows.len, sizeof(*regular.rows.data),
		      compare_counts);
		const struct gram *graph = graph_alone(&regular, t);
		const struct gram *best = graph ? graph : choose(&regular, t);
		if (best)
			keep_run(&g, best, ret);
		if (graph)
			join_runs(t, ret);
	}
	vec_free(&regular.rows);
	grams_free(&g);
}
