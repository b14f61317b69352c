/* slow_calls.c - how long calls took, in levels of the usual: of each key outside of anomalies, and
 * in each window. */
#include "incident/slow_calls.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "detect/windows.h"

#define LEVELS		40    /* of the time that calls took, below */
#define RARITIES	40    /* -2 log2 of a chance, the last are as rare or rarer */
#define LEAST_TRUE	0.9   /* of the calls beyond the bound: the precision that is wanted */
#define PRIOR_CALLS	100.0 /* that function and model count as, beside the calls that came */
#define SHARE_OF_EFFECT 0.1   /* of the least effect, that a function has to have lost */
#define SHARE_OF_LOSS	0.2 /* of what slow calls of its function lose, that one has to have lost */
#define WINDOWS_OPEN	8   /* files have calls of some seconds beside each other */
#define CHANCE_OF_ANY	0.1 /* that a function has a window so unlikely, outside of anomalies */
#define CELLS_MOST	(1u << 19) /* some 150 MB; then those go that lost too little */
/* Whatever others are: far out, and so much, where no least effect is asked for. */
#define ALONE_Z	      8.0
#define ALONE_LOST_NS 1000000.0

struct stretch {
	uint32_t pid;
	uint64_t start_ns, end_ns;
};

struct calls {
	uint32_t of[LEVELS];
};

/* A function with what it works on, in a process. */
struct key {
	struct calls usual; /* outside of anomalies */
	struct baseline model;
	uint32_t function;	  /* its place */
	uint8_t rarities[LEVELS]; /* of calls as long or longer, once all are counted */
};

/* A function in a process. */
struct function {
	struct calls usual; /* of all its keys, outside of anomalies */
	uint32_t windows;   /* in which it was called, outside of anomalies */
};

/* Calls of a function in a window. */
struct group {
	uint64_t id, number; /* of the window */
	uint32_t last;	     /* of its cells, + 1 */
	uint32_t function;
	bool in_anomaly; /* some of them */
	double lost_ns;	 /* by all of them, less what some were quicker */
	double least_ns; /* that a slow one lost */
};

/* Those of a key. */
struct cell {
	uint64_t id;
	struct calls of;
	uint32_t key, group; /* their places */
	uint32_t before;     /* the cell before it of its group, + 1 */
	uint32_t slow_from;
};

