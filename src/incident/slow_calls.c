/* slow_calls.c - how rare calls are, in steps of half the chance: of each function outside of
 * anomalies, and in each window of one. */
#include "incident/slow_calls.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "detect/windows.h"

#define RARITIES	20	   /* -log2 of a chance, the last are as rare or rarer */
#define LEAST_TRUE	0.9	   /* of the calls at the bound: the precision that is wanted */
#define MODEL_CALLS	100.0	   /* that the model's chances count as, beside those that came */
#define SHARE_OF_EFFECT 0.1	   /* of the least effect, that a function has to have lost */
#define GROUPS_MOST	(1u << 20) /* 128 MB */
/* Whatever others are: far out, and so much, where no least effect is asked for. */
#define ALONE_Z	      8.0
#define ALONE_LOST_NS 1000000.0

struct stretch {
	uint32_t pid;
	uint64_t start_ns, end_ns;
};

struct rarities {
	uint32_t calls[RARITIES];
};

/* Calls of a function in a window of an anomaly. */
struct group {
	struct rarities of;
	uint32_t function; /* its place */
	uint32_t slow_from;
	double lost_ns; /* by all of them, less what some were quicker */
};

struct slow_calls {
	uint64_t window_ns;
	double least_ns;	       /* the least effect, of a window */
	VEC(struct stretch) stretches; /* by process and time once a call has come */
	bool joined;		       /* they are */
	struct map64 function_at;      /* to place in usual */
	VEC(struct rarities) usual;    /* outside of anomalies */
	struct map64 group_at;	       /* hash of process, window and function to place */
	VEC(struct group) groups;
};

struct slow_calls *slow_calls_new(uint64_t window_ns, double least_effect)
{
	struct slow_calls *s = xcalloc(1, sizeof(*s));
	s->window_ns = window_ns;
	s->least_ns = (double)window_ns * least_effect;
	return s;
}

void slow_calls_free(struct slow_calls *s)
{
	vec_free(&s->stretches);
	vec_free(&s->usual);
	vec_free(&s->groups);
	map64_free(&s->function_at);
	map64_free(&s->group_at);
	free(s);
}

/* ---- when ---- */

/* What it is of begins and ends within windows: also in that before it, and that after. */
void slow_calls_anomaly(struct slow_calls *s, uint32_t pid, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t from = start_ns > s->window_ns ? start_ns - s->window_ns : 0;
	*vec_push(&s->stretches) = (struct stretch){pid, from, end_ns + s->window_ns};
}

static int by_place(const void *a, const void *b)
{
	const struct stretch *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static void join_stretches(struct slow_calls *s)
{
	struct stretch *all = s->stretches.data;
	size_t kept = 0;
	s->joined = true;
	if (s->stretches.len)
		qsort(all, s->stretches.len, sizeof(*all), by_place);
	for (size_t i = 0; i < s->stretches.len; i++) {
		struct stretch *last = kept ? &all[kept - 1] : NULL;
		if (!last || last->pid != all[i].pid || last->end_ns < all[i].start_ns)
			all[kept++] = all[i];
		else if (last->end_ns < all[i].end_ns)
			last->end_ns = all[i].end_ns;
	}
	s->stretches.len = kept;
}

static bool is_in_anomaly(const struct slow_calls *s, const struct slow_call *c)
{
	size_t low = 0, high = s->stretches.len;
	struct stretch at = {c->pid, c->end_ns, 0};
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (by_place(&s->stretches.data[middle], &at) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	const struct stretch *last = low ? &s->stretches.data[low - 1] : NULL;
	return last && last->pid == c->pid && c->end_ns < last->end_ns;
}

/* ---- how rare ---- */

static uint32_t rarity_of(const struct slow_call *c)
{
	double rarity = -log2(baseline_chance(c->usual, c->own_ns));
	return rarity < RARITIES - 1 ? (uint32_t)rarity : RARITIES - 1;
}

static uint32_t function_of(struct slow_calls *s, const struct slow_call *c)
{
	uint64_t at = s->usual.len;
	if (map64_get(&s->function_at, c->function, &at))
		return (uint32_t)at;
	map64_set(&s->function_at, c->function, at);
	vec_push(&s->usual);
	return (uint32_t)at;
}

static uint64_t group_key(const struct slow_calls *s, const struct slow_call *c)
{
	uint64_t number = window_number(c->end_ns, s->window_ns);
	return hash_u64(hash_u64(hash_u64(c->function) + c->pid) + number);
}

/* NULL: there are too many. */
static struct group *group_of(struct slow_calls *s, const struct slow_call *c)
{
	uint64_t key = group_key(s, c), at = s->groups.len;
	if (map64_get(&s->group_at, key, &at))
		return &s->groups.data[at];
	if (s->groups.len == GROUPS_MOST)
		return NULL;
	map64_set(&s->group_at, key, at);
	struct group *g = vec_push(&s->groups);
	g->function = function_of(s, c);
	return g;
}

void slow_calls_count(struct slow_calls *s, const struct slow_call *c)
{
	if (!s->joined)
		join_stretches(s);
	if (!is_in_anomaly(s, c)) {
		uint32_t function = function_of(s, c);
		s->usual.data[function].calls[rarity_of(c)]++;
		return;
	}
	struct group *g = group_of(s, c);
	if (!g)
		return;
	g->of.calls[rarity_of(c)]++;
	g->lost_ns += c->own_ns - c->usual->usual_ns;
}

static double sum(const struct rarities *r)
{
	double ret = 0;
	for (uint32_t i = 0; i < RARITIES; i++)
		ret += r->calls[i];
	return ret;
}

/* The bound at which slow ones are most, when each that would be beyond it of usual ones takes
 * those away that must stand against it. */
static void find(struct group *g, const struct rarities *usual)
{
	double all = sum(&g->of), all_usual = sum(usual) + MODEL_CALLS;
	double beyond = 0, beyond_usual = 0, best = 0;
	for (uint32_t i = RARITIES; i-- > 0;) {
		beyond += g->of.calls[i];
		beyond_usual += usual->calls[i];
		double chance = (beyond_usual + MODEL_CALLS * exp2(-(double)i)) / all_usual;
		double slow = beyond - all * chance / (1 - LEAST_TRUE);
		if (slow > best) {
			best = slow;
			g->slow_from = i;
		}
	}
}

void slow_calls_find(struct slow_calls *s)
{
	for (size_t i = 0; i < s->groups.len; i++) {
		struct group *g = &s->groups.data[i];
		g->slow_from = RARITIES;
		if (g->lost_ns >= s->least_ns * SHARE_OF_EFFECT)
			find(g, &s->usual.data[g->function]);
	}
}

/* Outside of anomalies too: it lost as much as makes an anomaly. */
static bool is_slow_alone(const struct slow_calls *s, const struct slow_call *c)
{
	return c->own_ns - c->usual->usual_ns > fmax(s->least_ns, ALONE_LOST_NS) &&
	       baseline_z(c->usual, (uint64_t)c->own_ns) > ALONE_Z;
}

bool slow_calls_is(const struct slow_calls *s, const struct slow_call *c)
{
	uint64_t at;
	if (is_slow_alone(s, c))
		return true;
	return is_in_anomaly(s, c) && map64_get(&s->group_at, group_key(s, c), &at) &&
	       rarity_of(c) >= s->groups.data[at].slow_from;
}
