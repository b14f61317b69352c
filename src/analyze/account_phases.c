/* account_phases.c - a main thread's time cut in three: before its loop, the loop, and after. Waits
 * with rows are where they are; of the totals what no row has is spread. */
#include <string.h>

#include "analyze/account_impl.h"

static uint64_t end_of(const struct account_thread *th)
{
	return th->since_ns + th->wall_ns;
}

bool account_clip(struct m_wait *w, const struct account_thread *th)
{
	uint64_t woken_ns = w->end_ns - w->runnable_ns, until_ns = end_of(th);
	w->start_ns = w->start_ns > th->since_ns ? w->start_ns : th->since_ns;
	w->end_ns = w->end_ns < until_ns ? w->end_ns : until_ns;
	if (w->end_ns <= w->start_ns)
		return false;
	woken_ns = woken_ns > w->start_ns ? woken_ns : w->start_ns;
	w->runnable_ns = w->end_ns > woken_ns ? w->end_ns - woken_ns : 0;
	return true;
}

struct cutting {
	struct account_thread *phases;
	uint64_t in_rows_ns[ACCOUNT_OWNERS]; /* of all phases */
};

static void put(struct cutting *c, struct account_thread *th, enum account_owner owner, uint64_t ns)
{
	th->ns[owner] += ns;
	c->in_rows_ns[owner] += ns;
}

static void add_waits(void *ctx, const struct visited_rows *rows)
{
	struct cutting *c = ctx;
	const struct m_wait *waits = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		for (int k = 0; k < ACCOUNT_PHASES && waits[i].thread == c->phases[0].thread; k++) {
			struct m_wait w = waits[i];
			if (!account_clip(&w, &c->phases[k]))
				continue;
			put(c, &c->phases[k], account_owner_of(w.reason),
			    w.end_ns - w.start_ns - w.runnable_ns);
			put(c, &c->phases[k], ACCOUNT_RUNNABLE, w.runnable_ns);
		}
}

static uint64_t sum_ns(const uint64_t ns[static ACCOUNT_OWNERS])
{
	uint64_t sum = 0;
	for (int k = 0; k < ACCOUNT_OWNERS; k++)
		sum += ns[k];
	return sum;
}

static uint64_t free_ns(const struct account_thread *th)
{
	uint64_t off_ns = sum_ns(th->ns);
	return th->wall_ns > off_ns ? th->wall_ns - off_ns : 0;
}

/* Libraries are probed as they are loaded: before the loop, as far as there is time. */
static void spread_holds(struct cutting *c, uint64_t rest_ns)
{
	for (int k = 0; k < ACCOUNT_PHASES; k++) {
		uint64_t room_ns = free_ns(&c->phases[k]);
		uint64_t ns = rest_ns < room_ns ? rest_ns : room_ns;
		c->phases[k].ns[ACCOUNT_HELD] += ns;
		rest_ns -= ns;
	}
}

static void spread(struct cutting *c, const uint64_t rest_ns[static ACCOUNT_OWNERS])
{
	double room_ns[ACCOUNT_PHASES], all_ns = 0, need_ns = (double)sum_ns(rest_ns);
	for (int k = 0; k < ACCOUNT_PHASES; k++)
		all_ns += room_ns[k] = (double)free_ns(&c->phases[k]);
	for (int k = 0; all_ns > 0 && k < ACCOUNT_PHASES; k++)
		for (int i = 0; i < ACCOUNT_OWNERS; i++) /* no more than there is room for */
			c->phases[k].ns[i] += (uint64_t)((double)rest_ns[i] * room_ns[k] /
							 (all_ns > need_ns ? all_ns : need_ns));
}

static void spread_rest(struct cutting *c, const uint64_t totals[static ACCOUNT_OWNERS])
{
	uint64_t rest_ns[ACCOUNT_OWNERS];
	for (int i = 0; i < ACCOUNT_OWNERS; i++)
		rest_ns[i] = totals[i] > c->in_rows_ns[i] ? totals[i] - c->in_rows_ns[i] : 0;
	spread_holds(c, rest_ns[ACCOUNT_HELD]);
	rest_ns[ACCOUNT_HELD] = 0;
	spread(c, rest_ns);
}

/* Rows that are more than there was time for are cut down; what is left was running. */
static void find_running(struct account_thread *th)
{
	uint64_t off_ns = sum_ns(th->ns);
	for (int i = 0; off_ns > th->wall_ns && i < ACCOUNT_OWNERS; i++)
		th->ns[i] = (uint64_t)((double)th->ns[i] * (double)th->wall_ns / (double)off_ns);
	th->ns[ACCOUNT_CPU] = free_ns(th);
}

static void begin_phases(struct account_thread ret[static ACCOUNT_PHASES],
			 const struct account_thread *whole, uint64_t from_ns, uint64_t to_ns)
{
	const uint64_t at[] = {whole->since_ns, from_ns, to_ns, end_of(whole)};
	for (int k = 0; k < ACCOUNT_PHASES; k++) {
		ret[k] = *whole;
		ret[k].since_ns = at[k];
		ret[k].wall_ns = at[k + 1] - at[k];
		ret[k].samples = ret[k].run_ns = 0;
		memset(ret[k].ns, 0, sizeof(ret[k].ns));
		memset(ret[k].peers, 0, sizeof(ret[k].peers));
	}
}

static void totals_of(uint64_t ret[static ACCOUNT_OWNERS], const struct rec_tables *t,
		      uint32_t thread)
{
	memset(ret, 0, ACCOUNT_OWNERS * sizeof(*ret));
	for (size_t i = 0; i < t->wait_totals.len; i++) {
		const struct m_wait_total *w = &t->wait_totals.data[i];
		if (w->thread != thread)
			continue;
		ret[account_owner_of(w->reason)] += w->waited_ns;
		ret[ACCOUNT_RUNNABLE] += w->runnable_ns;
	}
}

void account_cut_phases(struct account *a, const struct row_source *s, const struct timeline *t,
			uint64_t from_ns, uint64_t to_ns)
{
	const struct account_thread *whole = account_main(a);
	uint64_t totals[ACCOUNT_OWNERS];
	struct accounting of;
	struct account phases = {0};
	if (!whole)
		return;
	from_ns = from_ns > whole->since_ns ? from_ns : whole->since_ns;
	to_ns = to_ns < end_of(whole) ? to_ns : end_of(whole);
	if (to_ns <= from_ns)
		return;
	begin_phases(a->phases, whole, from_ns, to_ns);
	struct cutting c = {.phases = a->phases};
	rows_read(s, ROW_WAIT, add_waits, &c);
	totals_of(totals, s->tables, whole->thread);
	spread_rest(&c, totals);
	account_begin(&of, &phases, s);
	of.is_cut = true;
	of.through = &a->through;
	map64_set(&of.place_of, whole->thread, 0);
	for (int k = 0; k < ACCOUNT_PHASES; k++) {
		find_running(&a->phases[k]);
		*vec_push(&phases.threads) = a->phases[k];
	}
	account_read(&of, s, t);
	memcpy(a->phases, phases.threads.data, sizeof(a->phases));
	vec_free(&phases.threads);
	a->has_loop = true;
}
