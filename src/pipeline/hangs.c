/* hangs.c - groups of ranks by their communicator's hash. */
#include "pipeline/hangs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/map64.h"

enum presence {
	PRESENT,
	DESTROYED, /* the communicator, by this rank */
	ENDED,	   /* the process */
};

struct member {
	uint32_t pid;
	int32_t rank; /* -1 unknown */
	uint64_t handle, start_ns;
	uint64_t entered; /* collectives: one more than the last one's number */
	enum presence presence;
	bool late; /* was told to be */
};

/* What the n-th collective is, as the first rank that came entered it. */
struct slot {
	uint64_t number; /* n + 1; 0 = empty */
	const char *function;
	uint64_t bytes;
	uint32_t member;
};

struct group {
	uint64_t hash;
	int32_t size;
	VEC(struct member) members;
	struct slot *window; /* HANG_WINDOW, by number; from the second member on */
	uint64_t progress_ns;
	unsigned mismatches;
	bool told;
	uint64_t told_least;
	uint64_t told_since_ns;
};

struct hangs {
	VEC(struct group) groups;
	struct map64 by_hash; /* -> index in groups */
	void (*tell)(void *ctx, const struct hang *hang);
	void *ctx;
	bool asks;
};

struct hangs *hangs_new(void (*tell)(void *ctx, const struct hang *hang), void *ctx)
{
	struct hangs *h = xcalloc(1, sizeof(*h));
	h->tell = tell;
	h->ctx = ctx;
	return h;
}

void hangs_free(struct hangs *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->groups.len; i++) {
		vec_free(&h->groups.data[i].members);
		free(h->groups.data[i].window);
	}
	vec_free(&h->groups);
	map64_free(&h->by_hash);
	free(h);
}

/* ---- who there is ---- */

static struct group *group_of(struct hangs *h, uint64_t hash)
{
	uint64_t i;
	if (map64_get(&h->by_hash, hash, &i))
		return &h->groups.data[i];
	map64_set(&h->by_hash, hash, h->groups.len);
	struct group *g = vec_push(&h->groups);
	g->hash = hash;
	return g;
}

static struct member *find_member(struct group *g, const struct m_comm *comm)
{
	for (size_t i = 0; i < g->members.len; i++) {
		struct member *m = &g->members.data[i];
		if (m->pid == comm->pid && m->handle == comm->handle &&
		    m->start_ns == comm->start_ns)
			return m;
	}
	return NULL;
}

static struct member *member_of(struct hangs *h, const struct m_comm *comm, struct group **ret)
{
	struct group *g = group_of(h, comm->hash);
	struct member *m = find_member(g, comm);
	if (!m) {
		m = vec_push(&g->members);
		m->pid = comm->pid;
		m->handle = comm->handle;
		m->start_ns = comm->start_ns;
		m->rank = -1;
		if (g->members.len == 2)
			g->window = xcalloc(HANG_WINDOW, sizeof(*g->window));
		if (g->progress_ns < comm->start_ns)
			g->progress_ns = comm->start_ns;
	}
	if (comm->rank >= 0)
		m->rank = comm->rank;
	if (comm->size > 0)
		g->size = comm->size;
	*ret = g;
	return m;
}

void hangs_member(struct hangs *h, const struct m_comm *comm)
{
	struct group *g;
	if (comm->hash)
		member_of(h, comm, &g);
}

void hangs_destroyed(struct hangs *h, const struct m_comm *comm)
{
	uint64_t i;
	if (!comm->hash || !map64_get(&h->by_hash, comm->hash, &i))
		return;
	struct member *m = find_member(&h->groups.data[i], comm);
	if (m && m->presence == PRESENT)
		m->presence = DESTROYED;
}

void hangs_ended(struct hangs *h, uint32_t pid)
{
	for (size_t i = 0; i < h->groups.len; i++)
		for (size_t k = 0; k < h->groups.data[i].members.len; k++) {
			struct member *m = &h->groups.data[i].members.data[k];
			if (m->pid == pid && m->presence == PRESENT)
				m->presence = ENDED;
		}
}

/* ---- sentences ---- */

