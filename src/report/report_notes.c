/* report_notes.c - what was expected and is not traced, and why. What is alike is told once; the
 * brief report leaves out libraries that nobody asked for. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/human.h"
#include "base/map64.h"
#include "report/report_section.h"

#define SUBJECTS_NAMED 4

struct group {
	const char *reason;
	VEC(const char *) subjects; /* each once */
	uint64_t notes;
};
struct groups {
	VEC(struct group) list;
	struct map64 place_of;
	uint64_t left_out; /* notes */
};

/* Of reasons that differ in numbers alone (a process, a time) one is enough. */
static uint64_t kind_of(const char *reason)
{
	struct buf plain = {0};
	for (const char *s = reason; *s; s++)
		if (!isdigit((unsigned char)*s) || s == reason || !isdigit((unsigned char)s[-1]))
			buf_byte(&plain, isdigit((unsigned char)*s) ? '#' : (uint8_t)*s);
	uint64_t hash = hash_bytes(plain.data, plain.len);
	buf_free(&plain);
	return hash;
}

static struct group *group_of(struct groups *g, const char *reason)
{
	uint64_t at, kind = kind_of(reason);
	if (map64_get(&g->place_of, kind, &at) && at < g->list.len)
		return &g->list.data[at];
	map64_set(&g->place_of, kind, g->list.len);
	struct group *group = vec_push(&g->list);
	*group = (struct group){.reason = reason};
	return group;
}

static void add_note(struct groups *g, const char *subject, const char *reason)
{
	struct group *group = group_of(g, reason);
	group->notes++;
	for (size_t i = 0; i < group->subjects.len && i < SUBJECTS_NAMED; i++)
		if (!strcmp(group->subjects.data[i], subject))
			return;
	*vec_push(&group->subjects) = subject;
}

/* A library of the catalog that is not there is no news to who did not ask for it; who did is told
 * with another note. */
static bool is_left_out(const struct report *r, const char *reason)
{
	return r->options->brief && !strcmp(reason, NOTE_NOT_LOADED);
}

static void make_groups(struct groups *g, const struct report *r)
{
	const struct rec_tables *t = r->tables;
	for (size_t i = 0; i < t->notes.len; i++) {
		const struct m_note *n = &t->notes.data[i];
		const char *reason = strtab_get(&t->strings, n->reason, NULL);
		if (is_left_out(r, reason))
			g->left_out++;
		else
			add_note(g, strtab_get(&t->strings, n->subject, NULL), reason);
	}
}

static void free_groups(struct groups *g)
{
	for (size_t i = 0; i < g->list.len; i++)
		vec_free(&g->list.data[i].subjects);
	vec_free(&g->list);
	map64_free(&g->place_of);
}

static bool are_processes(const struct group *g)
{
	for (size_t i = 0; i < g->subjects.len; i++)
		if (strncmp(g->subjects.data[i], "process ", 8) != 0)
			return false;
	return true;
}

/* "libx.so, liby.so and 3 more"; the brief report counts processes. */
static void subjects_text(const struct page *p, struct buf *line, const struct group *g)
{
	size_t n = g->subjects.len, named = p->r->options->brief ? SUBJECTS_NAMED : n;
	if (n > named && are_processes(g)) {
		buf_printf(line, "%zu processes", n);
		return;
	}
	for (size_t i = 0; i < n && i < named; i++)
		buf_printf(line, "%s%s", i ? ", " : "", g->subjects.data[i]);
	if (n > named)
		buf_printf(line, " and %zu more", n - named);
}

static void group_text(const struct page *p, const struct group *g)
{
	struct buf line = {0};
	subjects_text(p, &line, g);
	buf_printf(&line, ": %s", g->reason);
	if (g->notes > g->subjects.len)
		buf_printf(&line, " (%" PRIu64 " times)", g->notes);
	buf_byte(&line, 0);
	page_wrapped(p, 0, 4, "  %s", (char *)line.data);
	buf_free(&line);
}

static void text(const struct page *p, const void *unused)
{
	struct groups g = {0};
	(void)unused;
	make_groups(&g, p->r);
	fputc('\n', p->out);
	page_styled(p, BOLD, "notes");
	fputc('\n', p->out);
	for (size_t i = 0; i < g.list.len; i++)
		group_text(p, &g.list.data[i]);
	if (g.left_out)
		fprintf(p->out,
			"  libraries that eacgm knows and no process loaded: %" PRIu64
			" (--section notes)\n",
			g.left_out);
	free_groups(&g);
}

void report_notes_parts(const struct report *r, struct report_parts *ret)
{
	struct groups g = {0};
	make_groups(&g, r);
	report_part_add(ret, &(struct report_part){.name = "notes",
						   .relevance = g.list.len ? RELEVANT_DETAIL - 1
									   : RELEVANT_NOT,
						   .text = text});
	free_groups(&g);
}
