/* shim_ops.c - operators and nodes of backward passes that PyTorch told, and launches that CUPTI
 * told, as rows like those of their probes.
 *
 * They come some 20 ms after the calls that probes see on the same thread. Readers want the
 * calls of a thread in the order of their ends, so those of threads that run operators wait
 * until all operators that ended before them have come, and those around them that end within
 * AROUND_NS; at most for PATIENCE_NS.
 *
 * depth: of operators the number of operators around them, of calls of probes that of probed
 * calls around them, or more where calls that go on together show it. Around a call that takes
 * longer than they wait it is too small: readers tell by times what lies in what
 * (analyze/pass.c, export/nest.c). */
#include <stdatomic.h>

#include "base/clock.h"
#include "pipeline/pipeline_impl.h"
#include "wire/call_ring.h"

#define PATIENCE_NS 2000000000ULL
#define AROUND_NS   100000000ULL
#define EVERY_NS    50000000ULL
#define MOST_HELD   (1u << 19)
#define MOST_MARKS  (1u << 16)
#define MOST_TEXTS  (1u << 20)
#define TEXT_FLAGS  56
#define FROM_SHIM   0 /* a call's kind: REC_CALL is that of probes */

struct op_name {
	uint32_t probe;	 /* of the recording */
	uint32_t string; /* of nodes: their name */
	bool node;
};

struct held {
	struct m_call row;
	uint32_t pid;
	uint64_t came_ns;
};

#define LAUNCH_FUNCTIONS 6
enum { LAUNCH_ARGS = 6 };

struct launch_probe {
	bool known;
	uint32_t id; /* that of records */
	uint8_t nargs;
	int8_t arg[LAUNCH_ARGS]; /* places, -1 */
};

struct shim_ops {
	struct launch_probe launches[LAUNCH_FUNCTIONS];
	struct map64 probe_of; /* string of an operator's name -> its probe */
	bool knows_nodes;
	uint32_t node_probe;
	int8_t node_name, node_sequence; /* places of arguments, -1 */
	uint8_t node_nargs;
	VEC(struct op_name) names; /* by number - 1 */
	struct map64 pid_of;	   /* thread index, of processes that tell operators -> pid */
	struct map64 upto_ns;	   /* pid -> all that ended before has come */
	uint64_t held_ns;	   /* when something was last let go */
	VEC(struct held) held;	   /* the first `sorted` of them are */
	size_t sorted;
	VEC(struct held) merged; /* room */
	uint64_t now_ns;	 /* of this pass */
	VEC(uint32_t) layers;	 /* strings, by the recording's number of probes */
	bool all;		 /* every process may tell calls */
	VEC(struct m_call) out;
	VEC(struct rec_call_stack) told; /* inside, since the last pass; stack is the mark */
	struct map64 marks;		 /* of a thread -> rec_stack.id */
	struct map64 texts;		 /* of a process -> id, and flags above TEXT_FLAGS */
	_Atomic uint64_t from_ns;
};

struct shim_ops *shim_ops_new(void)
{
	struct shim_ops *s = xcalloc(1, sizeof(*s));
	s->from_ns = UINT64_MAX;
	return s;
}

void shim_ops_free(struct shim_ops *s)
{
	map64_free(&s->probe_of);
	map64_free(&s->pid_of);
	map64_free(&s->upto_ns);
	vec_free(&s->names);
	vec_free(&s->held);
	vec_free(&s->merged);
	vec_free(&s->layers);
	vec_free(&s->out);
	vec_free(&s->told);
	map64_free(&s->marks);
	map64_free(&s->texts);
	free(s);
}

/* ---- launches ---- */

static const struct {
	uint16_t function; /* CUpti_driver_api_trace_cbid */
	const char *symbol;
} launch_functions[LAUNCH_FUNCTIONS] = {
	{307, "cuLaunchKernel"},
	{442, "cuLaunchKernel_ptsz"},
	{477, "cuLaunchCooperativeKernel"},
	{478, "cuLaunchCooperativeKernel_ptsz"},
	{652, "cuLaunchKernelEx"},
	{653, "cuLaunchKernelEx_ptsz"},
};

static const char *const launch_args[LAUNCH_ARGS] = {"kernel",	     "grid",   "block",
						     "shared_bytes", "stream", "return"};