static void name_rank(char *ret, size_t size, const struct member *m)
{
	if (m->rank >= 0)
		snprintf(ret, size, "rank %d", m->rank);
	else
		snprintf(ret, size, "process %u", m->pid);
}

/* "communicator 0x1f (4 ranks, 2 of them traced)" */
static void begin_sentence(struct buf *b, const struct group *g)
{
	buf_printf(b, "communicator 0x%" PRIx64 " (", g->hash);
	if (g->size)
		buf_printf(b, "%d rank%s", g->size, g->size == 1 ? "" : "s");
	if (g->size > 0 && (size_t)g->size > g->members.len)
		buf_printf(b, ", %zu of them traced", g->members.len);
	if (!g->size)
		buf_printf(b, "%zu ranks traced", g->members.len);
	buf_printf(b, "): ");
}

static int compare_rank(const void *a, const void *b)
{
	const struct member *x = *(const struct member *const *)a;
	const struct member *y = *(const struct member *const *)b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

typedef VEC(const struct member *) members_t;

/* "ranks 0, 2, 3", "rank 1, which has ended" */
static void list_ranks(struct buf *b, members_t *members)
{
	qsort(members->data, members->len, sizeof(*members->data), compare_rank);
	bool many = members->len > 1, by_rank = members->data[0]->rank >= 0;
	if (by_rank)
		buf_printf(b, many ? "ranks " : "rank ");
	for (size_t i = 0; i < members->len; i++) {
		const struct member *m = members->data[i];
		if (i == HANG_RANKS_NAMED) {
			buf_printf(b, " and %zu more", members->len - i);
			break;
		}
		buf_printf(b, i ? ", " : "");
		if (by_rank)
			buf_printf(b, "%d", m->rank);
		else
			buf_printf(b, "process %u", m->pid);
		if (m->presence == ENDED)
			buf_printf(b, " (has ended)");
		else if (m->presence == DESTROYED)
			buf_printf(b, " (has destroyed it)");
	}
}

static void tell(struct hangs *h, enum hang_kind kind, uint64_t time_ns, struct buf *sentence,
		 const members_t *about)
{
	char names[HANG_RANKS_NAMED][32];
	const char *ranks[HANG_RANKS_NAMED];
	struct hang hang = {.kind = kind, .time_ns = time_ns, .ranks = ranks};
	for (size_t i = 0; i < about->len && i < HANG_RANKS_NAMED; i++) {
		name_rank(names[i], sizeof(names[i]), about->data[i]);
		ranks[hang.nranks++] = names[i];
	}
	buf_byte(sentence, 0);
	hang.sentence = (const char *)sentence->data;
	h->tell(h->ctx, &hang);
	buf_free(sentence);
}

/* ---- what they enter ---- */

static void tell_mismatch(struct hangs *h, struct group *g, const struct slot *first,
			  const struct member *m, const struct hang_call *call)
{
	struct buf b = {0};
	char here[32], there[32];
	members_t about = {0};
	name_rank(here, sizeof(here), m);
	name_rank(there, sizeof(there), &g->members.data[first->member]);
	begin_sentence(&b, g);
	buf_printf(&b,
		   "#%" PRIu64 " is %s of %" PRIu64 " bytes on %s, %s of %" PRIu64 " bytes on %s",
		   call->sequence, first->function, first->bytes, there, call->function,
		   call->bytes, here);
	*vec_push(&about) = m;
	tell(h, HANG_MISMATCH, call->time_ns, &b, &about);
	vec_free(&about);
	g->mismatches++;
}

static void compare(struct hangs *h, struct group *g, const struct member *m,
		    const struct hang_call *call)
{
	struct slot *s = &g->window[call->sequence % HANG_WINDOW];
	if (s->number < call->sequence + 1) {
		*s = (struct slot){call->sequence + 1, call->function, call->bytes,
				   (uint32_t)(m - g->members.data)};
		return;
	}
	bool same = !strcmp(s->function, call->function) && s->bytes == call->bytes;
	if (s->number == call->sequence + 1 && !same && g->mismatches < HANG_MISMATCHES)
		tell_mismatch(h, g, s, m, call);
}

void hangs_entered(struct hangs *h, const struct m_comm *comm, const struct hang_call *call)
{
	struct group *g;
	if (!comm->hash || call->sequence == UINT64_MAX)
		return;
	struct member *m = member_of(h, comm, &g);
	if (call->sequence < m->entered)
		return; /* seen while it was open */
	m->entered = call->sequence + 1;
	if (call->time_ns > g->progress_ns)
		g->progress_ns = call->time_ns;
	if (g->window)
		compare(h, g, m, call);
}

/* ---- who is late ---- */

/* Who has entered the n-th, and who has not. */
static void divide(const struct group *g, uint64_t n, members_t *in, members_t *out)
{
	for (size_t i = 0; i < g->members.len; i++) {
		const struct member *m = &g->members.data[i];
		if (m->entered > n)
			*vec_push(in) = m;
		else
			*vec_push(out) = m;
	}
}

static uint64_t least_entered(const struct group *g)
{
	uint64_t least = UINT64_MAX;
	for (size_t i = 0; i < g->members.len; i++)
		if (g->members.data[i].entered < least)
			least = g->members.data[i].entered;
	return least;
}

static bool somebody_waits(const struct group *g, uint64_t least)
{
	for (size_t i = 0; i < g->members.len; i++)
		if (g->members.data[i].presence == PRESENT && g->members.data[i].entered > least)
			return true;
	return false;
}

static void tell_stuck(struct hangs *h, struct group *g, uint64_t least, uint64_t now_ns)
{
	struct buf b = {0};
	members_t in = {0}, out = {0};
	const struct slot *s = &g->window[least % HANG_WINDOW];
	divide(g, least, &in, &out);
	begin_sentence(&b, g);
	buf_printf(&b, "no progress for %" PRIu64 " s; %s #%" PRIu64 " was entered by ",
		   (now_ns - g->progress_ns) / 1000000000,
		   s->number == least + 1 ? s->function : "collective", least);
	list_ranks(&b, &in);
	buf_printf(&b, ", not by ");
	list_ranks(&b, &out);
	tell(h, HANG_STUCK, now_ns, &b, &out);
	vec_free(&in);
	vec_free(&out);
	for (size_t i = 0; i < g->members.len; i++)
		g->members.data[i].late = g->members.data[i].entered <= least;
	g->told = true;
	g->told_least = least;
	g->told_since_ns = g->progress_ns;
}

static void tell_resumed(struct hangs *h, struct group *g, uint64_t now_ns)
{
	struct buf b = {0};
	members_t about = {0};
	for (size_t i = 0; i < g->members.len; i++)
		if (g->members.data[i].late)
			*vec_push(&about) = &g->members.data[i];
	begin_sentence(&b, g);
	buf_printf(&b, "goes on after %.1f s: #%" PRIu64 " was entered by all",
		   (double)(g->progress_ns - g->told_since_ns) / 1e9, g->told_least);
	tell(h, HANG_RESUMED, now_ns, &b, &about);
	vec_free(&about);
	g->told = false;
}

static void check(struct hangs *h, struct group *g, uint64_t now_ns)
{
	if (g->members.len < 2)
		return;
	uint64_t least = least_entered(g);
	uint64_t quiet_ns = now_ns > g->progress_ns ? now_ns - g->progress_ns : 0;
	if (g->told && least > g->told_least)
		tell_resumed(h, g, now_ns);
	if (quiet_ns >= HANG_ASK_NS) {
		for (size_t i = 0; i < g->members.len; i++)
			h->asks |= g->members.data[i].presence == PRESENT;
	}
	if (quiet_ns >= HANG_QUIET_NS && !g->told && somebody_waits(g, least))
		tell_stuck(h, g, least, now_ns);
}

void hangs_check(struct hangs *h, uint64_t now_ns)
{
	h->asks = false;
	for (size_t i = 0; i < h->groups.len; i++)
		check(h, &h->groups.data[i], now_ns);
}

bool hangs_asks(const struct hangs *h)
{
	return h->asks;
}
