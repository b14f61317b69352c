/* ranks_hang.c - collectives that some ranks wait in at the end of the recording, and what every
 * rank did then. ranks.h says what is a hang and what is not. */
#include <stdlib.h>

#include "analyze/ranks_impl.h"
#include "base/map64.h"
#include "wire/event.h"

/* ---- how long members were seen ---- */

static uint64_t process_end(const struct ranks *r, uint32_t pid)
{
	const struct m_process *p = process_index_row(&r->processes, pid);
	return p ? p->end_ns : 0;
}

static void find_ends(struct ranks *r)
{
	uint64_t *ends = rec_source_ends(r->tables);
	for (size_t k = 0; k < r->members.len; k++) {
		const struct rank_member *m = &r->matching.members.data[k];
		struct ranks_member *ret = &r->members.data[k];
		ret->observed_ns = ends[m->source < r->tables->sources.len ? m->source : 0];
		ret->ended_ns = process_end(r, m->pid);
		ret->next_sequence = m->sequence_shift;
		if (!m->calls)
			continue;
		const struct rank_call *last =
			&r->calls.data[r->matching.order.data[m->first_call + m->calls - 1]];
		ret->next_sequence = (int64_t)last->sequence + 1 + m->sequence_shift;
		ret->last_call_ns = last->host_ns;
	}
	free(ends);
}

/* ---- finding ---- */

/* The number of a member's call of a collective, RANKS_NONE. */
static uint32_t call_of_member(const struct ranks *r, const struct rank_member *m, int64_t sequence)
{
	for (size_t i = m->calls; i-- > 0;) {
		uint32_t number = r->matching.order.data[m->first_call + i];
		int64_t here = (int64_t)r->calls.data[number].sequence + m->sequence_shift;
		if (here == sequence)
			return number;
		if (here < sequence)
			break;
	}
	return RANKS_NONE;
}

/* What a communicator's ranks say of the collective at which the first of them stands. */
struct standing {
	int64_t sequence;  /* the first one that is not on all */
	uint64_t quiet_ns; /* all were there and none entered another */
	uint32_t entered, missing;
	bool ended;   /* on one of those that entered */
	bool untimed; /* the device's times are recorded, and of this one on none */
};

static struct standing standing_of(const struct ranks *r, const struct rank_group *g)
{
	struct standing s = {.sequence = INT64_MAX, .untimed = true};
	int64_t most = INT64_MIN;
	uint64_t entered_ns = 0, observed_ns = UINT64_MAX;
	for (uint32_t k = g->first_member; k < g->first_member + g->members; k++) {
		const struct ranks_member *m = &r->members.data[k];
		s.sequence = m->next_sequence < s.sequence ? m->next_sequence : s.sequence;
		most = m->next_sequence > most ? m->next_sequence : most;
		entered_ns = m->last_call_ns > entered_ns ? m->last_call_ns : entered_ns;
	}
	if (s.sequence == most)
		s.sequence--; /* all have entered the last one */
	for (uint32_t k = g->first_member; k < g->first_member + g->members; k++) {
		const struct ranks_member *m = &r->members.data[k];
		uint32_t number = call_of_member(r, &r->matching.members.data[k], s.sequence);
		bool in = m->next_sequence > s.sequence;
		uint64_t until = m->observed_ns;
		if (in && m->ended_ns && m->ended_ns < until)
			until = m->ended_ns;
		observed_ns = until < observed_ns ? until : observed_ns;
		*(in ? &s.entered : &s.missing) += 1;
		if (number == RANKS_NONE)
			continue;
		const struct rank_call *c = &r->calls.data[number];
		s.ended |= c->timed;
		s.untimed &= r->collectives->rows.data[c->row].timing == COLLECTIVE_UNTIMED;
	}
	s.quiet_ns = observed_ns > entered_ns ? observed_ns - entered_ns : 0;
	return s;
}

static bool hangs(const struct standing *s)
{
	if (s->quiet_ns <= RANKS_QUIET_NS || s->ended)
		return false;
	return s->missing || s->untimed;
}

static void add_hang(struct ranks *r, uint32_t group, const struct standing *s)
{
	const struct rank_group *g = &r->matching.groups.data[group];
	struct ranks_hang *h = vec_push(&r->hangs);
	*h = (struct ranks_hang){.group = group,
				 .sequence = s->sequence,
				 .quiet_ns = s->quiet_ns,
				 .entered = s->entered,
				 .missing = s->missing};
	for (uint32_t k = g->first_member; k < g->first_member + g->members; k++) {
		const struct rank_member *m = &r->matching.members.data[k];
		uint32_t call = call_of_member(r, m, s->sequence);
		const struct collective *c =
			call == RANKS_NONE ? NULL
					   : &r->collectives->rows.data[r->calls.data[call].row];
		*vec_push(&h->ranks) = (struct ranks_hung){.member = k,
							   .call = call,
							   .stack = c ? c->stack : 0,
							   .stack_ns = c ? c->start_ns : 0,
							   .thread = c ? c->thread : RANKS_NONE,
							   .probe = RANKS_NONE};
	}
}

/* ---- what the ranks did ---- */