/* The first library's probe stands for those of all. */
static bool know_launch(struct pipeline *p, uint32_t id, const struct m_probe *probe,
			const char *symbol)
{
	for (size_t i = 0; i < LAUNCH_FUNCTIONS; i++) {
		struct launch_probe *l = &p->shim_ops->launches[i];
		if (strcmp(launch_functions[i].symbol, symbol))
			continue;
		if (l->known)
			return true;
		*l = (struct launch_probe){.known = true, .id = id, .nargs = probe->nargs};
		for (int a = 0; a < LAUNCH_ARGS; a++) {
			l->arg[a] = -1;
			for (int8_t k = 0; k < probe->nargs; k++)
				if (probe->arg_names[k] == rec_string_z(p->writer, launch_args[a]))
					l->arg[a] = k;
		}
		return true;
	}
	return false;
}

_Static_assert(FROM_SHIM != REC_CALL, "told apart");

/* It goes the way of the probe's records: kernels have their names, captures their launches. */
void pipeline_launch(struct pipeline *p, const struct pipeline_launch *launch)
{
	struct shim_ops *s = p->shim_ops;
	const struct pipeline_gpu_call *c = &launch->call;
	const uint64_t values[LAUNCH_ARGS] = {launch->kernel,	    launch->grid,   launch->block,
					      launch->shared_bytes, launch->stream, launch->result};
	const struct launch_probe *l = NULL;
	pipeline_gpu_call(p, c);
	for (size_t i = 0; i < LAUNCH_FUNCTIONS && !l; i++)
		if (launch_functions[i].function == c->function && s->launches[i].known)
			l = &s->launches[i];
	if (!l || c->end_ns < atomic_load(&s->from_ns))
		return;
	struct rec_call row = {
		.kind = FROM_SHIM,
		.flags = launch->result ? CALL_ERROR : 0,
		.depth = launch->depth,
		.nargs = l->nargs,
		.probe = l->id,
		.tgid = c->pid,
		.tid = c->tid,
		.start_ns = c->start_ns,
		.dur_ns = c->end_ns - c->start_ns,
	};
	for (int i = 0; i < LAUNCH_ARGS; i++)
		if (l->arg[i] >= 0)
			row.args[l->arg[i]] = values[i];
	map64_set(&s->pid_of, pipeline_thread_of(p, c->pid, c->tid), c->pid);
	vec_push(&p->pass)->call = row;
}

/* ---- calls that are told inside ---- */

static uint64_t mark_key(uint32_t tid, uint32_t mark)
{
	return (uint64_t)tid << 32 | mark;
}

void shim_ops_mark(struct pipeline *p, const struct rec_mark *mark)
{
	struct shim_ops *s = p->shim_ops;
	if (s->marks.len >= MOST_MARKS) /* of threads that died before they told the calls */
		map64_free(&s->marks);
	map64_set(&s->marks, mark_key(mark->tid, mark->mark), mark->stack);
}

/* Keys are hashes: those of two processes may be the same. */
static uint64_t text_key(uint32_t pid, uint64_t key)
{
	return key ^ (pid * 0x9e3779b97f4a7c15ULL);
}

void shim_ops_text(struct pipeline *p, const struct rec_told_text *text)
{
	struct shim_ops *s = p->shim_ops;
	if (s->texts.len < MOST_TEXTS) /* a process may make up any number of them */
		map64_set(&s->texts, text_key(text->tgid, text->key),
			  (text->id & ((1ULL << TEXT_FLAGS) - 1)) | (uint64_t)text->flags
									    << TEXT_FLAGS);
}

/* Whether what a process tells is a key of a text. */
static bool is_text(const struct known_probe *probe, int i, uint64_t value)
{
	return value && !(value & CALL_CODE_BIT) &&
	       (probe->arg_raw[i] == RAW_STRING || probe->arg_raw[i] == RAW_CODE);
}

