/* steps_loops.c - the loops of a thread's operations, and their steps.
 *
 * How anchors are found is in steps_anchor.c and steps_period.c, how steps are cut in
 * steps_cut.c; here is what is tried in which order, and what becomes of what lies between. */
#include "analyze/steps_impl.h"

#define LEAST_STEPS 3

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

/* ---- steps of a loop ---- */

static uint64_t launches_before(const struct steps_finder *f, uint64_t time_ns)
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
static struct steps_step *step_add(struct steps_finder *f, const struct steps_text *t,
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
static bool was_untraced(const struct steps_finder *f, const struct steps_step *s)
{
	uint64_t off_ns = UINT64_MAX;
	for (size_t i = 0; i < f->t->windows.len; i++) {
		const struct m_window *w = &f->t->windows.data[i];
		if (off_ns < s->end_ns && w->start_ns > s->start_ns && w->start_ns > off_ns)
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
static uint32_t add_steps(struct steps_finder *f, const struct steps_text *t, enum steps_kind kind,
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
static void loop_add(struct steps_finder *f, const struct steps_text *t, enum steps_kind kind,
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
static bool find_repetitions(struct steps_finder *f, const struct steps_text *t,
			     enum steps_kind kind, unsigned depth)
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
static bool find_evaluations(struct steps_finder *f, const struct steps_text *t,
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

static bool find_training(struct steps_finder *f, const struct steps_text *t)
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

bool steps_find_loops(struct steps_finder *f, const struct steps_text *t)
{
	if (!t->ops)
		return false;
	return find_training(f, t) || find_repetitions(f, t, STEPS_INFERENCE, 0);
}