struct slow_calls {
	uint64_t window_ns;
	double least_ns;	       /* the least effect, of a window */
	VEC(struct stretch) stretches; /* by process and time once a call has come */
	bool joined;		       /* they are */
	struct map64 function_at;      /* to place in functions */
	VEC(struct function) functions;
	struct map64 key_at;
	VEC(struct key) keys;
	struct map64 group_at; /* hash of process, window and function to place */
	VEC(struct group) groups;
	struct map64 cell_at; /* hash of process, window and key to place */
	VEC(struct cell) cells;
	bool full; /* of what is not in anomalies */
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
	vec_free(&s->functions);
	vec_free(&s->keys);
	vec_free(&s->groups);
	vec_free(&s->cells);
	map64_free(&s->function_at);
	map64_free(&s->key_at);
	map64_free(&s->group_at);
	map64_free(&s->cell_at);
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

/* ---- how long ---- */

/* Levels begin at ratios to the usual median whose logarithms are A x + B x^2: the first has all
 * that is quicker than 1.04, the last what is 100 times as long and longer. */
#define LEVEL_A 0.04
#define LEVEL_B 0.002

static double level_ratio(uint32_t level)
{
	return exp(level * (LEVEL_A + LEVEL_B * level));
}

static uint32_t level_of(const struct slow_call *c)
{
	double log_ratio = log(c->own_ns) - c->usual->log_median;
	if (!(log_ratio > 0))
		return 0;
	double level =
		(sqrt(LEVEL_A * LEVEL_A + 4 * LEVEL_B * log_ratio) - LEVEL_A) / (2 * LEVEL_B);
	return (uint32_t)fmin(level, LEVELS - 1);
}

/* The place of an id, which may be that of a new one: then *is_new. */
static uint32_t place_of(struct map64 *at, uint64_t id, size_t len, bool *is_new)
{
	uint64_t place = len;
	*is_new = !map64_get(at, id, &place);
	if (*is_new)
		map64_set(at, id, place);
	return (uint32_t)place;
}

/* An id of what a process has. */
static uint64_t of_process(const struct slow_call *c, uint64_t id)
{
	return hash_u64(hash_u64(id) + c->pid);
}

static uint32_t key_of(struct slow_calls *s, const struct slow_call *c)
{
	bool is_new;
	uint32_t place = place_of(&s->key_at, of_process(c, c->key), s->keys.len, &is_new);
	if (!is_new)
		return place;
	vec_push(&s->keys);
	s->keys.data[place].model = *c->usual;
	s->keys.data[place].function =
		place_of(&s->function_at, of_process(c, c->function), s->functions.len, &is_new);
	if (is_new)
		vec_push(&s->functions);
	return place;
}

static uint64_t in_window(const struct slow_calls *s, const struct slow_call *c, uint64_t id)
{
	return hash_u64(of_process(c, id) + window_number(c->end_ns, s->window_ns));
}

static bool lost_enough(const struct slow_calls *s, const struct group *g)
{
	return g->lost_ns >= s->least_ns * SHARE_OF_EFFECT;
}

static struct cell *cell_add(struct slow_calls *s, const struct cell *c)
{
	struct group *g = &s->groups.data[c->group];
	map64_set(&s->cell_at, c->id, s->cells.len);
	struct cell *ret = vec_push(&s->cells);
	*ret = *c;
	ret->before = g->last;
	g->last = (uint32_t)s->cells.len;
	return ret;
}

static void group_add(struct slow_calls *s, const struct group *g)
{
	map64_set(&s->group_at, g->id, s->groups.len);
	*vec_push(&s->groups) = *g;
	s->groups.data[s->groups.len - 1].last = 0;
}

/* Windows that are over and lost too little are never told: they go. */
static void make_room(struct slow_calls *s, uint64_t number)
{
	struct slow_calls old = *s;
	memset(&s->group_at, 0, sizeof(s->group_at));
	memset(&s->cell_at, 0, sizeof(s->cell_at));
	memset(&s->groups, 0, sizeof(s->groups));
	memset(&s->cells, 0, sizeof(s->cells));
	for (size_t i = 0; i < old.groups.len; i++) {
		const struct group *g = &old.groups.data[i];
		if (g->number + WINDOWS_OPEN < number && !lost_enough(s, g))
			continue;
		group_add(s, g);
		for (uint32_t at = g->last; at; at = old.cells.data[at - 1].before) {
			struct cell c = old.cells.data[at - 1];
			c.group = (uint32_t)s->groups.len - 1;
			cell_add(s, &c);
		}
	}
	map64_free(&old.group_at);
	map64_free(&old.cell_at);
	vec_free(&old.groups);
	vec_free(&old.cells);
	s->full = s->cells.len > CELLS_MOST / 2;
}

static uint32_t group_of(struct slow_calls *s, const struct slow_call *c, uint32_t function,
			 bool in_anomaly)
{
	uint64_t id = in_window(s, c, c->function), at;
	if (map64_get(&s->group_at, id, &at))
		return (uint32_t)at;
	struct group g = {
		.id = id, .number = window_number(c->end_ns, s->window_ns), .function = function};
	group_add(s, &g);
	s->functions.data[function].windows += !in_anomaly;
	return (uint32_t)s->groups.len - 1;
}

/* NULL: there are too many. */
static struct cell *cell_of(struct slow_calls *s, const struct slow_call *c, uint32_t key,
			    bool in_anomaly)
{
	uint64_t id = in_window(s, c, c->key), at;
	if (map64_get(&s->cell_at, id, &at))
		return &s->cells.data[at];
	if (s->cells.len == CELLS_MOST && !s->full)
		make_room(s, window_number(c->end_ns, s->window_ns));
	if (s->cells.len == CELLS_MOST || (s->full && !in_anomaly))
		return NULL;
	uint32_t group = group_of(s, c, s->keys.data[key].function, in_anomaly);
	return cell_add(s, &(struct cell){.id = id, .key = key, .group = group});
}

void slow_calls_count(struct slow_calls *s, const struct slow_call *c)
{
	if (!s->joined)
		join_stretches(s);
	uint32_t level = level_of(c), key = key_of(s, c);
	bool in_anomaly = is_in_anomaly(s, c);
	if (!in_anomaly) {
		struct key *k = &s->keys.data[key];
		k->usual.of[level]++;
		s->functions.data[k->function].usual.of[level]++;
	}
	struct cell *cell = cell_of(s, c, key, in_anomaly);
	if (!cell)
		return;
	cell->of.of[level]++;
	struct group *g = &s->groups.data[cell->group];
	g->in_anomaly |= in_anomaly;
	g->lost_ns += c->own_ns - c->usual->usual_ns;
}

/* ---- which ---- */

static uint8_t rarity_of(double chance)
{
	return (uint8_t)fmin(fmax(-2 * log2(chance), 0), RARITIES - 1);
}

/* The chance of each level and more among usual calls of a key: by those that came, beside what the
 * whole function's were, and the model. */
static void find_rarities(const struct slow_calls *s, struct key *k)
{
	const struct calls *function = &s->functions.data[k->function].usual;
	double median_ns = exp(k->model.log_median);
	double all = 0, all_function = 0, beyond = 0, beyond_function = 0;
	for (uint32_t i = 0; i < LEVELS; i++) {
		all += k->usual.of[i];
		all_function += function->of[i];
	}
	for (uint32_t i = LEVELS; i-- > 0;) {
		beyond += k->usual.of[i];
		beyond_function += function->of[i];
		double model = i ? baseline_chance(&k->model, median_ns * level_ratio(i)) : 1;
		double prior =
			(beyond_function + PRIOR_CALLS * model) / (all_function + PRIOR_CALLS);
		k->rarities[i] = rarity_of((beyond + PRIOR_CALLS * prior) / (all + PRIOR_CALLS));
	}
}

/* Of a group, by rarity. */
struct pooled {
	double calls[RARITIES];
	double lost_ns[RARITIES]; /* at least: as if each had just reached its level */
};

static void pool(const struct slow_calls *s, const struct group *g, struct pooled *ret)
{
	for (uint32_t at = g->last; at; at = s->cells.data[at - 1].before) {
		const struct cell *c = &s->cells.data[at - 1];
		const struct key *k = &s->keys.data[c->key];
		double median_ns = exp(k->model.log_median);
		for (uint32_t i = 0; i < LEVELS; i++) {
			if (!c->of.of[i])
				continue;
			ret->calls[k->rarities[i]] += c->of.of[i];
			ret->lost_ns[k->rarities[i]] +=
				c->of.of[i] * (level_ratio(i) - 1) * median_ns;
		}
	}
}

/* Whether n of m calls are as rare as p by chance, in one window of so many: Chernoff's bound of a
 * Poisson distribution. */
static bool is_by_chance(double n, double m, double p, double windows)
{
	double mean = m * p;
	return n <= mean || n * log(n / mean) - (n - mean) < log(windows / CHANCE_OF_ANY);
}

/* The bound at which slow ones are most, when each that would be beyond it of usual ones takes
 * those away that must stand against it; RARITIES: there are none. In an anomaly something is slow;
 * elsewhere many functions have many windows, and some are rare. */
static uint32_t bound_of(const struct slow_calls *s, const struct group *g, const struct pooled *p)
{
	double all = 0, beyond = 0, best = 0;
	double windows = s->functions.data[g->function].windows;
	uint32_t ret = RARITIES;
	for (uint32_t i = 0; i < RARITIES; i++)
		all += p->calls[i];
	for (uint32_t i = RARITIES; i-- > 0;) {
		beyond += p->calls[i];
		double chance = exp2(-0.5 * i), slow = beyond - all * chance / (1 - LEAST_TRUE);
		if (slow <= best || (!g->in_anomaly && is_by_chance(beyond, all, chance, windows)))
			continue;
		best = slow;
		ret = i;
	}
	return ret;
}

static void find(struct slow_calls *s, struct group *g)
{
	struct pooled p = {0};
	double slow = 0, lost_ns = 0;
	pool(s, g, &p);
	uint32_t bound = bound_of(s, g, &p);
	for (uint32_t i = bound; i < RARITIES; i++) {
		slow += p.calls[i];
		lost_ns += p.lost_ns[i];
	}
	g->least_ns = slow > 0 ? lost_ns / slow * SHARE_OF_LOSS : 0;
	for (uint32_t at = g->last; at; at = s->cells.data[at - 1].before) {
		struct cell *c = &s->cells.data[at - 1];
		const struct key *k = &s->keys.data[c->key];
		while (c->slow_from && k->rarities[c->slow_from - 1] >= bound)
			c->slow_from--;
	}
}

void slow_calls_find(struct slow_calls *s)
{
	for (size_t i = 0; i < s->keys.len; i++)
		find_rarities(s, &s->keys.data[i]);
	for (size_t i = 0; i < s->cells.len; i++)
		s->cells.data[i].slow_from = LEVELS;
	for (size_t i = 0; i < s->groups.len; i++)
		if (lost_enough(s, &s->groups.data[i]))
			find(s, &s->groups.data[i]);
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
	if (!map64_get(&s->cell_at, in_window(s, c, c->key), &at))
		return false;
	const struct cell *cell = &s->cells.data[at];
	return level_of(c) >= cell->slow_from &&
	       c->own_ns - c->usual->usual_ns >= s->groups.data[cell->group].least_ns;
}