/* Of a call that was told inside: keys become the kernel's numbers. */
static void take_texts(const struct pipeline *p, struct rec_call *call)
{
	if (call->probe >= p->probes.len)
		return;
	const struct known_probe *probe = &p->probes.data[call->probe];
	for (int i = 0; i < call->nargs && i < probe->nargs; i++) {
		uint64_t found = 0;
		if (!is_text(probe, i, call->args[i]))
			continue;
		if (!map64_get(&p->shim_ops->texts, text_key(call->tgid, call->args[i]), &found))
			found = (uint64_t)CALL_ARG_FAULT << TEXT_FLAGS;
		call->args[i] = found & ((1ULL << TEXT_FLAGS) - 1);
		call->flags |= (uint8_t)(found >> TEXT_FLAGS);
	}
}

bool pipeline_told_name(struct pipeline *p, struct hist_key *key, bool last)
{
	uint64_t found = 0;
	if (key->probe >= p->probes.len || !p->probes.data[key->probe].nargs ||
	    !is_text(&p->probes.data[key->probe], 0, key->name))
		return true;
	if (!map64_get(&p->shim_ops->texts, text_key(key->tgid, key->name), &found) && !last) {
		p->unnamed_histograms++;
		return false;
	}
	key->name = found & ((1ULL << TEXT_FLAGS) - 1);
	return true;
}

void pipeline_await_told(struct pipeline *p)
{
	p->shim_ops->all = true;
}

void pipeline_told_call(struct pipeline *p, const struct rec_call *call, uint32_t mark)
{
	struct rec_call_stack *row = vec_push(&p->shim_ops->told);
	row->call = *call;
	row->call.kind = FROM_SHIM;
	row->stack = mark;
}

void shim_ops_take_told(struct pipeline *p)
{
	struct shim_ops *s = p->shim_ops;
	s->now_ns = monotonic_ns();
	if (s->told.len)
		pipeline_take_messages(p); /* probes are known before they tell anything */
	for (size_t i = 0; i < s->told.len; i++) {
		struct rec_call_stack *row = &s->told.data[i];
		struct rec_call *c = &row->call;
		take_texts(p, c);
		uint64_t stack = 0, key = mark_key(c->tid, (uint32_t)row->stack);
		if (row->stack && map64_get(&s->marks, key, &stack))
			map64_del(&s->marks, key);
		p->stackless += row->stack && !stack;
		row->stack = stack;
		if (!i || c->tid != s->told.data[i - 1].call.tid)
			map64_set(&s->pid_of, pipeline_thread_of(p, c->tgid, c->tid), c->tgid);
		*vec_push(&p->pass) = *row;
	}
	s->told.len = 0;
}

bool shim_ops_tells(const struct pipeline *p, const struct rec_call *call)
{
	return call->kind != FROM_SHIM &&
	       call->start_ns + call->dur_ns >= atomic_load(&p->shim_ops->from_ns);
}

/* ---- names ---- */

/* Of several operators of a name the first one's probe stands for all. */
void shim_ops_know(struct pipeline *p, uint32_t id, uint32_t number, const struct m_probe *probe,
		   const char *symbol)
{
	struct shim_ops *s = p->shim_ops;
	uint64_t first;
	if (know_launch(p, id, probe, symbol))
		return;
	if (probe->name_arg < 0) {
		if (!map64_get(&s->probe_of, probe->name, &first))
			map64_set(&s->probe_of, probe->name, number);
		return;
	}
	s->knows_nodes = true;
	s->node_probe = number;
	s->node_name = probe->name_arg;
	s->node_sequence = -1;
	s->node_nargs = probe->nargs;
	for (int8_t i = 0; i < probe->nargs; i++)
		if (probe->arg_names[i] == rec_string_z(p->writer, "sequence"))
			s->node_sequence = i;
}

/* As the class is called without its namespace, which is how the probe names it. */
static const char *class_of(const char *text, size_t *len)
{
	for (size_t i = *len; i >= 2; i--)
		if (text[i - 1] == ':' && text[i - 2] == ':') {
			*len -= i;
			return text + i;
		}
	return text;
}

uint32_t pipeline_op_name(struct pipeline *p, bool node, const char *text, size_t len)
{
	struct shim_ops *s = p->shim_ops;
	struct op_name name = {.node = node, .probe = s->node_probe};
	uint64_t probe = 0;
	pipeline_take_messages(p); /* probes were told before they were attached */
	if (node)
		text = class_of(text, &len);
	name.string = pipeline_gpu_name(p, text, len);
	if (node ? !s->knows_nodes : !map64_get(&s->probe_of, name.string, &probe))
		return 0;
	if (!node)
		name.probe = (uint32_t)probe;
	*vec_push(&s->names) = name;
	return (uint32_t)s->names.len;
}

