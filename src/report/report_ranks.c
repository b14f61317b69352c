/* report_ranks.c - the ranks of a job side by side, in the report: clocks of merged hosts, who came
 * last, mismatches, hangs. docs/merge.md says what the words mean. */
#include "report/report_ranks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"

#define COMMS_SHOWN  8
#define FRAMES_SHOWN 8
#define RANKS_SHOWN  16

static void *begin(const struct report *r, struct report_visitors *v)
{
	(void)r;
	(void)v;
	return xcalloc(1, sizeof(struct ranks_state));
}

static bool make(const struct report *r, void *state)
{
	struct ranks_state *s = state;
	ranks_make(&s->ranks, r->source, r->collectives);
	return s->ranks.several || r->tables->sources.len;
}

static void end(void *state)
{
	struct ranks_state *s = state;
	ranks_free(&s->ranks);
	free(s);
}

/* ---- words ---- */

void ranks_call_text(char *ret, size_t size, const struct ranks *r, uint32_t call)
{
	char bytes[HUMAN_BYTES];
	const struct rank_call *c = &r->calls.data[call];
	snprintf(ret, size, "%s of %s", collective_op_name((enum collective_op)c->op),
		 human_bytes(bytes, c->bytes));
}

const char *ranks_function(const struct ranks *r, uint32_t probe)
{
	if (probe >= r->tables->probes.len)
		return NULL;
	return strtab_get(&r->tables->strings, r->tables->probes.data[probe].name, NULL);
}

void ranks_comm_text(char *ret, size_t size, const struct ranks *r, uint32_t group)
{
	const struct rank_group *g = &r->matching.groups.data[group];
	if (g->hash)
		snprintf(ret, size, "0x%" PRIx64, g->hash);
	else
		snprintf(ret, size, "%u (made before tracing began)", group);
}

const char *ranks_host(const struct ranks *r, const struct rank_member *m)
{
	uint32_t source = r->matching.calls[r->matching.order.data[m->first_call]].source;
	if (source >= r->tables->sources.len)
		return "";
	return strtab_get(&r->tables->strings, r->tables->sources.data[source].host, NULL);
}

static void rank_name(char *ret, size_t size, const struct rank_member *m)
{
	if (m->rank >= 0)
		snprintf(ret, size, "rank %d (pid %u)", m->rank, m->pid);
	else
		snprintf(ret, size, "pid %u", m->pid);
}

/* ---- clocks ---- */

static void source_row(const struct page *p, const struct m_source *s)
{
	const struct strtab *strings = &p->r->tables->strings;
	char host[64], shift[HUMAN_BYTES], error[HUMAN_BYTES];
	size_t n = text_fit(host, sizeof(host), strtab_get(strings, s->host, NULL), 20);
	fprintf(p->out, "  %s%*s", host, (int)(20 - n), "");
	page_right(p, s->shift_ns < 0 ? "-" : "", 3);
	page_right(p, human_ns(shift, (uint64_t)llabs(s->shift_ns)), 9);
	page_right(p, s->error_ns == UINT64_MAX ? "unknown" : human_ns(error, s->error_ns), 11);
	text_printf(p->out, "%9.2f  %-12s", s->drift_ratio * 1e6,
		    strtab_get(strings, s->how, NULL));
	page_rest(p, strtab_get(strings, s->path, NULL), 68);
}

static void sources(const struct page *p)
{
	const struct rec_tables *t = p->r->tables;
	if (!t->sources.len)
		return;
	fputc('\n', p->out);
	page_styled(p, BOLD, "merged");
	fprintf(p->out, ": %zu recordings\n", t->sources.len);
	fprintf(p->out, "  %-20s%12s%11s%9s  %-12s  file\n", "host", "shift", "known to", "ppm",
		"by");
	for (size_t i = 0; i < t->sources.len; i++)
		source_row(p, &t->sources.data[i]);
}

/* ---- communicators ---- */

static void time_or_none(const struct page *p, uint64_t ns, bool known)
{
	char text[HUMAN_BYTES];
	page_right(p, known ? human_ns(text, ns) : "-", COLUMN_TIME + 2);
}

