/* report_account_waits.c - where threads wait, each thread by itself, by the totals that the kernel
 * side counts: what the section off-cpu says where no stacks of waits were recorded. */
#include <stdlib.h>
#include <string.h>

#include "analyze/process_index.h"
#include "analyze/programs.h"
#include "base/human.h"
#include "base/map64.h"
#include "report/report_account.h"
#include "report/report_section.h"

#define REASONS_SHOWN 3
#define ROW_LEAST     100 /* one part in so many of a thread's waits: smaller reasons are left out */

struct waiting {
	uint32_t thread;
	uint64_t off_ns, wall_ns, uninterruptible_ns;
	uint64_t ns[ACCOUNT_OWNERS];
};
typedef VEC(struct waiting) waitings_t;

static void load(waitings_t *ret, const struct rec_tables *t, uint32_t pid)
{
	struct map64 place_of = {0};
	bool *own = threads_of_own_processes(t);
	for (size_t i = 0; i < t->wait_totals.len; i++) {
		const struct m_wait_total *w = &t->wait_totals.data[i];
		uint64_t at;
		if (own[w->thread] || (pid && t->threads.data[w->thread].pid != pid))
			continue;
		if (!map64_get(&place_of, w->thread, &at)) {
			at = ret->len;
			map64_set(&place_of, w->thread, at);
			*vec_push(ret) = (struct waiting){.thread = w->thread};
		}
		struct waiting *row = &ret->data[at];
		/* NOLINTBEGIN(clang-analyzer-core.NullDereference): room has data */
		uint64_t wall_ns = w->until_ns > w->since_ns ? w->until_ns - w->since_ns : 0;
		row->ns[account_owner_of(w->reason)] += w->waited_ns;
		row->ns[ACCOUNT_RUNNABLE] += w->runnable_ns;
		row->off_ns += w->waited_ns + w->runnable_ns;
		row->uninterruptible_ns += w->uninterruptible_ns;
		row->wall_ns = wall_ns > row->wall_ns ? wall_ns : row->wall_ns;
		/* NOLINTEND(clang-analyzer-core.NullDereference) */
	}
	free(own);
	map64_free(&place_of);
}

static int compare_waitings(const void *a, const void *b)
{
	const struct waiting *x = a, *y = b;
	if (x->off_ns != y->off_ns)
		return x->off_ns > y->off_ns ? -1 : 1;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

/* "62 % waiting for locks and conditions, 30 % sleeping": the largest of what is left. */
static void say_reasons(struct buf *to, struct waiting row)
{
	for (int i = 0; i < REASONS_SHOWN; i++) {
		int most = 0;
		for (int k = 1; k < ACCOUNT_OWNERS; k++)
			most = row.ns[k] > row.ns[most] ? k : most;
		if (!row.ns[most] || row.ns[most] * ROW_LEAST < row.off_ns)
			break;
		buf_printf(to, "%s%.0f %% %s", i ? ", " : "",
			   100 * (double)row.ns[most] / (double)row.off_ns,
			   account_owner_words((enum account_owner)most));
		row.ns[most] = 0;
	}
}

/* "train.py (42)", "pt_autograd_0 (43 of train.py, 42)" */
static void say_thread(struct buf *to, const struct rec_tables *t,
		       const struct process_index *index, const struct m_thread *th)
{
	const char *program = account_program(t, process_index_row(index, th->pid));
	if (th->tid == th->pid)
		buf_printf(to, "%s (%u)", program, th->pid);
	else
		buf_printf(to, "%s (%u of %s, %u)", strtab_get(&t->strings, th->comm, NULL),
			   th->tid, program, th->pid);
}

static void row_text(const struct page *p, const struct process_index *index,
		     const struct waiting *row)
{
	const struct rec_tables *t = p->r->tables;
	const struct m_thread *th = &t->threads.data[row->thread];
	uint64_t wall_ns = row->off_ns > row->wall_ns ? row->off_ns : row->wall_ns;
	struct buf text = {0};
	char share[HUMAN_BYTES];
	page_ns(p, row->off_ns, COLUMN_TIME);
	snprintf(share, sizeof(share), "%.1f %%", 100 * (double)row->off_ns / (double)wall_ns);
	page_right(p, share, COLUMN_TIME);
	buf_printf(&text, "  ");
	say_thread(&text, t, index, th);
	buf_printf(&text, ": ");
	say_reasons(&text, *row);
	buf_byte(&text, 0);
	page_wrapped(p, 2 * COLUMN_TIME, 2 * COLUMN_TIME + 4, "%s", (char *)text.data);
	buf_free(&text);
}

/* As in the state D of ps(1): what waits for disks, file systems of the network and drivers. */
static void uninterruptible_text(const struct page *p, const waitings_t *rows)
{
	char time[HUMAN_BYTES], most[HUMAN_BYTES];
	uint64_t sum_ns = 0, most_ns = 0;
	size_t threads = 0;
	for (size_t i = 0; i < rows->len; i++) {
		uint64_t ns = rows->data[i].uninterruptible_ns;
		sum_ns += ns;
		most_ns = ns > most_ns ? ns : most_ns;
		threads += ns > 0;
	}
	if (!threads)
		return;
	human_ns(time, sum_ns);
	human_ns(most, most_ns);
	page_wrapped(p, 0, 4,
		     "  In uninterruptible sleep (state D): %s in %zu %s, at most %s in one.", time,
		     threads, threads == 1 ? "thread" : "threads", most);
}

static void waits_text(const struct page *p, const void *unused)
{
	waitings_t rows = {0};
	struct process_index index;
	(void)unused;
	load(&rows, p->r->tables, p->r->options->pid);
	if (rows.len)
		qsort(rows.data, rows.len, sizeof(*rows.data), compare_waitings);
	process_index_make(&index, p->r->tables);
	size_t shown = page_shown(p, rows.len);
	fputc('\n', p->out);
	page_styled(p, BOLD, "off the CPU by thread");
	fputc('\n', p->out);
	page_right(p, "time", COLUMN_TIME);
	page_right(p, "of life", COLUMN_TIME);
	fputs("  thread, and what that time was\n", p->out);
	for (size_t i = 0; i < shown && rows.data && rows.data[i].off_ns; i++)
		row_text(p, &index, &rows.data[i]);
	page_more(p, rows.len, shown, COLUMN_TIME);
	uninterruptible_text(p, &rows);
	page_wrapped(p, 0, 4, "  Stacks of waits: %s",
		     p->r->profile->waits ? "'eacgm flame --kind offcpu' shows them."
					  : "'eacgm record --profile cpu,offcpu' records them.");
	process_index_free(&index);
	vec_free(&rows);
}

static void none_text(const struct page *p, const void *unused)
{
	(void)unused;
	fputc('\n', p->out);
	page_wrapped(p, 0, 2,
		     "off the CPU: not recorded; 'eacgm record --profile cpu,offcpu' does");
}

/* Only for who asks: of the main threads the account has told the same. */
void report_waits_parts(const struct report *r, struct report_parts *ret)
{
	bool has_totals = r->tables->wait_totals.len;
	if (!r->options->sections || (!has_totals && r->profile->waits))
		return;
	report_part_add(ret, &(struct report_part){.name = "off-cpu",
						   .relevance = RELEVANT_DETAIL,
						   .text = has_totals ? waits_text : none_text});
}
