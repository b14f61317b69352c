/* steps_load.c - a recording's calls as each thread's text of outermost operations.
 *
 * Says of an operation no more than its name, its time and what the name tells. */
#include <string.h>

#include <linux/types.h>

#include "analyze/functions.h"
#include "analyze/gpu_roles.h"
#include "analyze/steps_impl.h"
#include "base/layer.h"
#include "base/sort.h"
#include "wire/event.h"

enum probe_kind { PROBE_OTHER, PROBE_OPERATOR, PROBE_NODE, PROBE_BACKWARD, PROBE_RANGE };

/* What a thread of the visit reads of a block's calls of one thread. */
struct segment {
	size_t block;
	uint32_t thread;
	steps_ops_t torch, device;
};

/* All that a thread of the visit reads: symbols are its own. */
struct share {
	struct steps_input in;
	VEC(uint64_t) keys; /* by symbol: of symbol_of */
	VEC(struct segment) segments;
	steps_wait_rows_t waits;
};

struct loader {
	struct row_visitor visitor;
	struct steps_input *in;
	void (*done)(void *ctx);
	void *ctx;
	const struct rec_tables *t;
	struct fn_ids ids;
	struct gpu_probes roles;
	uint8_t *kinds;	  /* enum probe_kind, by probe */
	uint8_t *counted; /* enum counted_layer, by probe */
	uint32_t pid;
};

/* ---- probes ---- */

static bool named_by_string(const struct m_probe *p)
{
	return p->name_arg >= 0 && p->name_arg < MODEL_MAX_ARGS &&
	       p->arg_types[p->name_arg] == ARG_TYPE_STRING;
}

static enum probe_kind probe_kind(const struct rec_tables *t, const struct m_probe *p)
{
	static const char allocator[] = "torch_"; /* torch_alloc, torch_free */
	const char *role = strtab_get(&t->strings, p->role, NULL);
	if (!(layer_traits_of_name(strtab_get(&t->strings, p->layer, NULL)) &
	      LAYER_HAS_OPERATORS) ||
	    !strncmp(role, allocator, strlen(allocator)))
		return PROBE_OTHER;
	if (p->kind == SITE_INSTANT)
		return named_by_string(p) ? PROBE_RANGE : PROBE_OTHER;
	if (p->kind != SITE_SPAN)
		return PROBE_OTHER;
	if (named_by_string(p))
		return PROBE_NODE;
	const char *name = strtab_get(&t->strings, p->name, NULL);
	return !strcmp(name, "backward") ? PROBE_BACKWARD : PROBE_OPERATOR;
}

/* ---- symbols ---- */

static uint32_t symbol_add(struct share *h, uint64_t key, char *name, uint32_t class)
{
	uint32_t number = (uint32_t)h->in.symbols.len;
	*vec_push(&h->in.symbols) = (struct steps_symbol){name, class};
	*vec_push(&h->keys) = key;
	map64_set(&h->in.symbol_of, key, number);
	return number;
}

/* The symbol of a function; from the 16-million-and-first on they are all one. */
static uint32_t symbol_of(const struct loader *l, struct share *h, const struct m_call *c,
			  uint32_t (*classify)(const char *))
{
	uint32_t fn = fn_id(&l->ids, c);
	uint64_t number;
	if (map64_get(&h->in.symbol_of, fn, &number))
		return (uint32_t)number;
	if (h->in.symbols.len >= STEPS_MAX_SYMBOLS)
		return STEPS_MAX_SYMBOLS - 1;
	struct fn_label label;
	fn_label_make(&l->ids, fn, &label);
	return symbol_add(h, fn, label.name, classify(label.name));
}

/* Symbols of the device's calls that have no function's name: keys above all functions'. */
static uint32_t symbol_of_role(struct share *h, uint64_t key, const char *name, uint32_t class)
{
	uint64_t number;
	key |= 1ULL << 63;
	if (map64_get(&h->in.symbol_of, key, &number))
		return (uint32_t)number;
	if (h->in.symbols.len >= STEPS_MAX_SYMBOLS)
		return STEPS_MAX_SYMBOLS - 1;
	return symbol_add(h, key, xstrdup(name), class);
}