static void member_row(const struct page *p, const struct ranks *r, uint32_t member)
{
	const struct rank_member *m = &r->matching.members.data[member];
	const struct ranks_member *s = &r->members.data[member];
	char text[HUMAN_BYTES], host[64], rank[16];
	snprintf(rank, sizeof(rank), "%d", m->rank);
	page_right(p, m->rank < 0 ? "-" : rank, 8);
	fprintf(p->out, "%10u", m->pid);
	page_right(p, human_count(text, m->calls), COLUMN_CALLS);
	page_right(p, human_count(text, s->last), COLUMN_TIME);
	page_right(p, human_count(text, s->late), COLUMN_TIME);
	time_or_none(p, s->p50_late_ns, s->late);
	time_or_none(p, s->waited_for_ns, s->late);
	time_or_none(p, s->wait_ns, s->compared);
	text_fit(host, sizeof(host), ranks_host(r, m), 24);
	fprintf(p->out, "%s%s\n", *host ? "  " : "", host);
}

static void straggler(const struct page *p, const struct ranks *r, uint32_t group)
{
	const struct ranks_comm *c = &r->comms.data[group];
	char name[64], typical[HUMAN_BYTES], most[HUMAN_BYTES], waited[HUMAN_BYTES];
	if (c->straggler == RANKS_NONE)
		return;
	const struct ranks_member *m = &r->members.data[c->straggler];
	rank_name(name, sizeof(name), &r->matching.members.data[c->straggler]);
	fputs("  ", p->out);
	page_styled(p, RED, "straggler");
	page_wrapped(p, 11, 4,
		     ": %s is late in %" PRIu64 " of the %" PRIu64
		     " collectives with a late rank, typically by %s, at most by %s; the others "
		     "waited %s for it",
		     name, m->late, c->late, human_ns(typical, m->p50_late_ns),
		     human_ns(most, m->max_late_ns), human_ns(waited, m->waited_for_ns));
}

/* Of the collectives' time, that of all ranks added up. */
static void waiting(const struct page *p, const struct ranks_comm *c)
{
	char all[HUMAN_BYTES], wait[HUMAN_BYTES], rest[HUMAN_BYTES];
	if (c->clocks_unknown)
		fputs("  the clocks of its hosts are not aligned: nothing is said about waiting\n",
		      p->out);
	else if (c->on_device && c->rank_ns)
		page_wrapped(p, 0, 4,
			     "  ranks' time on devices: %s, of it %s (%.0f %%) waiting for the "
			     "last rank, %s moving bytes",
			     human_ns(all, c->rank_ns), human_ns(wait, c->device_wait_ns),
			     100 * (double)c->device_wait_ns / (double)c->rank_ns,
			     human_ns(rest, c->rank_ns - c->device_wait_ns));
	else if (c->compared)
		page_wrapped(p, 0, 4,
			     "  ranks' time by the host's calls: %s waiting for the last rank; "
			     "the devices' is not known",
			     human_ns(wait, c->wait_ns));
}

static void comm_table(const struct page *p, const struct ranks *r, uint32_t group)
{
	const struct rank_group *g = &r->matching.groups.data[group];
	char name[64], count[HUMAN_BYTES];
	ranks_comm_text(name, sizeof(name), r, group);
	fprintf(p->out, "communicator %s: %u", name, g->members);
	if (g->size > 0 && (uint32_t)g->size != g->members)
		fprintf(p->out, " of %d", g->size);
	fprintf(p->out, " ranks, %s collectives compared\n",
		human_count(count, r->comms.data[group].compared));
	waiting(p, &r->comms.data[group]);
	fprintf(p->out, "%8s%10s%13s%9s%9s%11s%11s%11s%s\n", "rank", "pid", "collectives", "last",
		"late", "p50 late", "waited for", "waited",
		p->r->tables->sources.len ? "  host" : "");
	uint64_t top = p->r->options->top ? RANKS_SHOWN : UINT64_MAX;
	for (uint32_t i = 0; i < g->members && i < top; i++)
		member_row(p, r, g->first_member + i);
	page_more(p, g->members, g->members < top ? g->members : top, 11);
	straggler(p, r, group);
}