/* ---- rows ---- */

static void hold(struct shim_ops *s, const struct m_call *row, uint32_t pid)
{
	*vec_push(&s->held) = (struct held){*row, pid, s->now_ns};
}

static void set_arg(struct m_call *row, int8_t at, uint64_t value)
{
	if (at >= 0)
		row->args[at] = value;
}

void pipeline_op(struct pipeline *p, const struct pipeline_op *op)
{
	struct shim_ops *s = p->shim_ops;
	if (op->end_ns < atomic_load(&s->from_ns) || !op->name || op->name > s->names.len)
		return;
	const struct op_name *name = &s->names.data[op->name - 1];
	struct m_call row = {
		.start_ns = op->start_ns,
		.dur_ns = op->end_ns - op->start_ns,
		.thread = pipeline_thread_of(p, op->pid, op->tid),
		.probe = name->probe,
		.depth = op->depth,
		.nargs = name->node ? s->node_nargs : 0,
	};
	if (name->node) {
		set_arg(&row, s->node_name, name->string);
		set_arg(&row, s->node_sequence, (uint64_t)op->sequence);
	}
	map64_set(&s->pid_of, row.thread, op->pid);
	p->calls++;
	hold(s, &row, op->pid);
}

void pipeline_ops_from(struct pipeline *p, uint64_t ns)
{
	atomic_store(&p->shim_ops->from_ns, ns);
}

void pipeline_ops_upto(struct pipeline *p, uint32_t pid, uint64_t ns)
{
	map64_set(&p->shim_ops->upto_ns, pid, ns);
}

void shim_ops_thread(struct pipeline *p, uint32_t pid, uint32_t thread)
{
	struct shim_ops *s = p->shim_ops;
	uint64_t known;
	if ((s->all || (s->upto_ns.len && map64_get(&s->upto_ns, pid, &known))) &&
	    !map64_get(&s->pid_of, thread, &known))
		map64_set(&s->pid_of, thread, pid);
}

void shim_ops_put_calls(struct pipeline *p, const struct m_call *rows, size_t n)
{
	struct shim_ops *s = p->shim_ops;
	uint64_t pid;
	if (!s->pid_of.len) {
		emit_calls(p, rows, n);
		return;
	}
	s->out.len = 0;
	for (size_t i = 0; i < n; i++) {
		if (map64_get(&s->pid_of, rows[i].thread, &pid))
			hold(s, &rows[i], (uint32_t)pid);
		else
			*vec_push(&s->out) = rows[i];
	}
	emit_calls(p, s->out.data, s->out.len);
}

/* By thread, in order of end; what lies in a call before it. */
static int compare_ends(const void *a, const void *b)
{
	const struct m_call *x = &((const struct held *)a)->row,
			    *y = &((const struct held *)b)->row;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	uint64_t x_ns = x->start_ns + x->dur_ns, y_ns = y->start_ns + y->dur_ns;
	if (x_ns != y_ns)
		return x_ns < y_ns ? -1 : 1;
	return x->start_ns > y->start_ns ? -1 : x->start_ns < y->start_ns;
}

void shim_ops_layer(struct pipeline *p, uint32_t number, uint32_t layer)
{
	struct shim_ops *s = p->shim_ops;
	while (s->layers.len <= number)
		vec_push(&s->layers);
	s->layers.data[number] = layer;
}

struct around {
	uint64_t start_ns;
	uint32_t layer;
};

static bool has_layer(const struct around *stack, size_t depth, uint32_t layer)
{
	while (depth-- > 0)
		if (stack[depth].layer == layer)
			return true;
	return false;
}

/* Each source knows of its own calls alone how deep they are, and whether one of their layer is
 * around them. From the last end to the first: the stack has the calls around, each with a start
 * before those on top of it. */
