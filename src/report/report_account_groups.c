/* report_account_groups.c - main threads by what they run, and the processes that a command left
 * behind. */
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/map64.h"
#include "report/report_account.h"

#define KTHREADD   2
#define LEFT_LEAST 100 /* one part in so many of the time: all processes end a little later */
#define LEFT_NS	   100000000ULL
#define ALIKE	   0.4
#define STAYS	   4 /* one part in so many of the recording: who is there for less comes and goes */
#define KINDS_MOST 3 /* groups of one program, beside the first */

static struct account_group *group_of(account_groups_t *groups, struct map64 *place_of,
				      const char *program)
{
	uint64_t at, key = hash_bytes(program, strlen(program));
	if (!map64_get(place_of, key, &at)) {
		at = groups->len;
		map64_set(place_of, key, at);
		*vec_push(groups) = (struct account_group){.program = program};
	}
	return &groups->data[at];
}

/* How much of the time of a thread is spent as that of a group: from 0 to 1. */
static double likeness(const struct account_group *g, const struct account_thread *th)
{
	double sum = 0;
	for (int k = 0; g->wall_ns && th->wall_ns && k < ACCOUNT_OWNERS; k++) {
		double of_group = (double)g->ns[k] / (double)g->wall_ns;
		double of_thread = (double)th->ns[k] / (double)th->wall_ns;
		sum += of_group < of_thread ? of_group : of_thread;
	}
	return sum;
}

/* A master that waits for signals is no worker. Those that come and go are of one kind. */
static struct account_group *group_like(account_groups_t *groups, struct map64 *place_of,
					const struct account_thread *th, uint64_t run_ns)
{
	struct account_group *g = group_of(groups, place_of, th->program);
	bool tells = th->wall_ns * STAYS >= run_ns;
	for (int i = 0; tells && g->processes && likeness(g, th) < ALIKE; i++) {
		if (!g->next && i < KINDS_MOST) {
			size_t at = (size_t)(g - groups->data);
			*vec_push(groups) = (struct account_group){.program = th->program};
			groups->data[at].next = (uint32_t)groups->len;
			return &groups->data[groups->len - 1];
		}
		if (!g->next)
			break;
		g = &groups->data[g->next - 1];
	}
	return g;
}

static void add_process(struct account_group *g, uint32_t pid)
{
	if (g->processes < GROUP_PIDS)
		g->pids[g->processes] = pid;
	g->processes++;
}

/* Of the process that is told of by itself. */
static bool is_child(const struct account_state *s, const struct account_thread *th)
{
	const struct account *a = &s->account;
	return th->process && a->main < a->threads.len &&
	       th->process->parent_pid == a->threads.data[a->main].pid;
}

static int compare_groups(const void *a, const void *b)
{
	const struct account_group *x = a, *y = b;
	return x->run_ns > y->run_ns ? -1 : x->run_ns < y->run_ns;
}

/* Threads of the kernel are children of its number 2, and no programs. */
static bool is_of_kernel(const struct account_thread *th)
{
	return th->process && (th->pid == KTHREADD || th->process->parent_pid == KTHREADD) &&
	       !th->process->command;
}

/* The command's last row: a process whose number is told again has one more. */
static const struct m_process *command_of(const struct rec_tables *t)
{
	const struct m_process *ret = &t->processes.data[0];
	for (size_t i = 1; i < t->processes.len; i++)
		if (t->processes.data[i].pid == ret->pid)
			ret = &t->processes.data[i];
	return ret;
}

/* Of a command: those of its processes that were there for a while after it had ended. */
static void find_left(struct account_state *s)
{
	const struct report *r = s->r;
	const struct rec_tables *t = r->tables;
	uint64_t began_ns = report_number(t, "start_monotonic_ns");
	uint64_t end_ns = began_ns + r->duration_ns;
	uint64_t least_ns = r->duration_ns / LEFT_LEAST;
	struct map64 place_of = {0};
	if (!rec_meta(t, "command") || !t->processes.len || t->sources.len > 1)
		return;
	const struct m_process *command = command_of(t);
	least_ns = command->end_ns + (least_ns > LEFT_NS ? least_ns : LEFT_NS);
	for (size_t i = 0; command->end_ns > began_ns && i < r->summary->processes.len; i++) {
		const struct m_process *p = r->summary->processes.data[i].row;
		uint64_t ended_ns = p->end_ns ? p->end_ns : end_ns;
		if (p->pid == command->pid || ended_ns < least_ns || ended_ns < command->end_ns)
			continue;
		add_process(group_of(&s->left, &place_of, account_program(t, p)), p->pid);
		s->left_open |= !p->end_ns;
		s->command_ns = command->end_ns - began_ns;
		if (ended_ns - command->end_ns > s->left_ns)
			s->left_ns = ended_ns - command->end_ns;
	}
	map64_free(&place_of);
}

void account_groups_make(struct account_state *s)
{
	struct map64 place_of = {0};
	for (size_t i = 0; i < s->account.threads.len; i++) {
		const struct account_thread *th = &s->account.threads.data[i];
		if (i == s->account.main || is_of_kernel(th))
			continue;
		struct account_group *g = group_like(&s->groups, &place_of, th, s->r->duration_ns);
		bool child = is_child(s, th);
		g->children = child && (g->children || !g->processes);
		add_process(g, th->pid);
		g->wall_ns += th->wall_ns;
		g->run_ns += th->run_ns;
		for (int k = 0; k < ACCOUNT_OWNERS; k++)
			g->ns[k] += th->ns[k];
	}
	if (s->groups.len)
		qsort(s->groups.data, s->groups.len, sizeof(*s->groups.data), compare_groups);
	map64_free(&place_of);
	find_left(s);
}

void account_say_group(struct buf *to, const struct account_group *g)
{
	char count[HUMAN_BYTES];
	buf_printf(to, "%s", g->program);
	if (g->processes > 1)
		buf_printf(to, " × %s", human_count(count, g->processes));
	for (uint32_t i = 0; g->processes <= GROUP_PIDS && i < g->processes; i++)
		buf_printf(to, "%s%u", i ? ", " : " (", g->pids[i]);
	buf_printf(to, "%s", g->processes <= GROUP_PIDS ? ")" : "");
}
