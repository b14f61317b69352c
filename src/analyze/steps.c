/* steps.c - of each process: which thread is read for its steps (steps_loops.c finds them), and
 * which process tells most. */
#include "analyze/steps.h"

#include <linux/types.h>

#include "analyze/process_index.h"
#include "analyze/steps_impl.h"
#include "base/sort.h"

#define LEAST_OPS    5
#define LEAST_BURSTS 3
#define SELDOM	     1000 /* operations of the main thread for a burst */
#define GENERATIONS  16	  /* between a process and who started it */

#define JOIN_NS 5000000000ULL /* probes are there by then, and a step begins */

/* ---- texts ---- */

/* Nothing was cut off behind the last operation: the process ended, or has been quiet for longer
 * than ever between its operations. */
static bool text_ended(const struct steps_finder *f, const steps_ops_t *ops)
{
	uint64_t quiet = 0, end = 0;
	for (size_t i = 0; i < ops->len; i++) {
		if (i && ops->data[i].start_ns > end && ops->data[i].start_ns - end > quiet)
			quiet = ops->data[i].start_ns - end;
		if (steps_op_end(&ops->data[i]) > end)
			end = steps_op_end(&ops->data[i]);
	}
	return f->exited || (f->last_ns > end && f->last_ns - end > 2 * quiet);
}

/* The recording came into the midst of what the thread does: it did something soon after. */
static bool text_joined(const struct steps_finder *f, const steps_ops_t *ops)
{
	return f->joined_ns && ops->len && ops->data[0].start_ns < f->joined_ns + JOIN_NS;
}

static struct steps_text text_of(const struct steps_finder *f, const steps_ops_t *ops)
{
	return (struct steps_text){.ops = ops->data,
				   .len = ops->len,
				   .symbols = f->in.symbols.data,
				   .symbols_len = f->in.symbols.len,
				   .joined = text_joined(f, ops),
				   .ended = text_ended(f, ops)};
}

/* Of a whole text, of a thread's operations. waits: room for its waits, or none. */
static struct steps_text text_with_waits(const struct steps_finder *f,
					 const struct steps_thread *thread, const steps_ops_t *ops,
					 steps_waits_t *waits)
{
	struct steps_text t = text_of(f, ops);
	if (!f->in.waits.len)
		return t;
	steps_waits_make(waits, &f->in, (uint32_t)(thread - f->in.threads), &f->index, &t);
	t.waits = waits;
	t.fed = steps_waits_feed(waits);
	return t;
}

/* ---- threads ---- */

static bool better_thread(const struct steps_thread *a, const struct steps_thread *b)
{
	bool engine_a = a->nodes && !a->backwards, engine_b = b->nodes && !b->backwards;
	if (a->backwards != b->backwards)
		return a->backwards > b->backwards;
	if (engine_a != engine_b)
		return engine_b;
	return a->operators > b->operators;
}

static const struct steps_thread *thread_of_operators(const struct steps_finder *f)
{
	const struct steps_thread *best = NULL;
	for (size_t i = 0; i < f->own_len; i++) {
		const struct steps_thread *t = &f->in.threads[f->own[i]];
		if ((t->operators >= LEAST_OPS || t->backwards >= LEAST_OPS) &&
		    (!best || better_thread(t, best)))
			best = t;
	}
	return best;
}

/* The process's first thread, if it launches a tenth of all; else the one that launches most.
 * *ret_other: of the others the one that launches most, or NULL. *ret_pool: no one of the others
 * does as much as all the rest of them. */
static const struct steps_thread *thread_of_launches(const struct steps_finder *f, uint32_t pid,
						     const struct steps_thread **ret_other,
						     bool *ret_pool)
{
	const struct steps_thread *most = NULL, *first = NULL, *other = NULL;
	uint64_t all = 0;
	for (size_t i = 0; i < f->own_len; i++) {
		const struct steps_thread *t = &f->in.threads[f->own[i]];
		if (!t->launches)
			continue;
		all += t->launches;
		first = t->tid == pid ? t : first;
		most = !most || t->launches > most->launches ? t : most;
	}
	const struct steps_thread *ret = first && first->launches * 10ULL >= all ? first : most;
	for (size_t i = 0; i < f->own_len; i++) {
		const struct steps_thread *t = &f->in.threads[f->own[i]];
		if (t != ret && t->launches && (!other || t->launches > other->launches))
			other = t;
	}
	*ret_other = other;
	*ret_pool = ret && other && other->launches * 2ULL < all - ret->launches;
	return ret;
}

/* ---- launches of two threads ---- */

/* Autograd's own thread launches while the one that asked for the backward pass waits: its
 * launches between two of the other's become one operation, the backward pass. A pool that works
 * now and then is XLA's, which tries kernels while a program is compiled. */
