/* blame_split.c - samples of what a thread ran, of a slow and of a usual time, beside each other.
 *
 * Where all that it ran took longer alike, the time is spread: no line of it is at fault. By how
 * much is what three quarters of the usual time took at least. What is more than that is of the
 * lines that have it beyond chance: samples come at random, so that n of them are uncertain by
 * their root. */
#include "analyze/blame_split.h"

#include <math.h>
#include <stdlib.h>

#define SPREAD_LEAST  1.05 /* less is not told from chance */
#define SPREAD_SHARE  0.25 /* of the usual time may have grown less than the rest */
#define CHANCE_SIGMAS 2.0
#define WORTH_A_LINE  0.02 /* of the excess */

struct line {
	uint32_t frame;
	uint8_t kind;
	double slow, usual;	/* ns, of as much work */
	double slow_n, usual_n; /* samples */
};

struct lines {
	struct map64 place_of;
	VEC(struct line) all;
	double slow_weight, usual_weight;
	double slow_n, usual_n;
};

static struct line *line_of(struct lines *l, const struct blame_sample *s)
{
	uint64_t key = (uint64_t)s->kind << 32 | s->frame, at;
	if (!map64_get(&l->place_of, key, &at)) {
		at = l->all.len;
		map64_set(&l->place_of, key, at);
		*vec_push(&l->all) = (struct line){.frame = s->frame, .kind = s->kind};
	}
	return &l->all.data[at];
}

static size_t first_from(const struct blame_sample *s, size_t n, uint64_t ns)
{
	size_t low = 0;
	while (low < n) {
		size_t middle = low + (n - low) / 2;
		if (s[middle].time_ns >= ns)
			n = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* A sample stands for the time before it: of one that comes just after a stretch nothing is known.
 */
static void read_runs(struct lines *l, const struct blame_world *w, const struct blame_owner *of,
		      const struct blame_runs *runs, bool is_usual)
{
	size_t n;
	const struct blame_sample *s = blame_samples_of(w, of->thread, &n);
	for (size_t i = 0; s && i < runs->len; i++) {
		const struct blame_run *r = &runs->all[i];
		if (r->thread != of->thread || r->via != of->via)
			continue;
		for (size_t k = first_from(s, n, r->from_ns); k < n && s[k].time_ns < r->to_ns;
		     k++) {
			struct line *at = line_of(l, &s[k]);
			double weight = (double)s[k].weight_ns;
			*(is_usual ? &at->usual : &at->slow) += weight;
			*(is_usual ? &at->usual_n : &at->slow_n) += 1;
			*(is_usual ? &l->usual_weight : &l->slow_weight) += weight;
			*(is_usual ? &l->usual_n : &l->slow_n) += 1;
		}
	}
}

/* Makes times of weights. */
static void scale(struct lines *l, double slow_ns, double usual_ns)
{
	for (size_t i = 0; i < l->all.len; i++) {
		struct line *at = &l->all.data[i];
		at->slow = l->slow_weight > 0 ? at->slow * slow_ns / l->slow_weight : 0;
		at->usual = l->usual_weight > 0 ? at->usual * usual_ns / l->usual_weight : 0;
	}
}

static int by_growth(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	double gx = x->slow * y->usual, gy = y->slow * x->usual; /* slow / usual */
	return gx < gy ? -1 : gx > gy;
}

/* How many times as long as usual all took at least that the thread usually runs; 1: not so. */
static double spread(struct lines *l, double usual_ns)
{
	double seen = 0;
	if (!l->all.len || usual_ns <= 0)
		return 1;
	qsort(l->all.data, l->all.len, sizeof(*l->all.data), by_growth);
	for (size_t i = 0; i < l->all.len; i++) {
		const struct line *at = &l->all.data[i];
		if (at->usual <= 0)
			continue;
		seen += at->usual;
		if (seen >= SPREAD_SHARE * usual_ns)
			return at->slow > SPREAD_LEAST * at->usual ? at->slow / at->usual : 1;
	}
	return 1;
}

/* What the line has beyond its share, and beyond chance. */
static double beyond(const struct lines *l, const struct line *at, double times, double slow_ns,
		     double usual_ns)
{
	double more = at->slow - times * at->usual;
	double of_slow = l->slow_n > 0 ? slow_ns / l->slow_n * sqrt(at->slow_n) : 0;
	double of_usual = l->usual_n > 0 ? times * usual_ns / l->usual_n * sqrt(at->usual_n) : 0;
	return more > CHANCE_SIGMAS * sqrt(of_slow * of_slow + of_usual * of_usual) ? more : 0;
}

static void add_part(struct blame_split *ret, const struct blame_owner *of, const struct line *at,
		     double ratio)
{
	struct blame_owner owner = *of;
	owner.kind = at->kind;
	owner.frame = at->frame;
	*vec_push(&ret->parts) = (struct blame_split_part){
		.owner = owner, .ratio = ratio, .whole_ns = at->slow, .usual_ns = at->usual};
}

void blame_split_make(struct blame_split *ret, const struct blame_world *w,
		      const struct blame_owner *of, const struct blame_runs *slow,
		      const struct blame_runs *usual)
{
	struct lines l = {0};
	double more = slow->ns - usual->ns, lines_ns = 0;
	read_runs(&l, w, of, slow, false);
	read_runs(&l, w, of, usual, true);
	scale(&l, slow->ns, usual->ns);
	double times = spread(&l, usual->ns);
	double spread_ns = fmin((times - 1) * usual->ns, more);
	for (size_t i = 0; i < l.all.len; i++)
		lines_ns += beyond(&l, &l.all.data[i], times, slow->ns, usual->ns);
	double left = more - spread_ns;
	if (more > 0 && l.slow_n > 0) {
		/* Where no line stands out the rest is spread as well. */
		double of_lines = lines_ns > 0 ? fmin(left, lines_ns) / lines_ns : 0;
		double rest = more;
		for (size_t i = 0; i < l.all.len; i++) {
			double ns =
				of_lines * beyond(&l, &l.all.data[i], times, slow->ns, usual->ns);
			if (ns < WORTH_A_LINE * more)
				continue;
			add_part(ret, of, &l.all.data[i], ns / more);
			rest -= ns;
		}
		const struct line all = {.frame = BLAME_NO_FRAME,
					 .kind = BLAME_SPREAD,
					 .slow = slow->ns,
					 .usual = usual->ns};
		if (rest > 0)
			add_part(ret, of, &all, rest / more);
	}
	map64_free(&l.place_of);
	vec_free(&l.all);
}

void blame_split_free(struct blame_split *s)
{
	vec_free(&s->parts);
}
