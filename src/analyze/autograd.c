/* autograd.c - links the nodes of backward passes with the operators that made them.
 *
 * The steps of a training are alike, so the subsequence is worked out once for each pair of
 * sequences and taken again while they repeat. */
#include "analyze/autograd.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/map64.h"

#define KEY_BYTES  128
#define MAX_CELLS  (1u << 24) /* of the table of one pass: 64 MiB */
#define NOT_LINKED UINT32_MAX

struct operation { /* an operator, or a node */
	uint64_t start_ns;
	uint64_t sequence; /* of nodes */
	uint32_t thread;
	uint32_t probe;
	uint32_t key;
};

struct pass_of_backward {
	uint64_t start_ns, end_ns;
};

typedef VEC(struct operation) operations_t;

struct job {
	uint32_t pid;
	operations_t operators, nodes;
	VEC(struct pass_of_backward) passes;
};

enum kind { OTHER, OPERATOR, NODE, BACKWARD };

struct links {
	const struct rec_tables *t;
	struct strtab keys;
	uint8_t *kind_of;	/* by probe: enum kind */
	uint32_t *operator_key; /* by probe */
	int8_t *sequence_arg;	/* by probe */
	uint32_t *node_key;	/* by string + 1: 0 = not yet */
	VEC(struct job) jobs;
	struct map64 job_of;   /* pid -> index */
	VEC(uint32_t) partner; /* of the pass that was linked last, by node: its operator's place */
	uint64_t pattern;      /* hash of that pass's sequences */
};

/* ---- names ---- */

static void put_key(char *ret, size_t size, const char *from, const char *to)
{
	size_t n = 0;
	for (; from < to && n + 1 < size; from++)
		if (isalnum((unsigned char)*from))
			ret[n++] = (char)tolower((unsigned char)*from);
	ret[n] = '\0';
}

static const char *after_namespace(const char *name)
{
	const char *last = name;
	for (const char *p; (p = strstr(last, "::"));)
		last = p + 2;
	return last;
}

void autograd_operator_key(char *ret, size_t size, const char *name)
{
	static const char suffix[] = "_forward"; /* aten::nll_loss_forward, NllLossBackward0 */
	size_t len = strlen(name = after_namespace(name));
	if (len >= sizeof(suffix) && !strcmp(name + len - (sizeof(suffix) - 1), suffix))
		len -= sizeof(suffix) - 1;
	put_key(ret, size, name, name + len);
}

void autograd_node_key(char *ret, size_t size, const char *name)
{
	const char *from = after_namespace(name), *to = strstr(from, "Backward");
	put_key(ret, size, from, to ? to : from);
}

/* ---- reading ---- */

static enum kind kind_of(const struct links *l, const struct m_probe *p)
{
	const char *role = strtab_get(&l->t->strings, p->role, NULL);
	const char *name = strtab_get(&l->t->strings, p->name, NULL);
	if (!strcmp(role, "autograd_node"))
		return NODE;
	if (!strcmp(role, "backward"))
		return BACKWARD;
	return p->name_arg < 0 && !strcmp(strtab_get(&l->t->strings, p->layer, NULL), "torch") &&
			       strstr(name, "::")
		       ? OPERATOR
		       : OTHER;
}

static int8_t arg_named(const struct links *l, const struct m_probe *p, const char *name)
{
	for (int8_t i = 0; i < p->nargs; i++)
		if (!strcmp(strtab_get(&l->t->strings, p->arg_names[i], NULL), name))
			return i;
	return -1;
}

static void know_probes(struct links *l)
{
	char key[KEY_BYTES];
	size_t n = l->t->probes.len;
	l->kind_of = xcalloc(n + 1, sizeof(*l->kind_of));
	l->operator_key = xcalloc(n + 1, sizeof(*l->operator_key));
	l->sequence_arg = xcalloc(n + 1, sizeof(*l->sequence_arg));
	l->node_key = xcalloc(strtab_len(&l->t->strings) + 1, sizeof(*l->node_key));
	for (size_t i = 0; i < n; i++) {
		const struct m_probe *p = &l->t->probes.data[i];
		l->kind_of[i] = kind_of(l, p);
		l->sequence_arg[i] = arg_named(l, p, "sequence");
		if (l->kind_of[i] == NODE && (p->name_arg < 0 || l->sequence_arg[i] < 0))
			l->kind_of[i] = OTHER;
		if (l->kind_of[i] != OPERATOR)
			continue;
		autograd_operator_key(key, sizeof(key), strtab_get(&l->t->strings, p->name, NULL));
		l->operator_key[i] = strtab_add_z(&l->keys, key);
	}
}