static int compare_groups(const void *a, const void *b, void *ctx)
{
	const struct ranks *r = ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint64_t wait_x = r->comms.data[x].wait_ns, wait_y = r->comms.data[y].wait_ns;
	if (wait_x != wait_y)
		return wait_x > wait_y ? -1 : 1;
	return x < y ? -1 : x > y;
}

static void comm_tables(const struct page *p, const struct ranks *r)
{
	VEC(uint32_t) groups = {0};
	for (uint32_t g = 0; g < r->matching.groups.len; g++)
		if (ranks_group_shown(r, g))
			*vec_push(&groups) = g;
	if (groups.len)
		qsort_r(groups.data, groups.len, sizeof(*groups.data), compare_groups, (void *)r);
	size_t shown = p->r->options->top && groups.len > COMMS_SHOWN ? COMMS_SHOWN : groups.len;
	for (size_t i = 0; i < shown; i++)
		comm_table(p, r, groups.data[i]);
	if (shown < groups.len)
		fprintf(p->out, "... and %zu communicators more (--top 0 shows all)\n",
			groups.len - shown);
	vec_free(&groups);
}

/* ---- mismatches ---- */

static void mismatch(const struct page *p, const struct ranks *r, const struct ranks_mismatch *m)
{
	const struct rank_match *match = &r->matching.matches.data[m->match];
	char comm[64], what[128];
	struct buf line = {0};
	ranks_comm_text(comm, sizeof(comm), r, match->group);
	fputs("  ", p->out);
	page_styled(p, RED, "mismatch");
	buf_printf(&line, " in number %" PRId64 " of communicator %s:", match->sequence, comm);
	for (uint32_t i = 0; i < match->calls && i < RANKS_SHOWN; i++) {
		uint32_t call = r->matching.matched.data[match->first + i];
		const struct rank_call *c = &r->calls.data[call];
		ranks_call_text(what, sizeof(what), r, call);
		buf_printf(&line, "%s %s %d: %s", i ? "," : "", c->rank >= 0 ? "rank" : "pid",
			   c->rank >= 0 ? c->rank : (int)c->pid, what);
		if (m->what & RANKS_OTHER_DATATYPE)
			buf_printf(&line, " of data type %" PRId64, c->datatype);
		if (m->what & RANKS_OTHER_ROOT)
			buf_printf(&line, " from root %d", c->root);
	}
	buf_byte(&line, 0);
	page_wrapped(p, 10, 4, "%s", (char *)line.data);
	buf_free(&line);
}

static void mismatches(const struct page *p, const struct ranks *r)
{
	for (size_t i = 0; i < r->mismatches.len; i++)
		mismatch(p, r, &r->mismatches.data[i]);
	if (r->mismatches_total > r->mismatches.len)
		fprintf(p->out, "  ... and %" PRIu64 " mismatches more\n",
			r->mismatches_total - r->mismatches.len);
}

static void not_compared(const struct page *p, const struct ranks *r)
{
	if (r->matching.not_compared)
		fprintf(p->out,
			"  %" PRIu64 " communicators of a process were not compared with those of "
			"others: there are too many whose making was not seen\n",
			r->matching.not_compared);
}

/* ---- hangs ---- */

static bool has_python(const struct rec_tables *t, uint32_t stack)
{
	for (; stack; stack = t->stacks.data[stack].parent)
		if (t->frames.data[t->stacks.data[stack].frame].kind == FRAME_PYTHON)
			return true;
	return false;
}

