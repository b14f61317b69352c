/* autograd.c - links the nodes of backward passes with the operators that made them.
 *
 * The steps of a training are alike, so the subsequence is worked out once for each pair of
 * sequences and taken again while they repeat. */
#include "analyze/autograd.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/map64.h"
#include "base/strtab.h"

#define KEY_BYTES  128
#define MAX_CELLS  (1u << 24) /* of the table of one pass: 64 MiB */
#define NOT_LINKED UINT32_MAX
#define NEIGHBOURS 8 /* operators before and after one that tell its place in a layer */

struct operation { /* an operator, or a node */
	uint64_t start_ns;
	uint64_t sequence; /* of nodes */
	uint32_t thread;
	uint32_t probe;
	uint32_t key;
};

typedef VEC(struct operation) operations_t;

struct links {
	const struct torch_calls *calls;
	const struct rec_tables *t;
	struct autograd_links *ret;
	struct strtab keys;
	uint32_t *operator_key;	       /* by probe + 1: 0 = not yet */
	uint32_t *node_key;	       /* by string + 1: likewise */
	size_t *next;		       /* by thread: the row of calls that comes next */
	operations_t operators, nodes; /* of a pass */
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

static uint32_t operator_key(struct links *l, uint32_t probe)
{
	char key[KEY_BYTES];
	if (!l->operator_key[probe]) {
		uint32_t name = l->t->probes.data[probe].name;
		autograd_operator_key(key, sizeof(key), strtab_get(&l->t->strings, name, NULL));
		l->operator_key[probe] = strtab_add_z(&l->keys, key) + 1;
	}
	return l->operator_key[probe] - 1;
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
	const struct torch_pass *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
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

/* Of the operator at a place: beyond the ends of the pass there is nothing. */
static uint64_t neighbours_of(const struct operation *ops, size_t n, size_t at)
{
	uint64_t h = hash_u64(ops[at].key);
	for (size_t i = 1; i <= NEIGHBOURS; i++) {
		h = hash_u64(h ^ (i <= at ? ops[at - i].key + 1ULL : 0));
		h = hash_u64(h ^ (at + i < n ? ops[at + i].key + 1ULL : 0));
	}
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
			.place = hash_u64(pattern ^ hash_u64(at)),
			.neighbours = neighbours_of(ops, n, at),
		};
	}
}

/* Takes the rows of a thread up to the pass's end. Operators of the forward pass are not those that
 * nodes call: those begin within the pass. */
static void gather_thread(struct links *l, uint32_t thread, const struct torch_pass *p)
{
	const struct torch_calls *c = l->calls;
	size_t *next = &l->next[thread];
	for (; *next < c->first[thread + 1] && c->rows.data[*next].start_ns < p->end_ns; ++*next) {
		const struct torch_call *row = &c->rows.data[*next];
		struct operation o = {
			.start_ns = row->start_ns, .thread = thread, .probe = (uint32_t)row->probe};
		bool within = row->start_ns >= p->start_ns;
		if (row->node == TORCH_NO_NODE) {
			o.key = operator_key(l, o.probe);
			if (!within)
				*vec_push(&l->operators) = o;
			continue;
		}
		const struct torch_node *node = &c->nodes.data[row->node];
		o.key = node_key(l, node->name);
		o.sequence = node->sequence;
		if (within && node->numbered && o.key) /* 0 is "" */
			*vec_push(&l->nodes) = o;
	}
}

static void link_one(struct links *l, const uint32_t *threads, size_t n, const struct torch_pass *p)
{
	l->operators.len = l->nodes.len = 0;
	for (size_t i = 0; i < n; i++)
		gather_thread(l, threads[i], p);
	if (!l->operators.len || !l->nodes.len)
		return;
	qsort(l->operators.data, l->operators.len, sizeof(*l->operators.data), by_start);
	qsort(l->nodes.data, l->nodes.len, sizeof(*l->nodes.data), by_sequence);
	link_pass(l, l->ret, l->operators.data, l->operators.len, l->nodes.data, l->nodes.len);
}

static int by_pid(const void *a, const void *b, void *arg)
{
	const struct rec_tables *t = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint32_t px = t->threads.data[x].pid, py = t->threads.data[y].pid;
	if (px != py)
		return px < py ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* The threads that have rows, by process. */
static uint32_t *sort_threads(const struct links *l, size_t *ret_len)
{
	size_t n = 0;
	uint32_t *threads = xcalloc(l->t->threads.len + 1, sizeof(*threads));
	for (size_t i = 0; i < l->t->threads.len; i++)
		if (l->calls->first[i + 1] > l->calls->first[i])
			threads[n++] = (uint32_t)i;
	qsort_r(threads, n, sizeof(*threads), by_pid, (void *)(uintptr_t)l->t);
	*ret_len = n;
	return threads;
}

static void link_all(struct links *l, const struct torch_pass *passes, size_t n)
{
	size_t len, thread = 0;
	uint32_t *threads = sort_threads(l, &len);
	for (size_t i = 0; i < n; i++) {
		uint32_t pid = passes[i].pid;
		while (thread < len && l->t->threads.data[threads[thread]].pid < pid)
			thread++;
		size_t end = thread;
		while (end < len && l->t->threads.data[threads[end]].pid == pid)
			end++;
		link_one(l, threads + thread, end - thread, &passes[i]);
	}
	free(threads);
}

static void count_nodes(struct links *l)
{
	for (size_t i = 0; i < l->calls->nodes.len; i++)
		l->ret->nodes += l->calls->nodes.data[i].numbered &&
				 node_key(l, l->calls->nodes.data[i].name);
}

static int by_node(const void *a, const void *b)
{
	const struct autograd_link *x = a, *y = b;
	if (x->node_thread != y->node_thread)
		return x->node_thread < y->node_thread ? -1 : 1;
	return (x->node_start_ns > y->node_start_ns) - (x->node_start_ns < y->node_start_ns);
}

void autograd_links_find(struct autograd_links *ret, const struct torch_calls *c)
{
	struct links l = {.calls = c, .t = c->tables, .ret = ret};
	size_t n = c->passes.len, threads = l.t->threads.len;
	struct torch_pass *passes = xcalloc(n + 1, sizeof(*passes));
	*ret = (struct autograd_links){0};
	(void)strtab_add_z(&l.keys, "");
	l.operator_key = xcalloc(l.t->probes.len + 1, sizeof(*l.operator_key));
	l.node_key = xcalloc(strtab_len(&l.t->strings) + 1, sizeof(*l.node_key));
	l.next = xcalloc(threads + 1, sizeof(*l.next));
	memcpy(l.next, c->first, threads * sizeof(*l.next));
	if (n) {
		memcpy(passes, c->passes.data, n * sizeof(*passes));
		qsort(passes, n, sizeof(*passes), by_pass);
	}
	count_nodes(&l);
	link_all(&l, passes, n);
	if (ret->rows.len)
		qsort(ret->rows.data, ret->rows.len, sizeof(*ret->rows.data), by_node);
	vec_free(&l.operators);
	vec_free(&l.nodes);
	vec_free(&l.partner);
	strtab_free(&l.keys);
	free(passes);
	free(l.operator_key);
	free(l.node_key);
	free(l.next);
}

static void nothing_more(void *ctx)
{
	(void)ctx;
}

void autograd_links_make(struct autograd_links *ret, const struct row_source *s, uint32_t pid)
{
	struct torch_calls calls;
	struct row_visitor *v = torch_calls_visitor(&calls, s, pid, nothing_more, NULL);
	rows_visit(s, &v, 1, NULL);
	autograd_links_find(ret, &calls);
	torch_calls_free(&calls);
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
