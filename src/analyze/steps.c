/* steps.c - of each process: which thread is read, which loops are in it, and their steps.
 *
 * How anchors are found is in steps_anchor.c and steps_period.c, how steps are cut in
 * steps_cut.c; here is what is tried in which order, and what becomes of what lies between. */
#include "analyze/steps.h"

#include <linux/types.h>

#include "analyze/process_index.h"
#include "analyze/steps_impl.h"

#define LEAST_OPS    5
#define LEAST_STEPS  3
#define LEAST_BURSTS 3

#define JOIN_NS 5000000000ULL /* probes are there by then, and a step begins */

struct finder {
	struct steps *ret;
	struct steps_input in;
	const struct rec_tables *t;
	struct process_index index;
	uint32_t *by_pid; /* threads, those of a process together, in their order */
	/* Of the process in hand. */
	const uint32_t *own; /* of by_pid */
	size_t own_len;
	struct steps_process *process;
	uint64_t *launches; /* starts, in order */
	size_t launches_len;
	uint64_t last_ns; /* of the recording, or when the process ended */
	bool exited;
	uint64_t joined_ns; /* since when it is traced, where it ran before; or 0 */
};

/* ---- texts ---- */

/* Nothing was cut off behind the last operation: the process ended, or has been quiet for longer
 * than ever between its operations. */
static bool text_ended(const struct finder *f, const steps_ops_t *ops)
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
static bool text_joined(const struct finder *f, const steps_ops_t *ops)
{
	return f->joined_ns && ops->len && ops->data[0].start_ns < f->joined_ns + JOIN_NS;
}

static struct steps_text text_of(const struct finder *f, const steps_ops_t *ops)
{
	return (struct steps_text){.ops = ops->data,
				   .len = ops->len,
				   .symbols = f->in.symbols.data,
				   .symbols_len = f->in.symbols.len,
				   .joined = text_joined(f, ops),
				   .ended = text_ended(f, ops)};
}

/* Of a whole text, of a thread's operations. waits: room for its waits, or none. */
static struct steps_text text_with_waits(const struct finder *f, const struct steps_thread *thread,
					 const steps_ops_t *ops, steps_waits_t *waits)
{
	struct steps_text t = text_of(f, ops);
	if (!f->in.waits.len)
		return t;
	steps_waits_make(waits, &f->in, (uint32_t)(thread - f->in.threads), &f->index, &t);
	t.waits = waits;
	t.fed = steps_waits_feed(waits);
	return t;
}

static struct steps_text text_part(const struct steps_text *t, size_t begin, size_t end)
{
	struct steps_text part = *t;
	part.ops += begin;
	part.len = end - begin;
	part.joined = begin == 0 && t->joined;
	part.began = begin > 0 || t->began;
	part.ended = end < t->len || t->ended;
	return part;
}

/* ---- loops ---- */