static uint32_t symbol_of_copy(struct share *h, const struct gpu_probe *p)
{
	static const char *const names[] = {
		[GPU_HTOD] = "copy host to device",   [GPU_DTOH] = "copy device to host",
		[GPU_DTOD] = "copy device to device", [GPU_HTOH] = "copy host to host",
		[GPU_PTOP] = "copy device to device", [GPU_UNIFIED] = "copy",
	};
	uint32_t class = CLASS_COPY | CLASS_NEUTRAL | CLASS_SETUP;
	if (p->direction == GPU_DTOH)
		class |= CLASS_READ | CLASS_TO_HOST;
	return symbol_of_role(h, 0x100u + p->direction, names[p->direction], class);
}

/* ---- calls ---- */

static void op_add(steps_ops_t *ops, const struct m_call *c, uint32_t symbol)
{
	uint64_t dur = c->flags & CALL_INSTANT ? 0 : c->dur_ns;
	struct steps_op *o = vec_push(ops);
	o->start_ns = c->start_ns;
	o->dur_ns = dur > STEPS_MAX_DUR_NS ? STEPS_MAX_DUR_NS : dur;
	o->symbol = symbol;
}

static void take_torch(const struct loader *l, struct share *h, struct steps_thread *thread,
		       const struct m_call *c)
{
	uint32_t symbol;
	if (c->flags & CALL_NESTED && l->kinds[c->probe] != PROBE_RANGE)
		return;
	switch ((enum probe_kind)l->kinds[c->probe]) {
	case PROBE_NODE:
		thread->nodes++;
		return;
	case PROBE_BACKWARD:
		thread->backwards++;
		symbol = SYMBOL_BACKWARD;
		break;
	case PROBE_RANGE:
		symbol = symbol_of(l, h, c, steps_class_of_range);
		if (!h->in.symbols.data[symbol].class)
			return; /* the job's own ranges: they may be anywhere */
		break;
	default:
		symbol = symbol_of(l, h, c, steps_class_of_operator);
		thread->operators++;
	}
	op_add(&thread->torch, c, symbol);
}

static void take_device(const struct loader *l, struct share *h, struct steps_thread *thread,
			const struct m_call *c)
{
	const struct gpu_probe *p = &l->roles.rows[c->probe];
	uint32_t symbol;
	switch ((enum gpu_role)p->role) {
	case GPU_LAUNCH:
		symbol = symbol_of(l, h, c, steps_class_of_kernel);
		thread->launches++;
		break;
	case GPU_GRAPH_LAUNCH:
		symbol = symbol_of_role(h,
					hash_u64(gpu_arg(p, c, GPU_ARG_GRAPH_EXEC)) >> 1 | 1 << 16,
					"graph launch", CLASS_LAUNCH | CLASS_GRAPH);
		thread->launches++;
		break;
	case GPU_COPY:
		symbol = symbol_of_copy(h, p);
		break;
	case GPU_SET:
		symbol = symbol_of_role(h, 1, "set", CLASS_NEUTRAL | CLASS_SETUP);
		break;
	case GPU_SYNC:
		symbol = symbol_of_role(h, 2, "wait for the device",
					CLASS_READ | CLASS_WAIT | CLASS_NEUTRAL | CLASS_SETUP);
		break;
	case GPU_COLLECTIVE:
		symbol = symbol_of_role(
			h, 0x10000u + c->probe,
			strtab_get(&l->t->strings, l->t->probes.data[c->probe].name, NULL),
			CLASS_COLLECTIVE);
		if (!c->depth) /* no operator made it */
			op_add(&thread->torch, c, symbol);
		break;
	default:
		return;
	}
	op_add(&thread->device, c, symbol);
}

static void take_call(const struct loader *l, struct share *h, const struct m_call *c)
{
	struct steps_thread *thread = &h->in.threads[c->thread];
	if (l->pid && thread->pid != l->pid)
		return;
	thread->counted[l->counted[c->probe]]++;
	if (l->kinds[c->probe] != PROBE_OTHER)
		take_torch(l, h, thread, c);
	else if (l->roles.rows[c->probe].role != GPU_NO_ROLE)
		take_device(l, h, thread, c);
}