/* The last that is known of a process: of its main thread rather than of another. */
struct last_seen {
	struct seen_stack {
		uint64_t time_ns;
		uint32_t stack, thread; /* stack 0: none */
		bool main;
	} any, python; /* of all, and of those with a frame of Python */
	/* the innermost open call, likewise */
	uint32_t open_probe, open_thread, open_stack;
	uint64_t open_ns;
	uint8_t open_depth;
	bool is_open, open_main;
};

struct all_seen {
	struct map64 by_pid;
	VEC(struct last_seen) rows;
};

static struct last_seen *seen_of(const struct ranks *r, struct all_seen *a, uint32_t thread,
				 bool *main)
{
	uint64_t i;
	const struct m_thread *t = &r->tables->threads.data[thread];
	if (!map64_get(&a->by_pid, t->pid, &i))
		return NULL;
	*main = t->tid == t->pid;
	return &a->rows.data[i];
}

static bool has_python(const struct rec_tables *t, uint32_t stack)
{
	for (; stack; stack = t->stacks.data[stack].parent)
		if (t->frames.data[t->stacks.data[stack].frame].kind == FRAME_PYTHON)
			return true;
	return false;
}

static bool sees_more(const struct seen_stack *old, const struct seen_stack *new)
{
	if (!old->stack || old->main != new->main)
		return !old->stack || new->main;
	return new->time_ns >= old->time_ns;
}

static void see_sample(const struct ranks *r, struct all_seen *a, const struct m_sample *s)
{
	bool main;
	if (!s->stack)
		return;
	struct last_seen *l = seen_of(r, a, s->thread, &main);
	if (!l)
		return;
	struct seen_stack now = {s->time_ns, s->stack, s->thread, main};
	if (sees_more(&l->any, &now))
		l->any = now;
	if (sees_more(&l->python, &now) && has_python(r->tables, s->stack))
		l->python = now;
}

static void see_open(const struct ranks *r, struct all_seen *a, const struct m_call *c)
{
	bool main;
	if (!(c->flags & CALL_OPEN))
		return;
	struct last_seen *l = seen_of(r, a, c->thread, &main);
	if (!l)
		return;
	if (l->is_open &&
	    (l->open_main > main || (l->open_main == main && c->depth < l->open_depth)))
		return;
	l->is_open = true;
	l->open_main = main;
	l->open_probe = c->probe;
	l->open_thread = c->thread;
	l->open_stack = c->stack;
	l->open_ns = c->start_ns;
	l->open_depth = c->depth;
}

struct seeing {
	const struct ranks *r;
	struct all_seen *seen;
};

static void see_samples(void *ctx, const struct visited_rows *rows)
{
	const struct seeing *s = ctx;
	const struct m_sample *samples = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		see_sample(s->r, s->seen, &samples[i]);
}

static void see_calls(void *ctx, const struct visited_rows *rows)
{
	const struct seeing *s = ctx;
	const struct m_call *calls = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		see_open(s->r, s->seen, &calls[i]);
}

/* The call of the collective itself says best where its rank is; else the innermost open call,
 * else the last sample; of a process that ended, which was last seen ending, one in Python. */
static void tell(struct ranks_hung *h, const struct last_seen *l, bool ended)
{
	const struct seen_stack *s = ended && l->python.stack ? &l->python : &l->any;
	if (l->is_open) {
		h->probe = l->open_probe;
		if (!h->stack) {
			h->thread = l->open_thread;
			h->stack = l->open_stack;
			h->stack_ns = l->open_ns;
		}
	}
	if (!h->stack && s->stack) {
		h->thread = s->thread;
		h->stack = s->stack;
		h->stack_ns = s->time_ns;
	}
}

static void find_stacks(struct ranks *r, const struct row_source *source)
{
	struct all_seen a = {0};
	for (size_t i = 0; i < r->members.len; i++) {
		uint64_t at;
		uint32_t pid = r->matching.members.data[i].pid;
		if (map64_get(&a.by_pid, pid, &at))
			continue;
		map64_set(&a.by_pid, pid, a.rows.len);
		(void)vec_push(&a.rows);
	}
	struct seeing seeing = {r, &a};
	rows_read(source, ROW_SAMPLE, see_samples, &seeing);
	rows_read(source, ROW_CALL, see_calls, &seeing);
	for (size_t i = 0; i < r->hangs.len; i++)
		for (size_t k = 0; k < r->hangs.data[i].ranks.len; k++) {
			struct ranks_hung *h = &r->hangs.data[i].ranks.data[k];
			uint64_t at;
			if (map64_get(&a.by_pid, r->matching.members.data[h->member].pid, &at) &&
			    at < a.rows.len)
				tell(h, &a.rows.data[at], r->members.data[h->member].ended_ns != 0);
		}
	map64_free(&a.by_pid);
	vec_free(&a.rows);
}

void ranks_find_hangs(struct ranks *r, const struct row_source *source)
{
	find_ends(r);
	for (uint32_t g = 0; g < r->matching.groups.len; g++) {
		const struct rank_group *group = &r->matching.groups.data[g];
		if (group->members < 2)
			continue;
		struct standing s = standing_of(r, group);
		if (hangs(&s))
			add_hang(r, g, &s);
	}
	if (r->hangs.len)
		find_stacks(r, source);
}