/* The innermost frames; of a stack with Python those of Python. */
static void stack_lines(const struct page *p, uint32_t stack)
{
	const struct rec_tables *t = p->r->tables;
	bool python = has_python(t, stack);
	unsigned shown = 0;
	for (; stack && shown < FRAMES_SHOWN; stack = t->stacks.data[stack].parent) {
		const struct m_frame *f = &t->frames.data[t->stacks.data[stack].frame];
		const char *name = strtab_get(&t->strings, f->name, NULL);
		const char *file = strtab_get(&t->strings, f->file, NULL);
		char line[1024], fitted[1024];
		if (python && f->kind != FRAME_PYTHON)
			continue;
		if (!*name)
			name = strtab_get(&t->strings, f->library, NULL);
		if (*file)
			snprintf(line, sizeof(line), "%s (%s:%u)", name, file, f->line);
		else
			snprintf(line, sizeof(line), "%s", name);
		text_fit(fitted, sizeof(fitted), line, page_room(p, 10));
		fprintf(p->out, "          %s\n", fitted);
		shown++;
	}
}

static void hung_rank(const struct page *p, const struct ranks *r, const struct ranks_hung *h)
{
	const struct rank_member *m = &r->matching.members.data[h->member];
	const struct ranks_member *s = &r->members.data[h->member];
	char name[64], what[128], ago[HUMAN_BYTES];
	struct buf line = {0};
	rank_name(name, sizeof(name), m);
	buf_printf(&line, "    %s %s", h->call == RANKS_NONE ? "missing" : "entered", name);
	if (h->call != RANKS_NONE) {
		const struct rank_call *c = &r->calls.data[h->call];
		ranks_call_text(what, sizeof(what), r, h->call);
		buf_printf(&line, ": %s, %s before its recording ended", what,
			   human_ns(ago,
				    s->observed_ns > c->host_ns ? s->observed_ns - c->host_ns : 0));
	}
	if (s->ended_ns)
		buf_printf(&line, "; the process has ended");
	if (ranks_function(r, h->probe))
		buf_printf(&line, "; in %s", ranks_function(r, h->probe));
	if (h->stack)
		buf_printf(&line,
			   "; its stack%s:", h->call == RANKS_NONE ? " when it was last seen" : "");
	else
		buf_printf(&line, "; no stack of it is known");
	buf_byte(&line, 0);
	page_wrapped(p, 0, 6, "%s", (char *)line.data);
	buf_free(&line);
	stack_lines(p, h->stack);
}

static void hangs(const struct page *p, const struct ranks *r)
{
	for (size_t i = 0; i < r->hangs.len; i++) {
		const struct ranks_hang *h = &r->hangs.data[i];
		char comm[64], quiet[HUMAN_BYTES],
			what[96] = "all ranks entered it, and it ended on none";
		ranks_comm_text(comm, sizeof(comm), r, h->group);
		fputs("  ", p->out);
		page_styled(p, RED, "hang");
		if (h->missing)
			snprintf(what, sizeof(what),
				 "%u of %u ranks entered it, and nothing went on", h->entered,
				 h->entered + h->missing);
		page_wrapped(p, 6, 4, " in number %" PRId64 " of communicator %s: %s for %s",
			     h->sequence, comm, what, human_ns(quiet, h->quiet_ns));
		for (size_t k = 0; k < h->ranks.len && k < RANKS_SHOWN; k++)
			hung_rank(p, r, &h->ranks.data[k]);
		if (h->ranks.len > RANKS_SHOWN)
			fprintf(p->out, "    ... and %zu ranks more\n", h->ranks.len - RANKS_SHOWN);
	}
}

static void text(const struct page *p, const void *state)
{
	const struct ranks *r = &((const struct ranks_state *)state)->ranks;
	sources(p);
	if (!r->several)
		return;
	fputc('\n', p->out);
	page_styled(p, BOLD, "ranks");
	fputc('\n', p->out);
	comm_tables(p, r);
	mismatches(p, r);
	not_compared(p, r);
	hangs(p, r);
}

static double relevance(const struct report *r, const void *state)
{
	const struct ranks *ranks = &((const struct ranks_state *)state)->ranks;
	(void)r;
	return ranks->hangs.len || ranks->mismatches.len ? RELEVANT_FAULT : RELEVANT_RANKS;
}

const struct report_section report_ranks = {.name = "ranks",
					    .begin = begin,
					    .make = make,
					    .relevance = relevance,
					    .text = text,
					    .json = ranks_json,
					    .end = end};