static uint32_t node_key(struct links *l, uint32_t string)
{
	char key[KEY_BYTES];
	if (!l->node_key[string]) {
		autograd_node_key(key, sizeof(key), strtab_get(&l->t->strings, string, NULL));
		l->node_key[string] = strtab_add_z(&l->keys, key) + 1;
	}
	return l->node_key[string] - 1;
}

static struct job *job_of(struct links *l, uint32_t pid)
{
	uint64_t at;
	if (!map64_get(&l->job_of, pid, &at)) {
		at = l->jobs.len;
		map64_set(&l->job_of, pid, at);
		((struct job *)vec_push(&l->jobs))->pid = pid;
	}
	return &l->jobs.data[at];
}

static void take(struct links *l, const struct m_call *c, uint32_t pid)
{
	const struct m_probe *p = &l->t->probes.data[c->probe];
	struct operation o = {.start_ns = c->start_ns, .thread = c->thread, .probe = c->probe};
	switch (l->kind_of[c->probe]) {
	case OPERATOR:
		o.key = l->operator_key[c->probe];
		*vec_push(&job_of(l, pid)->operators) = o;
		break;
	case NODE:
		if (p->name_arg >= c->nargs || l->sequence_arg[c->probe] >= c->nargs)
			break;
		o.key = node_key(l, (uint32_t)c->args[p->name_arg]);
		o.sequence = c->args[l->sequence_arg[c->probe]];
		if (o.key) /* 0 is "" */
			*vec_push(&job_of(l, pid)->nodes) = o;
		break;
	case BACKWARD:
		*vec_push(&job_of(l, pid)->passes) =
			(struct pass_of_backward){c->start_ns, c->start_ns + c->dur_ns};
		break;
	default:
		break;
	}
}

static void read_calls(struct links *l, const struct rec_reader *r, uint32_t only_pid)
{
	struct m_calls calls = {0};
	for (size_t b = 0; b < rec_call_blocks(r); b++) {
		if (rec_read_calls(r, b, &calls, NULL))
			continue;
		for (size_t i = 0; i < calls.len; i++) {
			uint32_t pid = l->t->threads.data[calls.rows[i].thread].pid;
			if (!only_pid || pid == only_pid)
				take(l, &calls.rows[i], pid);
		}
	}
	m_calls_free(&calls);
}

/* ---- one pass ---- */