static void merge_backward(const struct steps_thread *main, const struct steps_thread *other,
			   bool pool, steps_ops_t *ret)
{
	size_t k = 0, bursts = 0;
	for (size_t i = 0; i < main->device.len; i++) {
		const struct steps_op *next = &main->device.data[i];
		uint64_t begin = 0, end = 0;
		for (; k < other->device.len && other->device.data[k].start_ns < next->start_ns;
		     k++) {
			const struct steps_op *o = &other->device.data[k];
			begin = begin ? begin : o->start_ns;
			end = steps_op_end(o);
		}
		if (begin) {
			bursts++;
			*vec_push(ret) = (struct steps_op){begin, (end - begin) & STEPS_MAX_DUR_NS,
							   SYMBOL_BACKWARD};
		}
		*vec_push(ret) = *next;
	}
	/* Threads that work at the same time are no such pair. */
	bool seldom = pool && bursts * SELDOM < main->device.len;
	if (bursts < LEAST_BURSTS || bursts * 4 > other->device.len || seldom) {
		ret->len = 0;
		for (size_t i = 0; i < main->device.len; i++)
			*vec_push(ret) = main->device.data[i];
	}
}

static void list_launches(struct steps_finder *f)
{
	size_t n = 0;
	for (size_t i = 0; i < f->own_len; i++)
		n += f->in.threads[f->own[i]].launches;
	f->launches = xcalloc(n + 1, sizeof(*f->launches));
	f->launches_len = 0;
	for (size_t i = 0; i < f->own_len; i++) {
		const struct steps_thread *t = &f->in.threads[f->own[i]];
		for (size_t k = 0; k < t->device.len; k++)
			if (f->in.symbols.data[t->device.data[k].symbol].class & CLASS_LAUNCH)
				f->launches[f->launches_len++] = t->device.data[k].start_ns;
	}
	qsort(f->launches, f->launches_len, sizeof(*f->launches), sort_compare_u64);
}

/* ---- processes ---- */

static void find_bounds(struct steps_finder *f, uint32_t pid)
{
	const struct m_process *row = process_index_row(&f->index, pid);
	f->exited = row && row->end_ns;
	f->joined_ns = row && row->joined ? row->start_ns : 0;
	if (f->exited)
		f->last_ns = row->end_ns;
	else if (row)
		f->last_ns = f->ends[row->source < f->t->sources.len ? row->source : 0];
	else
		f->last_ns = rec_end_ns(f->t);
}

/* Whether calls of one that started it, or who started that, were counted: of a worker that lived
 * while each call was still recorded steps would be found, and be told as the job's. */
static bool is_of_counted(const struct steps_finder *f, uint32_t pid)
{
	uint64_t flags = 0;
	for (int up = 0; up < GENERATIONS && pid; up++) {
		const struct m_process *row = process_index_row(&f->index, pid);
		pid = row ? row->parent_pid : 0;
		if (pid && map64_get(&f->in.counted, pid, &flags) && flags)
			return true;
	}
	return false;
}

static void take_process(struct steps_finder *f, uint32_t pid)
{
	bool pool, found = false;
	const struct steps_thread *other, *operators = thread_of_operators(f),
					  *launches = thread_of_launches(f, pid, &other, &pool);
	uint64_t counted = 0;
	map64_get(&f->in.counted, pid, &counted);
	operators = counted & STEPS_COUNTED_TORCH ? NULL : operators;
	launches = counted & STEPS_COUNTED_DEVICE ? NULL : launches;
	if ((!operators && !launches) || is_of_counted(f, pid))
		return;
	f->process = vec_push(&f->ret->processes);
	f->process->pid = pid;
	find_bounds(f, pid);
	list_launches(f);
	if (operators) {
		steps_waits_t waits = {0};
		struct steps_text text = text_with_waits(f, operators, &operators->torch, &waits);
		f->process->tid = operators->tid;
		f->process->ops = text.len;
		found = steps_find_loops(f, &text);
		vec_free(&waits);
	}
	if (!found && launches) {
		steps_ops_t merged = {0};
		steps_waits_t waits = {0};
		merge_backward(launches, other ? other : &(struct steps_thread){0}, pool, &merged);
		steps_graphs_join(&f->in, &merged);
		struct steps_text text = text_with_waits(f, launches, &merged, &waits);
		f->process->tid = launches->tid;
		f->process->ops = text.len;
		f->process->from_launches = true;
		steps_find_loops(f, &text);
		vec_free(&waits);
		vec_free(&merged);
	}
	free(f->launches);
}

/* ---- which process tells most ---- */

static uint32_t parent_of(const struct steps_finder *f, uint32_t pid)
{
	const struct m_process *row = process_index_row(&f->index, pid);
	return row ? row->parent_pid : 0;
}

