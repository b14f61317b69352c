/* account_peers.c - which other processes and threads a main thread had to do with: who had its
 * CPU, who ended its waits for locks, who made its data. Each is summed by its number, for names
 * are shared. */
#include <stdlib.h>
#include <string.h>

#include "analyze/account_impl.h"
#include "analyze/programs.h"
#include "base/program_name.h"

#define GENERATIONS 64 /* a child's child's ...; more are taken for none */

/* ---- names ---- */

/* What a process calls itself says more than its script, unless that is the interpreter's name.
 * PyTorch calls all that import it pt_main_thread. */
static const char *own_name(const struct rec_tables *t, const struct m_process *p)
{
	const char *comm = process_program(t, p);
	return program_is_interpreter(comm) || !strcmp(comm, "pt_main_thread") ? NULL : comm;
}

/* Of recordings of before processes had scripts (and the host's CPUs a number), the command's
 * process and its children that run the same file have the name of what the command runs. */
static bool runs_the_command(const struct rec_tables *t, const struct m_process *p)
{
	return !rec_meta(t, "cpus") && t->processes.len &&
	       p->command == t->processes.data[0].command;
}

const char *account_program(const struct rec_tables *t, const struct m_process *p)
{
	const char *program = rec_meta(t, "program");
	if (!p)
		return "a process";
	const char *own = own_name(t, p);
	if (p->script && !own)
		return strtab_get(&t->strings, p->script, NULL);
	if (program && *program && runs_the_command(t, p))
		return program;
	return process_program(t, p);
}

/* ---- whose ---- */

static enum account_kin kin_of(const struct accounting *a, uint32_t pid, uint32_t of)
{
	uint64_t parent = of;
	if (pid == of)
		return KIN_SELF;
	for (int i = 0; i < GENERATIONS && map64_get(&a->parent_of, parent, &parent); i++)
		if (parent == pid)
			return KIN_CHILD;
	if (map64_get(&a->parent_of, of, &parent))
		return KIN_JOB;
	return rec_meta(a->t, "command") && a->t->processes.len &&
			       a->t->processes.data[0].parent_pid == of
		       ? KIN_RECORDER
		       : KIN_STRANGER;
}

/* ---- sums ---- */

void account_peer_add(struct accounting *a, const struct account_thread *th, enum account_part part,
		      const struct peer_row *peer)
{
	uint32_t at = (uint32_t)(th - a->ret->threads.data);
	uint64_t key = hash_u64((uint64_t)at << 32 | peer->pid) ^
		       hash_u64((uint64_t)peer->tid << 8 | part);
	uint64_t place;
	if (!map64_get(&a->peer_of, key, &place)) {
		place = a->peers.len;
		map64_set(&a->peer_of, key, place);
		struct peer_row *row = vec_push(&a->peers);
		*row = *peer;
		row->at = at;
		row->part = part;
		row->ns = 0;
	}
	a->peers.data[place].ns += peer->ns;
}

static int compare_peers(const void *a, const void *b)
{
	const struct peer_row *x = a, *y = b;
	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return x->pid != y->pid	 ? (x->pid < y->pid ? -1 : 1)
	       : x->tid < y->tid ? -1
				 : x->tid > y->tid;
}

static const char *name_of(const struct accounting *a, const struct peer_row *row,
			   const struct m_process *process)
{
	uint64_t thread;
	if (row->tid && map64_get(&a->thread_of_tid, row->tid, &thread))
		return strtab_get(&a->t->strings, a->t->threads.data[thread].comm, NULL);
	if (process)
		return account_program(a->t, process);
	return strtab_get(&a->t->strings, row->name, NULL);
}

void account_peers_end(struct accounting *a, const struct process_index *index)
{
	if (a->peers.len)
		qsort(a->peers.data, a->peers.len, sizeof(*a->peers.data), compare_peers);
	for (size_t i = 0; i < a->peers.len; i++) {
		const struct peer_row *row = &a->peers.data[i];
		struct account_thread *th = &a->ret->threads.data[row->at];
		struct account_peers *to = &th->peers[row->part];
		to->ns += row->ns;
		if (to->count++ >= ACCOUNT_PEERS)
			continue;
		to->top[to->count - 1] = (struct account_peer){
			.pid = row->pid,
			.tid = row->tid,
			.name = name_of(a, row, process_index_row(index, row->pid)),
			.kin = kin_of(a, th->pid, row->pid),
			.ns = row->ns,
		};
	}
}