static void deepen(const struct shim_ops *s, struct held *held, size_t n)
{
	struct around stack[UINT8_MAX];
	size_t depth = 0;
	for (size_t i = n; i-- > 0;) {
		struct m_call *c = &held[i].row;
		uint32_t layer = c->probe < s->layers.len ? s->layers.data[c->probe] : 0;
		if (i + 1 < n && held[i + 1].row.thread != c->thread)
			depth = 0;
		while (depth && stack[depth - 1].start_ns > c->start_ns)
			depth--;
		if (c->depth < depth)
			c->depth = (uint8_t)depth;
		if (has_layer(stack, depth, layer))
			c->flags |= CALL_NESTED;
		if (depth < UINT8_MAX && c->dur_ns)
			stack[depth++] = (struct around){c->start_ns, layer};
	}
}

/* Up to when a process has told all; rows of one come together. */
struct told_upto {
	uint32_t pid;
	bool known;
	uint64_t ns;
};

/* Also all that it lies in, if that does not take long. */
static bool has_come(const struct shim_ops *s, const struct held *h, struct told_upto *upto)
{
	if (!upto->pid || h->pid != upto->pid) {
		upto->pid = h->pid;
		upto->known = map64_get(&s->upto_ns, h->pid, &upto->ns);
	}
	if (!upto->known)
		return s->held_ns - h->came_ns > (s->all ? AROUND_NS : PATIENCE_NS);
	return s->held_ns - h->came_ns > PATIENCE_NS ||
	       h->row.start_ns + h->row.dur_ns + AROUND_NS < upto->ns;
}

/* What came since the last time is sorted, and put among what stayed. */
static void sort_held(struct shim_ops *s)
{
	size_t n = s->held.len, a = 0, b = s->sorted;
	qsort(s->held.data + b, n - b, sizeof(*s->held.data), compare_ends);
	vec_reserve(&s->merged, n);
	s->merged.len = n;
	for (size_t i = 0; i < n; i++) {
		bool first = b == n || (a < s->sorted &&
					compare_ends(&s->held.data[a], &s->held.data[b]) <= 0);
		s->merged.data[i] = s->held.data[first ? a++ : b++];
	}
	struct held *data = s->held.data;
	size_t cap = s->held.cap;
	s->held.data = s->merged.data;
	s->held.cap = s->merged.cap;
	s->merged.data = data;
	s->merged.cap = cap;
	s->merged.len = 0;
}

void shim_ops_pass(struct pipeline *p, bool all)
{
	struct shim_ops *s = p->shim_ops;
	uint64_t now_ns = monotonic_ns();
	size_t left = 0;
	struct told_upto upto = {0};
	all |= s->held.len > MOST_HELD;
	if (!s->held.len || !(all || now_ns - s->held_ns > EVERY_NS))
		return;
	s->held_ns = now_ns;
	s->out.len = 0;
	sort_held(s);
	deepen(s, s->held.data, s->held.len);
	for (size_t i = 0; i < s->held.len; i++) {
		if (all || has_come(s, &s->held.data[i], &upto))
			*vec_push(&s->out) = s->held.data[i].row;
		else
			s->held.data[left++] = s->held.data[i];
	}
	s->held.len = s->sorted = left;
	emit_calls(p, s->out.data, s->out.len);
}

/* ---- who tells nothing ---- */

static bool has_torch(const struct known_process *k)
{
	const proc_maps_t *maps = pipeline_maps_of(k);
	for (size_t i = 0; i < maps->len; i++)
		if (strstr(maps->data[i].path, "/libtorch_cpu"))
			return true;
	return false;
}

static bool is_silent(const struct shim_ops *s, const struct known_process *k, uint64_t from_ns)
{
	uint64_t upto_ns;
	return has_torch(k) && (!k->row.end_ns || k->row.end_ns > from_ns) &&
	       !map64_get(&s->upto_ns, k->row.pid, &upto_ns);
}

void shim_ops_tell_silent(struct pipeline *p)
{
	struct shim_ops *s = p->shim_ops;
	uint64_t from_ns = atomic_load(&s->from_ns);
	size_t silent = 0;
	for (size_t i = 0; i < p->process_list.len && from_ns != UINT64_MAX; i++)
		silent += is_silent(s, &p->process_list.data[i], from_ns);
	if (!silent)
		return;
	char *text = xasprintf("%zu process%s with PyTorch told none: forked, or without CUDA",
			       silent, silent > 1 ? "es" : "");
	pipeline_note(p, "operators", text);
	free(text);
}
