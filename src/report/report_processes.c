/* report_processes.c - the job's processes by program, the busiest first. All of them one by one
 * only where the whole section is asked for. */
#include <inttypes.h>
#include <string.h>

#include "base/human.h"
#include "report/report_section.h"

#define PROGRAM_WORTH 0.01 /* of the CPU time: of programs with less a line is enough */

/* "cc1plus × 12", "python3 (4242)", "train × 8, ranks 0 to 7" */
static void program_text(char *ret, size_t size, const struct program *g)
{
	char ranks[48] = "", count[HUMAN_BYTES];
	if (g->rank_low >= 0 && g->rank_high > g->rank_low)
		snprintf(ranks, sizeof(ranks), ", ranks %d to %d", g->rank_low, g->rank_high);
	else if (g->rank_low >= 0)
		snprintf(ranks, sizeof(ranks), ", rank %d", g->rank_low);
	if (g->processes > 1)
		snprintf(ret, size, "%s × %s%s", g->name, human_count(count, g->processes), ranks);
	else
		snprintf(ret, size, "%s (%u)%s", g->name, g->pid, ranks);
}

static bool has_row(const struct programs *all, const struct program *g)
{
	return g->cpu_unknown < g->processes &&
	       (double)g->cpu_ns >= PROGRAM_WORTH * (double)all->cpu_ns;
}

static bool is_narrow(const struct page *p)
{
	return p->r->options->width < 4 * COLUMN_TIME + COLUMN_CALLS + 24;
}

static void program_row(const struct page *p, const struct program *g)
{
	const struct programs *all = p->r->programs;
	char share[HUMAN_BYTES], name[256];
	snprintf(share, sizeof(share), "%.1f %%",
		 all->cpu_ns ? 100 * (double)g->cpu_ns / (double)all->cpu_ns : 0);
	page_ns(p, g->cpu_ns, COLUMN_TIME);
	page_right(p, all->cpu_ns ? share : "-", COLUMN_TIME);
	page_ns(p, g->longest_ns, COLUMN_TIME);
	if (!is_narrow(p)) {
		page_count(p, g->threads, COLUMN_TIME);
		page_count(p, g->calls, COLUMN_CALLS);
	}
	program_text(name, sizeof(name), g);
	page_rest(p, name, 3 * COLUMN_TIME + (is_narrow(p) ? 0 : COLUMN_TIME + COLUMN_CALLS));
}

static void rest_line(const struct page *p, size_t from)
{
	const struct programs *all = p->r->programs;
	struct buf line = {0};
	char name[256];
	for (size_t i = from; i < all->list.len; i++) {
		program_text(name, sizeof(name), &all->list.data[i]);
		buf_printf(&line, "%s%s", i > from ? ", " : "", name);
	}
	buf_byte(&line, 0);
	if (from < all->list.len)
		page_wrapped(p, 0, 4, "  %s %s",
			     from ? "and" : "CPU time unknown:", (char *)line.data);
	buf_free(&line);
}

static void programs_table(const struct page *p)
{
	static const char *const heads[] = {"CPU time", "share", "longest", "threads"};
	const struct programs *all = p->r->programs;
	size_t shown = 0, most = page_shown(p, all->list.len);
	while (shown < most && has_row(all, &all->list.data[shown]))
		shown++;
	for (size_t i = 0; shown && i < (is_narrow(p) ? 3 : 4); i++)
		page_right(p, heads[i], COLUMN_TIME);
	if (shown && !is_narrow(p))
		page_right(p, "calls", COLUMN_CALLS);
	if (shown)
		fputs("  program\n", p->out);
	for (size_t i = 0; i < shown; i++)
		program_row(p, &all->list.data[i]);
	rest_line(p, shown);
}

/* "  [eacgm]: 14 processes of its own, 260 ms of CPU time; they are in no row" */
static void own_line(const struct page *p)
{
	const struct program *own = &p->r->programs->own;
	char n[HUMAN_BYTES], cpu[HUMAN_BYTES];
	if (own->processes)
		page_wrapped(p, 0, 4, "  [eacgm]: %s %s of its own, %s of CPU time; %s in no row",
			     human_count(n, own->processes),
			     own->processes == 1 ? "process" : "processes",
			     human_ns(cpu, own->cpu_ns),
			     own->processes == 1 ? "it is" : "they are");
}