/* ---- a block ---- */

static void begin_share(const struct loader *l, struct share *h)
{
	h->in.threads = xcalloc(l->t->threads.len + 1, sizeof(*h->in.threads));
	for (size_t i = 0; i < l->t->threads.len; i++) {
		h->in.threads[i].pid = l->t->threads.data[i].pid;
		h->in.threads[i].tid = l->t->threads.data[i].tid;
	}
	*vec_push(&h->in.symbols) = (struct steps_symbol){xstrdup("backward"), CLASS_BACKWARD};
	*vec_push(&h->keys) = 0;
}

static size_t load_segment(const struct loader *l, struct share *h, size_t block,
			   const struct m_call *calls, size_t len)
{
	uint32_t thread = calls->thread;
	struct steps_thread *t = &h->in.threads[thread];
	size_t n = 0;
	for (; n < len && calls[n].thread == thread; n++)
		take_call(l, h, &calls[n]);
	vec_fit(&t->torch);
	vec_fit(&t->device);
	struct segment *s = vec_push(&h->segments);
	*s = (struct segment){.block = block, .thread = thread};
	memcpy(&s->torch, &t->torch, sizeof(s->torch));
	memcpy(&s->device, &t->device, sizeof(s->device));
	memset(&t->torch, 0, sizeof(t->torch));
	memset(&t->device, 0, sizeof(t->device));
	return n;
}

static void load_waits(const struct loader *l, struct share *h, const struct visited_rows *rows)
{
	const struct m_wait *waits = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		if (!l->pid || h->in.threads[waits[i].thread].pid == l->pid)
			*vec_push(&h->waits) = waits[i];
}

static void load_rows(const struct row_visitor *v, void *state, const struct visited_rows *rows)
{
	const struct loader *l = (const struct loader *)v;
	const struct m_call *calls = rows->rows;
	struct share *h = state;
	if (!h->in.threads)
		begin_share(l, h);
	if (rows->kind == ROW_WAIT) {
		load_waits(l, h, rows);
		return;
	}
	for (size_t i = 0; i < rows->len;)
		i += load_segment(l, h, rows->block, calls + i, rows->len - i);
}

/* ---- all ---- */

static int compare_starts(const void *a, const void *b, void *arg)
{
	const struct steps_op *x = a, *y = b;
	(void)arg;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->dur_ns > y->dur_ns ? -1 : x->dur_ns < y->dur_ns;
}

/* A segment and whose it is; by block they are in the order of the file. */
struct placed_segment {
	struct segment *segment;
	struct share *share;
};

