/* session_names.c - the recording's dictionaries as the detecting thread sees them. */
#include "session/session_names.h"

#define COMMS_MOST 4096 /* the oldest go */

static const char *string(void *ctx, uint32_t number)
{
	const struct session_names *n = ctx;
	return number < n->strings.len ? n->strings.data[number] : "";
}

static const struct m_probe *probe(void *ctx, uint32_t number)
{
	const struct session_names *n = ctx;
	return number < n->probes.len ? &n->probes.data[number] : NULL;
}

static const struct m_thread *thread(void *ctx, uint32_t index)
{
	const struct session_names *n = ctx;
	uint64_t at;
	return map64_get(&n->thread_at, index, &at) ? &n->threads.data[at] : NULL;
}

static const struct m_code *code(void *ctx, uint32_t number)
{
	const struct session_names *n = ctx;
	return number < n->codes.len ? &n->codes.data[number] : NULL;
}

static const struct m_metric *metric(void *ctx, uint32_t number)
{
	const struct session_names *n = ctx;
	uint64_t at;
	return map64_get(&n->metric_at, number, &at) ? &n->metrics.data[at].row : NULL;
}

static const struct m_comm *comm(void *ctx, uint32_t pid, uint64_t handle, uint64_t time_ns)
{
	const struct session_names *n = ctx;
	for (size_t i = n->comms.len; i-- > 0;) {
		const struct m_comm *c = &n->comms.data[i];
		if (c->pid == pid && c->handle == handle && c->start_ns <= time_ns &&
		    (!c->end_ns || time_ns <= c->end_ns))
			return c;
	}
	return NULL;
}

static size_t frames_of(const struct session_names *n)
{
	return 2 * (size_t)n->bounds->frames;
}

static size_t stacks_of(const struct session_names *n)
{
	return 2 * (size_t)n->bounds->nodes;
}

static const struct m_frame *frame(void *ctx, uint32_t number)
{
	const struct session_names *n = ctx;
	const struct session_frame *f = n->frames ? &n->frames[number % frames_of(n)] : NULL;
	return f && f->number == number + 1 ? &f->row : NULL;
}

static const struct session_stack *stack_at(const struct session_names *n, uint32_t number)
{
	const struct session_stack *s = n->stacks ? &n->stacks[number % stacks_of(n)] : NULL;
	return s && number && s->number == number ? s : NULL;
}

static const struct m_stack *stack(void *ctx, uint32_t number)
{
	const struct session_stack *s = stack_at(ctx, number);
	return s ? &s->row : NULL;
}

static bool line(void *ctx, uint32_t stack, struct detect_line *ret)
{
	const struct session_stack *s = stack_at(ctx, stack);
	const struct m_frame *f = s && s->line ? frame(ctx, s->line - 1) : NULL;
	if (!f)
		return false;
	*ret = (struct detect_line){.frame = s->line - 1,
				    .line = f->line,
				    .function = string(ctx, f->name),
				    .file = string(ctx, f->file),
				    .called = s->called};
	return true;
}

void session_names_get(struct session_names *n, struct detect_names *ret)
{
	*ret = (struct detect_names){.ctx = n,
				     .string = string,
				     .probe = probe,
				     .thread = thread,
				     .code = code,
				     .comm = comm,
				     .metric = metric,
				     .line = line,
				     .stack = stack,
				     .frame = frame};
}

void session_names_init(struct session_names *n, const struct stack_bounds *bounds)
{
	*n = (struct session_names){.bounds = bounds};
}

static void take_thread(struct session_names *n, uint32_t index, const struct m_thread *row)
{
	uint64_t at;
	if (!map64_get(&n->thread_at, index, &at)) {
		at = n->free_threads.len ? n->free_threads.data[--n->free_threads.len]
					 : n->threads.len;
		if (at == n->threads.len)
			vec_push(&n->threads);
		map64_set(&n->thread_at, index, at);
	}
	n->threads.data[at] = *row;
}

static void forget_metric(struct session_names *n, uint32_t number)
{
	uint64_t at;
	if (!map64_get(&n->metric_at, number, &at))
		return;
	map64_del(&n->metric_at, number);
	n->metrics.data[at] = n->metrics.data[--n->metrics.len];
	if (at < n->metrics.len)
		map64_set(&n->metric_at, n->metrics.data[at].number, at);
}