/* A loader has neither a model nor an update: all that it does is to load. */
static void become_loading(struct steps_process *p, struct steps_loop *l)
{
	l->kind = STEPS_LOADING;
	for (uint32_t i = 0; i < l->steps; i++) {
		struct steps_step *s = &p->steps.data[l->first + i];
		for (int k = STEPS_LOAD + 1; k < STEPS_OTHER; k++) {
			s->phase_ns[STEPS_LOAD] += s->phase_ns[k];
			s->phase_ns[k] = 0;
		}
	}
	steps_phases_sum(l, p->steps.data + l->first);
	for (size_t i = 0; i < l->slow.len; i++) {
		struct steps_slow *slow = &l->slow.data[i];
		steps_slow_phase(l, &p->steps.data[slow->step], slow);
	}
}

/* Children without launches and updates, of a process that has steps, make its batches. */
static void find_loaders(struct steps_finder *f)
{
	struct map64 place_of = {0};
	for (size_t i = 0; i < f->ret->processes.len; i++)
		map64_set(&place_of, f->ret->processes.data[i].pid, i);
	for (size_t i = 0; i < f->ret->processes.len; i++) {
		struct steps_process *p = &f->ret->processes.data[i];
		uint64_t at;
		if (!map64_get(&place_of, parent_of(f, p->pid), &at) || at == i ||
		    !f->ret->processes.data[at].loops.len)
			continue;
		for (size_t k = 0; k < p->loops.len; k++)
			if (p->loops.data[k].kind == STEPS_INFERENCE &&
			    p->loops.data[k].launches_mean == 0)
				become_loading(p, &p->loops.data[k]);
	}
	map64_free(&place_of);
}

const struct steps_loop *steps_main_loop(const struct steps_process *p)
{
	const struct steps_loop *best = NULL;
	for (size_t i = 0; i < p->loops.len; i++) {
		const struct steps_loop *l = &p->loops.data[i];
		if (!best || l->kind < best->kind ||
		    (l->kind == best->kind && l->total_ns > best->total_ns))
			best = l;
	}
	return best;
}

static void find_main(struct steps *s)
{
	const struct steps_loop *best = NULL;
	s->main = SIZE_MAX;
	for (size_t i = 0; i < s->processes.len; i++) {
		const struct steps_loop *l = steps_main_loop(&s->processes.data[i]);
		if (!l || (best && (l->kind > best->kind ||
				    (l->kind == best->kind && l->total_ns <= best->total_ns))))
			continue;
		best = l;
		s->main = i;
	}
}

static int compare_pids(const void *a, const void *b, void *arg)
{
	const struct steps_thread *threads = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	if (threads[x].pid != threads[y].pid)
		return threads[x].pid < threads[y].pid ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Each process with its threads; processes in the order of their first threads. */
static void take_processes(struct steps_finder *f)
{
	size_t n = f->t->threads.len;
	struct map64 from = {0}; /* pid -> its place in by_pid, until it was taken */
	f->by_pid = xcalloc(n + 1, sizeof(*f->by_pid));
	for (uint32_t i = 0; i < n; i++)
		f->by_pid[i] = i;
	qsort_r(f->by_pid, n, sizeof(*f->by_pid), compare_pids, f->in.threads);
	for (size_t i = n; i-- > 0;)
		map64_set(&from, f->in.threads[f->by_pid[i]].pid, i);
	for (size_t i = 0; i < n; i++) {
		uint32_t pid = f->in.threads[i].pid;
		uint64_t at;
		if (!map64_get(&from, pid, &at))
			continue;
		map64_del(&from, pid);
		f->own = f->by_pid + at;
		f->own_len = 0;
		while (at + f->own_len < n && f->in.threads[f->own[f->own_len]].pid == pid)
			f->own_len++;
		take_process(f, pid);
	}
	map64_free(&from);
	free(f->by_pid);
}

static void find_steps(void *ctx)
{
	struct steps_finder *f = ctx;
	process_index_make(&f->index, f->t);
	f->ends = rec_source_ends(f->t);
	take_processes(f);
	find_loaders(f);
	find_main(f->ret);
	f->ret->counted = f->in.counted.len;
	steps_input_free(&f->in);
	process_index_free(&f->index);
	free(f->ends);
	free(f);
}

struct row_visitor *steps_visitor(struct steps *ret, const struct row_source *s,
				  const struct steps_options *options)
{
	struct steps_finder *f = xcalloc(1, sizeof(*f));
	*ret = (struct steps){0};
	f->ret = ret;
	f->t = s->tables;
	return steps_loader(&f->in, s, options ? options->pid : 0, find_steps, f);
}

void steps_make(struct steps *ret, const struct row_source *s, const struct steps_options *options)
{
	struct row_visitor *v = steps_visitor(ret, s, options);
	rows_visit(s, &v, 1, NULL);
}

void steps_free(struct steps *s)
{
	for (size_t i = 0; i < s->processes.len; i++) {
		struct steps_process *p = &s->processes.data[i];
		for (size_t k = 0; k < p->loops.len; k++)
			vec_free(&p->loops.data[k].slow);
		vec_free(&p->loops);
		vec_free(&p->steps);
	}
	for (size_t i = 0; i < s->names.len; i++)
		free(s->names.data[i]);
	vec_free(&s->processes);
	vec_free(&s->names);
}