static int by_start(const void *a, const void *b)
{
	const struct operation *x = a, *y = b;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static int by_sequence(const void *a, const void *b)
{
	const struct operation *x = a, *y = b;
	return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

static int by_pass(const void *a, const void *b)
{
	const struct pass_of_backward *x = a, *y = b;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static uint64_t pattern_of(const struct operation *ops, size_t n, const struct operation *nodes,
			   size_t m)
{
	uint64_t h = hash_u64((uint64_t)n << 32 | m);
	for (size_t i = 0; i < n; i++)
		h = hash_u64(h ^ ops[i].key);
	for (size_t i = 0; i < m; i++)
		h = hash_u64(h ^ nodes[i].key);
	return h;
}

/* best[i * (n + 1) + j]: the longest common subsequence of the first i nodes and j operators. Of
 * equal ones the latest operators are taken: what precedes the forward pass has no nodes. */
static void longest_common(struct links *l, const struct operation *ops, size_t n,
			   const struct operation *nodes, size_t m)
{
	size_t width = n + 1;
	uint32_t *best = xcalloc((m + 1) * width, sizeof(*best));
	for (size_t i = 1; i <= m; i++)
		for (size_t j = 1; j <= n; j++) {
			uint32_t up = best[(i - 1) * width + j], left = best[i * width + j - 1];
			uint32_t both = best[(i - 1) * width + j - 1] +
					(nodes[i - 1].key == ops[j - 1].key);
			uint32_t most = up > left ? up : left;
			best[i * width + j] = both > most ? both : most;
		}
	for (size_t i = m, j = n; i && j;) {
		uint32_t here = best[i * width + j];
		if (nodes[i - 1].key == ops[j - 1].key && here == best[(i - 1) * width + j - 1] + 1)
			l->partner.data[--i] = (uint32_t)--j;
		else if (here == best[(i - 1) * width + j])
			i--;
		else
			j--;
	}
	free(best);
}

/* ops and nodes in their orders. */
static void link_pass(struct links *l, struct autograd_links *ret, const struct operation *ops,
		      size_t n, const struct operation *nodes, size_t m)
{
	if (!n || !m || (m + 1) > MAX_CELLS / (n + 1))
		return;
	uint64_t pattern = pattern_of(ops, n, nodes, m);
	if (pattern != l->pattern || l->partner.len != m) {
		l->partner.len = 0;
		for (size_t i = 0; i < m; i++)
			*vec_push(&l->partner) = NOT_LINKED;
		longest_common(l, ops, n, nodes, m);
		l->pattern = pattern;
	}
	for (size_t i = 0; i < m; i++) {
		uint32_t at = l->partner.data[i];
		if (at == NOT_LINKED)
			continue;
		*vec_push(&ret->rows) = (struct autograd_link){
			.node_thread = nodes[i].thread,
			.operator_thread = ops[at].thread,
			.node_start_ns = nodes[i].start_ns,
			.operator_start_ns = ops[at].start_ns,
			.operator_probe = ops[at].probe,
			.node_probe = nodes[i].probe,
		};
	}
}

/* Operators of the forward pass are not those that nodes call: those begin within the pass. */
static void link_job(struct links *l, struct autograd_links *ret, struct job *job)
{
	size_t op = 0, node = 0;
	if (!job->operators.len || !job->nodes.len || !job->passes.len)
		return;
	qsort(job->operators.data, job->operators.len, sizeof(*job->operators.data), by_start);
	qsort(job->nodes.data, job->nodes.len, sizeof(*job->nodes.data), by_start);
	qsort(job->passes.data, job->passes.len, sizeof(*job->passes.data), by_pass);
	for (size_t i = 0; i < job->passes.len; i++) {
		const struct pass_of_backward *p = &job->passes.data[i];
		size_t first_op = op, first_node;
		while (op < job->operators.len && job->operators.data[op].start_ns < p->start_ns)
			op++;
		size_t end_op = op;
		while (node < job->nodes.len && job->nodes.data[node].start_ns < p->start_ns)
			node++;
		first_node = node;
		while (node < job->nodes.len && job->nodes.data[node].start_ns < p->end_ns)
			node++;
		while (op < job->operators.len && job->operators.data[op].start_ns < p->end_ns)
			op++;
		if (node > first_node)
			qsort(&job->nodes.data[first_node], node - first_node,
			      sizeof(*job->nodes.data), by_sequence);
		link_pass(l, ret, &job->operators.data[first_op], end_op - first_op,
			  &job->nodes.data[first_node], node - first_node);
	}
}

static int by_node(const void *a, const void *b)
{
	const struct autograd_link *x = a, *y = b;
	if (x->node_thread != y->node_thread)
		return x->node_thread < y->node_thread ? -1 : 1;
	return (x->node_start_ns > y->node_start_ns) - (x->node_start_ns < y->node_start_ns);
}

void autograd_links_make(struct autograd_links *ret, const struct rec_reader *r, uint32_t pid)
{
	struct links l = {.t = rec_tables(r)};
	*ret = (struct autograd_links){0};
	(void)strtab_add_z(&l.keys, "");
	know_probes(&l);
	read_calls(&l, r, pid);
	for (size_t i = 0; i < l.jobs.len; i++) {
		struct job *job = &l.jobs.data[i];
		ret->nodes += job->nodes.len;
		link_job(&l, ret, job);
		vec_free(&job->operators);
		vec_free(&job->nodes);
		vec_free(&job->passes);
	}
	if (ret->rows.len)
		qsort(ret->rows.data, ret->rows.len, sizeof(*ret->rows.data), by_node);
	vec_free(&l.jobs);
	vec_free(&l.partner);
	map64_free(&l.job_of);
	strtab_free(&l.keys);
	free(l.kind_of);
	free(l.operator_key);
	free(l.sequence_arg);
	free(l.node_key);
}

void autograd_links_free(struct autograd_links *l)
{
	vec_free(&l->rows);
}

const struct autograd_link *autograd_link_of(const struct autograd_links *l, uint32_t thread,
					     uint64_t start_ns)
{
	size_t low = 0, high = l->rows.len;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct autograd_link *row = &l->rows.data[mid];
		if (row->node_thread == thread && row->node_start_ns == start_ns)
			return row;
		if (row->node_thread < thread ||
		    (row->node_thread == thread && row->node_start_ns < start_ns))
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}