static uint64_t launches_before(const struct finder *f, uint64_t time_ns)
{
	size_t low = 0, high = f->launches_len;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (f->launches[mid] < time_ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static uint64_t text_end_ns(const struct steps_text *t, const struct steps_cut *cut)
{
	uint64_t end = 0;
	for (size_t i = cut->begin; i < cut->end; i++)
		if (steps_op_end(&t->ops[i]) > end)
			end = steps_op_end(&t->ops[i]);
	/* An operation that was cut, or overlaps: steps of a thread come one after another. */
	if (cut->end < t->len && end > t->ops[cut->end].start_ns)
		end = t->ops[cut->end].start_ns;
	return end;
}

/* A step from its operations; previous_ns is when what lies before it ended, 0 unknown. */
static struct steps_step *step_add(struct finder *f, const struct steps_text *t,
				   const struct steps_cut *cut, uint32_t loop, uint32_t index,
				   uint64_t previous_ns)
{
	struct steps_step *s = vec_push(&f->process->steps);
	s->start_ns = previous_ns ? previous_ns : t->ops[cut->begin].start_ns;
	s->end_ns = text_end_ns(t, cut);
	s->loop = loop;
	s->index = index;
	s->ops = (uint32_t)(cut->end - cut->begin);
	s->launches = launches_before(f, s->end_ns) - launches_before(f, s->start_ns);
	steps_phases(t, cut, f->process->loops.data[loop].kind, s);
	return s;
}

/* Probes were off between two windows that it reaches into: what was not seen would be told as a
 * slow step. */
static bool was_untraced(const struct finder *f, const struct steps_step *s)
{
	uint64_t off_ns = UINT64_MAX;
	for (size_t i = 0; i < f->t->windows.len; i++) {
		const struct m_window *w = &f->t->windows.data[i];
		if (off_ns < s->end_ns && w->start_ns > s->start_ns)
			return true;
		off_ns = w->end_ns;
	}
	return false;
}

/* When the steps' part before one ended, where that is known; else 0. */
static uint64_t end_before(const struct steps_text *t, enum steps_kind kind,
			   const struct steps_cut *cuts, size_t i)
{
	if (i && cuts[i].begin == cuts[i - 1].end)
		return text_end_ns(t, &cuts[i - 1]);
	if (!cuts[i].begin || (!i && kind != STEPS_EVALUATION))
		return 0;
	return text_end_ns(t, &(struct steps_cut){cuts[i].begin - 1, cuts[i].begin});
}

/* The steps of these cuts, but those that were not seen whole: what reaches into time without
 * probes, and what is left of a step that began there. *ret_kept: the cuts of the others. Returns
 * how often they were entered. */
static uint32_t add_steps(struct finder *f, const struct steps_text *t, enum steps_kind kind,
			  const struct steps_cuts *cuts, steps_cut_rows_t *ret_kept)
{
	uint32_t number = (uint32_t)f->process->loops.len - 1, stretches = 1;
	bool was_off = false;
	for (size_t i = 0; i < cuts->rows.len; i++) {
		const struct steps_cut *cut = &cuts->rows.data[i];
		struct steps_step *s = step_add(f, t, cut, number, (uint32_t)ret_kept->len,
						end_before(t, kind, cuts->rows.data, i));
		bool is_rest = was_off && s->ops * 10ULL < cuts->usual_len * 9ULL;
		was_off = was_untraced(f, s);
		if (was_off || is_rest) {
			f->process->steps.len--;
			f->process->untraced++;
			continue;
		}
		stretches += i && cut->begin != cut[-1].end;
		*vec_push(ret_kept) = *cut;
	}
	return stretches;
}

/* Adds a loop of these cuts. Where nothing lies between two, the second begins when the first
 * ended. */
static void loop_add(struct finder *f, const struct steps_text *t, enum steps_kind kind,
		     const struct steps_cuts *cuts, uint32_t anchor)
{
	steps_cut_rows_t kept = {0};
	uint32_t first = (uint32_t)f->process->steps.len;
	struct steps_loop *loop = vec_push(&f->process->loops);
	loop->kind = kind;
	loop->stretches = add_steps(f, t, kind, cuts, &kept);
	if (!kept.len) {
		f->process->loops.len--;
		return;
	}
	size_t usual = cuts->usual < kept.len ? cuts->usual : kept.len;
	loop->first = first;
	loop->steps = (uint32_t)kept.len;
	loop->confidence_ratio = (double)usual / (double)kept.len;
	char *name = xstrdup(t->symbols[anchor].name);
	*vec_push(&f->ret->names) = name;
	loop->anchor = name;
	steps_loop_sum(loop, f->process->steps.data + loop->first, t, kept.data, f->ret);
	vec_free(&kept);
}

/* ---- repetition ---- */

static bool only_of_class(const struct steps_text *t, const struct steps_cut *cut, uint32_t class)
{
	for (size_t i = cut->begin; i < cut->end; i++)
		if (!(steps_class(t, i) & class))
			return false;
	return true;
}

/* Tensors are made and filled, or, where something is trained, optimizers go through parameters. */
static bool is_no_step(const struct steps_text *t, const struct steps_cut *cut,
		       enum steps_kind kind)
{
	uint32_t class = CLASS_SETUP;
	if (kind == STEPS_EVALUATION)
		class |= CLASS_UPDATE | CLASS_NEUTRAL | CLASS_OPTIMIZER | CLASS_ZERO_GRAD;
	return only_of_class(t, cut, class);
}

#define MOST_NESTED 6

/* Loops without updates: one, if most of its steps are alike, then what is before and behind it. */
static bool find_repetitions(struct finder *f, const struct steps_text *t, enum steps_kind kind,
			     unsigned depth)
{
	steps_positions_t anchors = {0};
	struct steps_cuts cuts = {0};
	steps_anchors_of_repetition(t, &anchors);
	steps_cut(&cuts, t, anchors.data, anchors.len, false);
	bool found = anchors.len && cuts.rows.len >= LEAST_STEPS &&
		     cuts.usual * 10 >= cuts.rows.len * 6 &&
		     !is_no_step(t, &cuts.rows.data[cuts.rows.len / 2], kind);
	if (found) {
		loop_add(f, t, kind, &cuts, t->ops[anchors.data[0]].symbol);
		f->process->partial_first |= cuts.partial_first;
		f->process->partial_last |= cuts.partial_last;
		struct steps_text before = text_part(t, 0, cuts.rows.data[0].begin);
		struct steps_text after =
			text_part(t, cuts.rows.data[cuts.rows.len - 1].end, t->len);
		if (before.len > cuts.usual_len && depth < MOST_NESTED)
			find_repetitions(f, &before, kind, depth + 1);
		if (after.len > cuts.usual_len && depth < MOST_NESTED)
			find_repetitions(f, &after, kind, depth + 1);
	}
	steps_cuts_free(&cuts);
	vec_free(&anchors);
	return found;
}

/* ---- what lies between steps of training ---- */

/* What was inserted between steps, and what follows the last if it begins alike: false where the
 * latter is another thing. */
static bool find_evaluations(struct finder *f, const struct steps_text *t,
			     const struct steps_cuts *training)
{
	struct steps_cuts batches = {0};
	for (size_t i = 1; i < training->rows.len; i++) {
		size_t begin = training->rows.data[i - 1].end, end = training->rows.data[i].begin;
		struct steps_text part = text_part(t, begin, end);
		if (begin < end &&
		    !is_no_step(&part, &(struct steps_cut){0, part.len}, STEPS_EVALUATION))
			steps_batches(&batches.rows, t, begin, end);
	}
	size_t after = training->rows.data[training->rows.len - 1].end;
	bool last = batches.rows.len && after < t->len &&
		    !is_no_step(t, &(struct steps_cut){after, t->len}, STEPS_EVALUATION) &&
		    t->ops[after].symbol == t->ops[batches.rows.data[0].begin].symbol;
	if (last)
		steps_batches(&batches.rows, t, after, t->len);
	batches.usual = batches.rows.len;
	if (batches.rows.len)
		loop_add(f, t, STEPS_EVALUATION, &batches,
			 t->ops[batches.rows.data[0].begin].symbol);
	steps_cuts_free(&batches);
	return last;
}

/* ---- training ---- */

static bool find_training(struct finder *f, const struct steps_text *t)
{
	steps_positions_t anchors = {0};
	struct steps_cuts cuts = {0};
	steps_anchors_of_training(t, &anchors);
	steps_cut(&cuts, t, anchors.data, anchors.len, true);
	bool found = anchors.len && cuts.rows.len >= LEAST_STEPS - 1;
	if (found) {
		loop_add(f, t, STEPS_TRAINING, &cuts, t->ops[anchors.data[0]].symbol);
		f->process->partial_first = cuts.partial_first;
		f->process->partial_last = cuts.partial_last;
		bool last = find_evaluations(f, t, &cuts);
		struct steps_text before = text_part(t, 0, cuts.rows.data[0].begin);
		struct steps_text after =
			text_part(t, cuts.rows.data[cuts.rows.len - 1].end, t->len);
		if (!cuts.partial_first)
			find_repetitions(f, &before, STEPS_EVALUATION, 0);
		/* Less than a step may be the beginning of one that was cut. */
		if (!last && (t->ended || after.len > cuts.usual_len))
			find_repetitions(f, &after, STEPS_EVALUATION, 0);
	}
	steps_cuts_free(&cuts);
	vec_free(&anchors);
	return found;
}

static bool find_loops(struct finder *f, const struct steps_text *t)
{
	if (!t->ops)
		return false;
	return find_training(f, t) || find_repetitions(f, t, STEPS_INFERENCE, 0);
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

static const struct steps_thread *thread_of_operators(const struct finder *f)
{
	const struct steps_thread *best = NULL;
	for (size_t i = 0; i < f->own_len; i++) {
		const struct steps_thread *t = &f->in.threads[f->own[i]];
		if (t->operators >= LEAST_OPS && (!best || better_thread(t, best)))
			best = t;
	}
	return best;
}

/* The process's first thread, if it launches a tenth of all; else the one that launches most.
 * *ret_other: of the others the one that launches most, or NULL. */
static const struct steps_thread *thread_of_launches(const struct finder *f, uint32_t pid,
						     const struct steps_thread **ret_other)
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
	return ret;
}

/* ---- launches of two threads ---- */

/* Autograd's own thread launches while the one that asked for the backward pass waits: its
 * launches between two of the other's become one operation, the backward pass. */
static void merge_backward(const struct steps_thread *main, const struct steps_thread *other,
			   steps_ops_t *ret)
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
	if (bursts < LEAST_BURSTS || bursts * 4 > other->device.len) {
		ret->len = 0;
		for (size_t i = 0; i < main->device.len; i++)
			*vec_push(ret) = main->device.data[i];
	}
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void list_launches(struct finder *f)
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
	qsort(f->launches, f->launches_len, sizeof(*f->launches), compare_u64);
}

/* ---- processes ---- */

static void find_bounds(struct finder *f, uint32_t pid)
{
	const struct m_process *row = process_index_row(&f->index, pid);
	f->exited = row && row->end_ns;
	f->joined_ns = row && row->joined ? row->start_ns : 0;
	f->last_ns = f->exited ? row->end_ns : f->t->last_ns;
}

static void take_process(struct finder *f, uint32_t pid)
{
	const struct steps_thread *other, *operators = thread_of_operators(f),
					  *launches = thread_of_launches(f, pid, &other);
	bool found = false;
	uint64_t counted = 0;
	map64_get(&f->in.counted, pid, &counted);
	operators = counted & STEPS_COUNTED_TORCH ? NULL : operators;
	launches = counted & STEPS_COUNTED_DEVICE ? NULL : launches;
	if (!operators && !launches)
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
		found = find_loops(f, &text);
		vec_free(&waits);
	}
	if (!found && launches) {
		steps_ops_t merged = {0};
		steps_waits_t waits = {0};
		merge_backward(launches, other ? other : &(struct steps_thread){0}, &merged);
		struct steps_text text = text_with_waits(f, launches, &merged, &waits);
		f->process->tid = launches->tid;
		f->process->ops = text.len;
		f->process->from_launches = true;
		find_loops(f, &text);
		vec_free(&waits);
		vec_free(&merged);
	}
	free(f->launches);
}

/* ---- which process tells most ---- */

static uint32_t parent_of(const struct finder *f, uint32_t pid)
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
static void find_loaders(struct finder *f)
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
static void take_processes(struct finder *f)
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
	struct finder *f = ctx;
	process_index_make(&f->index, f->t);
	take_processes(f);
	find_loaders(f);
	find_main(f->ret);
	f->ret->counted = f->in.counted.len;
	steps_input_free(&f->in);
	process_index_free(&f->index);
	free(f);
}

struct row_visitor *steps_visitor(struct steps *ret, const struct row_source *s,
				  const struct steps_options *options)
{
	struct finder *f = xcalloc(1, sizeof(*f));
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
