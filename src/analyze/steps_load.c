/* steps_load.c - a recording's calls as each thread's text of outermost operations.
 *
 * Says of an operation no more than its name, its time and what the name tells. */
#include <linux/types.h>

#include "analyze/functions.h"
#include "analyze/gpu_roles.h"
#include "analyze/steps_impl.h"
#include "wire/event.h"

enum probe_kind { PROBE_OTHER, PROBE_OPERATOR, PROBE_NODE, PROBE_BACKWARD, PROBE_RANGE };

struct loader {
	struct steps_input *in;
	const struct rec_tables *t;
	struct fn_ids ids;
	struct gpu_probes roles;
	uint8_t *kinds; /* enum probe_kind, by probe */
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
	if (strcmp(strtab_get(&t->strings, p->layer, NULL), "torch") != 0 ||
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

static uint32_t symbol_add(struct loader *l, uint64_t key, char *name, uint16_t class)
{
	uint32_t number = (uint32_t)l->in->symbols.len;
	*vec_push(&l->in->symbols) = (struct steps_symbol){name, class};
	map64_set(&l->in->symbol_of, key, number);
	return number;
}

/* The symbol of a function; from the 16-million-and-first on they are all one. */
static uint32_t symbol_of(struct loader *l, const struct m_call *c,
			  uint16_t (*classify)(const char *))
{
	uint32_t fn = fn_id(&l->ids, c);
	uint64_t number;
	if (map64_get(&l->in->symbol_of, fn, &number))
		return (uint32_t)number;
	if (l->in->symbols.len >= STEPS_MAX_SYMBOLS)
		return STEPS_MAX_SYMBOLS - 1;
	struct fn_label label;
	fn_label_make(&l->ids, fn, &label);
	return symbol_add(l, fn, label.name, classify(label.name));
}

/* Symbols of the device's calls that have no function's name: keys above all functions'. */
static uint32_t symbol_of_role(struct loader *l, uint64_t key, const char *name, uint16_t class)
{
	uint64_t number;
	key |= 1ULL << 63;
	if (map64_get(&l->in->symbol_of, key, &number))
		return (uint32_t)number;
	if (l->in->symbols.len >= STEPS_MAX_SYMBOLS)
		return STEPS_MAX_SYMBOLS - 1;
	return symbol_add(l, key, xstrdup(name), class);
}

static uint32_t symbol_of_copy(struct loader *l, const struct gpu_probe *p)
{
	static const char *const names[] = {
		[GPU_HTOD] = "copy host to device",   [GPU_DTOH] = "copy device to host",
		[GPU_DTOD] = "copy device to device", [GPU_HTOH] = "copy host to host",
		[GPU_PTOP] = "copy device to device", [GPU_UNIFIED] = "copy",
	};
	uint16_t class = CLASS_COPY | CLASS_NEUTRAL | CLASS_SETUP;
	if (p->direction == GPU_DTOH)
		class |= CLASS_READ | CLASS_TO_HOST;
	return symbol_of_role(l, 0x100u + p->direction, names[p->direction], class);
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

static void take_torch(struct loader *l, struct steps_thread *thread, const struct m_call *c)
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
		symbol = symbol_of(l, c, steps_class_of_range);
		if (!l->in->symbols.data[symbol].class)
			return; /* the job's own ranges: they may be anywhere */
		break;
	default:
		symbol = symbol_of(l, c, steps_class_of_operator);
		thread->operators++;
	}
	op_add(&thread->torch, c, symbol);
}

static void take_device(struct loader *l, struct steps_thread *thread, const struct m_call *c)
{
	const struct gpu_probe *p = &l->roles.rows[c->probe];
	uint32_t symbol;
	switch ((enum gpu_role)p->role) {
	case GPU_LAUNCH:
		symbol = symbol_of(l, c, steps_class_of_kernel);
		thread->launches++;
		break;
	case GPU_GRAPH_LAUNCH:
		symbol = symbol_of_role(l,
					hash_u64(gpu_arg(p, c, GPU_ARG_GRAPH_EXEC)) >> 1 | 1 << 16,
					"graph launch", CLASS_LAUNCH | CLASS_GRAPH);
		thread->launches++;
		break;
	case GPU_COPY:
		symbol = symbol_of_copy(l, p);
		break;
	case GPU_SET:
		symbol = symbol_of_role(l, 1, "set", CLASS_NEUTRAL | CLASS_SETUP);
		break;
	case GPU_SYNC:
		symbol = symbol_of_role(l, 2, "wait for the device",
					CLASS_READ | CLASS_WAIT | CLASS_NEUTRAL | CLASS_SETUP);
		break;
	case GPU_COLLECTIVE:
		symbol = symbol_of_role(
			l, 0x10000u + c->probe,
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

static void take_call(struct loader *l, const struct m_call *c)
{
	struct steps_thread *thread = &l->in->threads[c->thread];
	if (l->pid && thread->pid != l->pid)
		return;
	if (l->kinds[c->probe] != PROBE_OTHER)
		take_torch(l, thread, c);
	else if (l->roles.rows[c->probe].role != GPU_NO_ROLE)
		take_device(l, thread, c);
}

/* ---- all ---- */

static int compare_starts(const void *a, const void *b)
{
	const struct steps_op *x = a, *y = b;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->dur_ns > y->dur_ns ? -1 : x->dur_ns < y->dur_ns;
}

static void put_in_order(steps_ops_t *ops)
{
	for (size_t i = 1; i < ops->len; i++)
		if (ops->data[i].start_ns < ops->data[i - 1].start_ns) {
			qsort(ops->data, ops->len, sizeof(*ops->data), compare_starts);
			return;
		}
}

static void read_blocks(struct loader *l, const struct rec_reader *r)
{
	struct m_calls calls = {0};
	for (size_t b = 0; b < rec_call_blocks(r); b++) {
		if (rec_read_calls(r, b, &calls, NULL) < 0)
			continue; /* told by the summary */
		for (size_t i = 0; i < calls.len; i++)
			take_call(l, &calls.rows[i]);
	}
	m_calls_free(&calls);
}

void steps_load(struct steps_input *ret, const struct rec_reader *r, uint32_t pid)
{
	const struct rec_tables *t = rec_tables(r);
	*ret = (struct steps_input){.tables = t};
	struct loader l = {.in = ret, .t = t, .pid = pid};
	ret->threads = xcalloc(t->threads.len + 1, sizeof(*ret->threads));
	for (size_t i = 0; i < t->threads.len; i++) {
		ret->threads[i].pid = t->threads.data[i].pid;
		ret->threads[i].tid = t->threads.data[i].tid;
	}
	l.kinds = xcalloc(t->probes.len + 1, 1);
	for (size_t i = 0; i < t->probes.len; i++)
		l.kinds[i] = (uint8_t)probe_kind(t, &t->probes.data[i]);
	fn_ids_make(&l.ids, t);
	gpu_probes_make(&l.roles, t);
	*vec_push(&ret->symbols) = (struct steps_symbol){xstrdup("backward"), CLASS_BACKWARD};
	read_blocks(&l, r);
	for (size_t i = 0; i < t->threads.len; i++) {
		put_in_order(&ret->threads[i].torch);
		put_in_order(&ret->threads[i].device);
	}
	gpu_probes_free(&l.roles);
	fn_ids_free(&l.ids);
	free(l.kinds);
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
}