static void process_row(const struct page *p, size_t index)
{
	const struct summary_process *q = &p->r->summary->processes.data[index];
	uint64_t cpu_ns = p->r->programs->process_cpu_ns[index];
	char count[HUMAN_BYTES], rank[16] = "-";
	if (q->row->rank >= 0)
		snprintf(rank, sizeof(rank), "%d", q->row->rank);
	fprintf(p->out, "%*u", COLUMN_TIME, q->row->pid);
	page_ns(p, cpu_ns == UINT64_MAX ? 0 : cpu_ns, COLUMN_TIME);
	page_right(p, rank, COLUMN_TIME);
	fprintf(p->out, "%*" PRIu64, COLUMN_TIME, q->threads);
	page_right(p, human_count(count, q->calls), COLUMN_CALLS);
	page_rest(p, strtab_get(&p->r->tables->strings, q->row->comm, NULL),
		  4 * COLUMN_TIME + COLUMN_CALLS);
}

static void all_processes(const struct page *p)
{
	static const char *const heads[] = {"pid", "CPU time", "rank", "threads"};
	size_t n = p->r->programs->processes, shown = page_shown(p, n), done = 0;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		page_right(p, heads[i], COLUMN_TIME);
	page_right(p, "calls", COLUMN_CALLS);
	fputs("  process\n", p->out);
	for (size_t i = 0; done < shown; i++) {
		if (process_is_own(p->r->tables, p->r->summary->processes.data[i].row))
			continue;
		process_row(p, i);
		done++;
	}
	page_more(p, n, shown, COLUMN_TIME);
}

static void text(const struct page *p, const void *unused)
{
	const struct programs *all = p->r->programs;
	char n[HUMAN_BYTES], programs[HUMAN_BYTES], cpu[HUMAN_BYTES];
	(void)unused;
	fputc('\n', p->out);
	page_styled(p, BOLD, "processes");
	fprintf(p->out, ": %s of %s %s", human_count(n, all->processes),
		human_count(programs, all->list.len), all->list.len == 1 ? "program" : "programs");
	if (all->cpu_ns)
		fprintf(p->out, ", %s of CPU time", human_ns(cpu, all->cpu_ns));
	fputc('\n', p->out);
	programs_table(p);
	own_line(p);
	if (!p->r->options->brief)
		all_processes(p);
}

void report_processes_parts(const struct report *r, struct report_parts *ret)
{
	const struct programs *all = r->programs;
	double elsewhere = all->cpu_ns ? (double)all->elsewhere_ns / (double)all->cpu_ns : 0;
	report_part_add(ret, &(struct report_part){.name = "processes",
						   .relevance = all->processes > 1 ? elsewhere
										   : RELEVANT_NOT,
						   .text = text});
}

/* ---- JSON ---- */

void report_programs_json(struct json_stream *out, const struct report *r)
{
	const struct program *own = &r->programs->own;
	if (own->processes)
		json_stream_put(out, "own_processes",
				json_pack("{s:I,s:o}", "processes", (json_int_t)own->processes,
					  "cpu_ns", report_number_json(own->cpu_ns)));
	json_stream_array(out, "programs");
	for (size_t i = 0; i < r->programs->list.len; i++) {
		const struct program *g = &r->programs->list.data[i];
		bool known = g->cpu_unknown < g->processes;
		json_stream_put(
			out, NULL,
			json_pack("{s:o,s:I,s:I,s:I,s:o,s:I}", "name", report_text_json(g->name),
				  "processes", (json_int_t)g->processes, "threads",
				  (json_int_t)g->threads, "calls", (json_int_t)g->calls, "cpu_ns",
				  known ? report_number_json(g->cpu_ns) : json_null(), "longest_ns",
				  (json_int_t)g->longest_ns));
	}
	json_stream_close(out);
}
