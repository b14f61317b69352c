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
	VEC(struct line) all;
	double slow_n, usual_n;
};

static struct blame_line *line_of(struct blame_lines *l, uint8_t kind, uint32_t frame)
{
	uint64_t key = (uint64_t)kind << 32 | frame, at;
	if (!map64_get(&l->place_of, key, &at)) {
		at = l->all.len;
		map64_set(&l->place_of, key, at);
		*vec_push(&l->all) = (struct blame_line){.frame = frame, .kind = kind};
	}
	return &l->all.data[at];
}

/* A sample stands for the time before it: of one that comes just after a stretch nothing is known.
 */
void blame_lines_read(struct blame_lines *ret, const struct blame_world *w,
		      const struct blame_owner *of, const struct blame_run *runs, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		const struct blame_run *r = &runs[i];
		size_t n;
		if (r->owner != of->thread || r->way.via != of->via || r->way.peer != of->peer)
			continue;
		const struct blame_sample *s = blame_samples_of(w, r->thread, &n);
		for (size_t k = s ? blame_sample_from(s, n, r->from_ns) : 0;
		     s && k < n && s[k].time_ns < r->to_ns; k++) {
			struct blame_line *at = line_of(ret, s[k].kind, s[k].frame);
			at->ns += (double)s[k].weight_ns;
			at->n++;
			ret->ns += (double)s[k].weight_ns;
			ret->n++;
		}
	}
}

void blame_lines_free(struct blame_lines *l)
{
	map64_free(&l->place_of);
	vec_free(&l->all);
}

/* Both beside each other, as times: weights are of samples, which may be fewer than the clock's. */
static void join(struct lines *ret, const struct blame_lines *slow, double slow_ns,
		 const struct blame_lines *usual, double usual_ns)
{
	double of_slow = slow->ns > 0 ? slow_ns / slow->ns : 0;
	double of_usual = usual->ns > 0 ? usual_ns / usual->ns : 0;
	*ret = (struct lines){.slow_n = slow->n, .usual_n = usual->n};
	for (size_t i = 0; i < slow->all.len; i++) {
		const struct blame_line *l = &slow->all.data[i];
		*vec_push(&ret->all) = (struct line){.frame = l->frame,
						     .kind = l->kind,
						     .slow = of_slow * l->ns,
						     .slow_n = l->n};
	}
	for (size_t i = 0; i < usual->all.len; i++) {
		const struct blame_line *l = &usual->all.data[i];
		uint64_t at;
		if (!map64_get(&slow->place_of, (uint64_t)l->kind << 32 | l->frame, &at)) {
			at = ret->all.len;
			*vec_push(&ret->all) = (struct line){.frame = l->frame, .kind = l->kind};
		}
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there is one at at */
		ret->all.data[at].usual = of_usual * l->ns;
		ret->all.data[at].usual_n = l->n;
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
	double chance = CHANCE_SIGMAS * sqrt(of_slow * of_slow + of_usual * of_usual);
	return more > 0 && more > chance * (1 - 1e-9) ? more : 0; /* ties are beyond, too */
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

void blame_split_make(struct blame_split *ret, const struct blame_owner *of,
		      const struct blame_lines *slow, double slow_ns,
		      const struct blame_lines *usual, double usual_ns)
{
	struct lines l;
	double more = slow_ns - usual_ns, lines_ns = 0;
	if (more <= 0 || slow->n <= 0)
		return;
	join(&l, slow, slow_ns, usual, usual_ns);
	double times = spread(&l, usual_ns);
	double left = more - fmin((times - 1) * usual_ns, more);
	for (size_t i = 0; i < l.all.len; i++)
		lines_ns += beyond(&l, &l.all.data[i], times, slow_ns, usual_ns);
	/* Where no line stands out the rest is spread as well. */
	double of_lines = lines_ns > 0 ? fmin(left, lines_ns) / lines_ns : 0;
	double rest = more;
	for (size_t i = 0; i < l.all.len; i++) {
		double ns = of_lines * beyond(&l, &l.all.data[i], times, slow_ns, usual_ns);
		if (ns < WORTH_A_LINE * more)
			continue;
		add_part(ret, of, &l.all.data[i], ns / more);
		rest -= ns;
	}
	const struct line all = {
		.frame = BLAME_NO_FRAME, .kind = BLAME_SPREAD, .slow = slow_ns, .usual = usual_ns};
	if (rest > 0)
		add_part(ret, of, &all, rest / more);
	vec_free(&l.all);
}

void blame_split_free(struct blame_split *s)
{
	vec_free(&s->parts);
}