static int compare_segments(const void *a, const void *b)
{
	const struct segment *x = ((const struct placed_segment *)a)->segment;
	const struct segment *y = ((const struct placed_segment *)b)->segment;
	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* The symbol of all for one of a share. known: by symbol of the share, + 1; 0 = not yet. */
static uint32_t joined_symbol(struct steps_input *in, struct share *h, uint32_t symbol,
			      uint32_t *known)
{
	uint64_t number;
	if (symbol == SYMBOL_BACKWARD)
		return SYMBOL_BACKWARD;
	if (known[symbol])
		return known[symbol] - 1;
	if (!map64_get(&in->symbol_of, h->keys.data[symbol], &number)) {
		number = in->symbols.len;
		if (number >= STEPS_MAX_SYMBOLS)
			return STEPS_MAX_SYMBOLS - 1;
		map64_set(&in->symbol_of, h->keys.data[symbol], number);
		*vec_push(&in->symbols) = h->in.symbols.data[symbol];
		h->in.symbols.data[symbol].name = NULL;
	}
	known[symbol] = (uint32_t)number + 1;
	return (uint32_t)number;
}

static void join_ops(struct steps_input *in, struct share *h, uint32_t *known, steps_ops_t *to,
		     steps_ops_t *from)
{
	for (size_t i = 0; i < from->len; i++) {
		struct steps_op op = from->data[i];
		op.symbol = joined_symbol(in, h, op.symbol, known);
		to->data[to->len++] = op;
	}
	vec_free(from);
}

static int compare_waits(const void *a, const void *b)
{
	const struct m_wait *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static void join_waits(struct steps_input *in, const struct share *shares, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < shares[i].waits.len; k++)
			*vec_push(&in->waits) = shares[i].waits.data[k];
	if (in->waits.len)
		qsort(in->waits.data, in->waits.len, sizeof(*in->waits.data), compare_waits);
}

static void join_counts(struct steps_input *in, const struct share *h, size_t threads)
{
	for (size_t i = 0; h->in.threads && i < threads; i++) {
		in->threads[i].operators += h->in.threads[i].operators;
		in->threads[i].launches += h->in.threads[i].launches;
		in->threads[i].backwards += h->in.threads[i].backwards;
		in->threads[i].nodes += h->in.threads[i].nodes;
		for (int k = 0; k < COUNTED_LAYERS; k++)
			in->threads[i].counted[k] += h->in.threads[i].counted[k];
	}
}

static void share_free(struct share *h)
{
	for (size_t i = 0; i < h->in.symbols.len; i++)
		free(h->in.symbols.data[i].name);
	free(h->in.threads);
	vec_free(&h->in.symbols);
	map64_free(&h->in.symbol_of);
	vec_free(&h->keys);
	vec_free(&h->segments);
	vec_free(&h->waits);
}

static void make_room(struct steps_ops *to, size_t more)
{
	to->data = more ? xrealloc(NULL, more, sizeof(*to->data)) : NULL;
	to->cap = more;
}

/* What the threads of the visit read, in the order of the file. */
static void join_shares(struct loader *l, struct share *shares, size_t n)
{
	VEC(struct placed_segment) all = {0};
	uint32_t **known = xcalloc(n + 1, sizeof(*known));
	join_waits(l->in, shares, n);
	for (size_t i = 0; i < n; i++) {
		struct share *h = &shares[i];
		known[i] = xcalloc(h->in.symbols.len + 1, sizeof(**known));
		for (size_t k = 0; k < h->segments.len; k++) {
			struct segment *s = &h->segments.data[k];
			*vec_push(&all) = (struct placed_segment){s, h};
			l->in->threads[s->thread].torch.cap += s->torch.len;
			l->in->threads[s->thread].device.cap += s->device.len;
		}
		join_counts(l->in, h, l->t->threads.len);
	}
	for (size_t i = 0; i < l->t->threads.len; i++) {
		make_room(&l->in->threads[i].torch, l->in->threads[i].torch.cap);
		make_room(&l->in->threads[i].device, l->in->threads[i].device.cap);
	}
	if (all.len)
		qsort(all.data, all.len, sizeof(*all.data), compare_segments);
	for (size_t i = 0; i < all.len; i++) {
		struct segment *s = all.data[i].segment;
		struct share *h = all.data[i].share;
		struct steps_thread *to = &l->in->threads[s->thread];
		join_ops(l->in, h, known[h - shares], &to->torch, &s->torch);
		join_ops(l->in, h, known[h - shares], &to->device, &s->device);
	}
	for (size_t i = 0; i < n; i++) {
		free(known[i]);
		share_free(&shares[i]);
	}
	free(known);
	vec_free(&all);
}

/* Of which processes and layers the kernel counted more calls than were recorded. */
static void find_counted(struct loader *l, enum counted_layer layer, uint64_t flag)
{
	struct map64 missing = {0}; /* pid -> calls */
	for (size_t i = 0; i < l->t->hists.len; i++) {
		const struct m_hist *h = &l->t->hists.data[i];
		uint64_t calls = 0;
		if ((l->pid && h->pid != l->pid) || l->counted[h->probe] != layer)
			continue;
		map64_get(&missing, h->pid, &calls);
		map64_set(&missing, h->pid, calls + h->count);
	}
	for (size_t i = 0; missing.len && i < l->t->threads.len; i++) {
		const struct steps_thread *t = &l->in->threads[i];
		uint64_t calls;
		if (map64_get(&missing, t->pid, &calls))
			map64_set(&missing, t->pid,
				  calls > t->counted[layer] ? calls - t->counted[layer] : 0);
	}
	for (size_t i = 0; i < l->t->hists.len; i++) {
		uint64_t pid = l->t->hists.data[i].pid, calls, flags = 0;
		map64_get(&l->in->counted, pid, &flags);
		if (map64_get(&missing, pid, &calls) && calls)
			map64_set(&l->in->counted, pid, flags | flag);
	}
	map64_free(&missing);
}

/* Probes whose calls the kernel counted in some process. */
static void find_counted_probes(struct loader *l)
{
	l->counted = xcalloc(l->t->probes.len + 1, 1);
	for (size_t i = 0; i < l->t->hists.len; i++) {
		uint32_t probe = l->t->hists.data[i].probe;
		enum gpu_role role = l->roles.rows[probe].role;
		if (l->kinds[probe] != PROBE_OTHER)
			l->counted[probe] = COUNTED_TORCH;
		else if (role == GPU_LAUNCH || role == GPU_GRAPH_LAUNCH)
			l->counted[probe] = COUNTED_DEVICE;
	}
}

static void end_loading(struct row_visitor *v, void *states, size_t n)
{
	struct loader *l = (struct loader *)v;
	join_shares(l, states, n);
	for (size_t i = 0; i < l->t->threads.len; i++) {
		struct steps_thread *t = &l->in->threads[i];
		sort_near(t->torch.data, t->torch.len, sizeof(*t->torch.data), compare_starts,
			  NULL);
		sort_near(t->device.data, t->device.len, sizeof(*t->device.data), compare_starts,
			  NULL);
	}
	find_counted(l, COUNTED_TORCH, STEPS_COUNTED_TORCH);
	find_counted(l, COUNTED_DEVICE, STEPS_COUNTED_DEVICE);
	l->done(l->ctx);
	gpu_probes_free(&l->roles);
	fn_ids_free(&l->ids);
	free(l->counted);
	free(l->kinds);
	free(l);
}

struct row_visitor *steps_loader(struct steps_input *ret, const struct row_source *s, uint32_t pid,
				 void (*done)(void *ctx), void *ctx)
{
	const struct rec_tables *t = s->tables;
	struct loader *l = xcalloc(1, sizeof(*l));
	*ret = (struct steps_input){.tables = t};
	*l = (struct loader){.visitor = {.kinds = 1u << ROW_CALL | 1u << ROW_WAIT,
					 .state_bytes = sizeof(struct share),
					 .rows = load_rows,
					 .end = end_loading},
			     .in = ret,
			     .done = done,
			     .ctx = ctx,
			     .t = t,
			     .pid = pid};
	ret->threads = xcalloc(t->threads.len + 1, sizeof(*ret->threads));
	for (size_t i = 0; i < t->threads.len; i++) {
		ret->threads[i].pid = t->threads.data[i].pid;
		ret->threads[i].tid = t->threads.data[i].tid;
	}
	l->kinds = xcalloc(t->probes.len + 1, 1);
	for (size_t i = 0; i < t->probes.len; i++)
		l->kinds[i] = (uint8_t)probe_kind(t, &t->probes.data[i]);
	fn_ids_make(&l->ids, t);
	gpu_probes_make(&l->roles, t);
	find_counted_probes(l);
	*vec_push(&ret->symbols) = (struct steps_symbol){xstrdup("backward"), CLASS_BACKWARD};
	return &l->visitor;
}

void steps_input_free(struct steps_input *in)
{
	for (size_t i = 0; i < in->symbols.len; i++)
		free(in->symbols.data[i].name);
	for (size_t i = 0; i < in->tables->threads.len; i++) {
		vec_free(&in->threads[i].torch);
		vec_free(&in->threads[i].device);
	}
	free(in->threads);
	vec_free(&in->symbols);
	map64_free(&in->symbol_of);
	map64_free(&in->counted);
	vec_free(&in->waits);
}