static void take_metric(struct session_names *n, uint32_t number, const struct m_metric *row)
{
	forget_metric(n, number);
	map64_set(&n->metric_at, number, n->metrics.len);
	*vec_push(&n->metrics) = (struct session_metric){number, *row};
}

/* A row replaces that of the same communicator. */
static void take_comm(struct session_names *n, const struct m_comm *row)
{
	for (size_t i = n->comms.len; i-- > 0;) {
		struct m_comm *c = &n->comms.data[i];
		if (c->pid == row->pid && c->handle == row->handle &&
		    c->start_ns == row->start_ns) {
			*c = *row;
			return;
		}
	}
	if (n->comms.len >= COMMS_MOST) {
		n->comms.len = COMMS_MOST / 2;
		memmove(n->comms.data, n->comms.data + COMMS_MOST - n->comms.len,
			n->comms.len * sizeof(*n->comms.data));
	}
	*vec_push(&n->comms) = *row;
}

static void take_frame(struct session_names *n, uint32_t number, const struct m_frame *row)
{
	if (!n->frames)
		n->frames = xcalloc(frames_of(n), sizeof(*n->frames));
	struct session_frame *to = &n->frames[number % frames_of(n)];
	if (to->number <= number + 1) /* else a name that comes too late */
		*to = (struct session_frame){*row, number + 1};
}

/* A stack's caller came before it. */
static void take_stack(struct session_names *n, uint32_t number, const struct m_stack *row)
{
	const struct session_stack *caller = stack_at(n, row->parent);
	const struct m_frame *f = frame(n, row->frame);
	struct session_stack made = {.row = *row, .number = number};
	if (!n->stacks)
		n->stacks = xcalloc(stacks_of(n), sizeof(*n->stacks));
	if (f && f->kind == FRAME_PYTHON) {
		made.line = row->frame + 1;
	} else if (caller) {
		made.line = caller->line;
		made.called =
			caller->called || (f && detect_library_is_called(string(n, f->library)));
	}
	n->stacks[number % stacks_of(n)] = made;
}

void session_names_take(struct session_names *n, const struct feed_batch *b)
{
	for (size_t i = 0; i < b->strings.len; i++)
		*vec_push(&n->strings) =
			xstrdup((const char *)b->texts.data + b->strings.data[i].at);
	for (size_t i = 0; i < b->metrics.len; i++)
		take_metric(n, b->numbers[ROW_METRIC].data[i], &b->metrics.data[i]);
	for (size_t i = 0; i < b->probes.len; i++)
		*vec_push(&n->probes) = b->probes.data[i];
	for (size_t i = 0; i < b->codes.len; i++)
		*vec_push(&n->codes) = b->codes.data[i];
	for (size_t i = 0; i < b->threads.len; i++)
		take_thread(n, b->numbers[ROW_THREAD].data[i], &b->threads.data[i]);
	for (size_t i = 0; i < b->frames.len; i++)
		take_frame(n, b->numbers[ROW_FRAME].data[i], &b->frames.data[i]);
	for (size_t i = 0; i < b->stacks.len; i++)
		take_stack(n, b->numbers[ROW_STACK].data[i], &b->stacks.data[i]);
	for (size_t i = 0; i < b->comms.len; i++)
		take_comm(n, &b->comms.data[i]);
}

void session_names_forget(struct session_names *n, const struct feed_batch *b)
{
	for (size_t i = 0; i < b->threads_gone.len; i++) {
		uint64_t at;
		if (!map64_get(&n->thread_at, b->threads_gone.data[i], &at))
			continue;
		map64_del(&n->thread_at, b->threads_gone.data[i]);
		*vec_push(&n->free_threads) = (uint32_t)at;
	}
	for (size_t i = 0; i < b->metrics_gone.len; i++)
		forget_metric(n, b->metrics_gone.data[i]);
}

void session_names_free(struct session_names *n)
{
	for (size_t i = 0; i < n->strings.len; i++)
		free(n->strings.data[i]);
	vec_free(&n->strings);
	vec_free(&n->metrics);
	map64_free(&n->metric_at);
	vec_free(&n->probes);
	vec_free(&n->codes);
	vec_free(&n->threads);
	vec_free(&n->free_threads);
	vec_free(&n->comms);
	free(n->frames);
	free(n->stacks);
	map64_free(&n->thread_at);
}
