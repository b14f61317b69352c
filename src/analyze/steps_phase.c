/* steps_phase.c - what the host did in a step, from the order of its operations.
 *
 * Goes through a step once: each operation has a phase, and so has the time before it. Does not
 * say where a step begins or ends. */
#include "analyze/steps_impl.h"

/* Copies to the host after the update that make a checkpoint: fewer are values for a log. */
#define CHECKPOINT_COPIES 16

/* Where in a step what is: indexes of operations, SIZE_MAX where there is no such. */
struct plan {
	size_t backward; /* the last one, or the mark of an optimizer */
	size_t updated;	 /* the update's last operation */
	bool saves;	 /* copies behind it are a checkpoint */
	bool named;	 /* some operation is known to be the model's */
	bool chooses;	 /* a token: what it is made of is there */
};

static size_t last_of_class(const struct steps_text *t, size_t begin, size_t end, uint32_t class)
{
	for (size_t i = end; i-- > begin;)
		if (steps_class(t, i) & class)
			return i;
	return SIZE_MAX;
}

static size_t first_of_class(const struct steps_text *t, size_t begin, size_t end, uint32_t class)
{
	for (size_t i = begin; i < end; i++)
		if (steps_class(t, i) & class)
			return i;
	return SIZE_MAX;
}

static size_t copies_to_host(const struct steps_text *t, size_t begin, size_t end)
{
	size_t n = 0;
	for (size_t i = begin; i < end; i++)
		n += (steps_class(t, i) & CLASS_TO_HOST) != 0;
	return n;
}

static struct plan plan_of(const struct steps_text *t, const struct steps_cut *cut,
			   enum steps_kind kind)
{
	const uint32_t updating = CLASS_UPDATE | CLASS_OPTIMIZER | CLASS_RESET;
	struct plan p = {.backward = SIZE_MAX, .updated = SIZE_MAX};
	p.named = first_of_class(t, cut->begin, cut->end, CLASS_MODEL) != SIZE_MAX;
	p.chooses = first_of_class(t, cut->begin, cut->end, CLASS_CHOICE) != SIZE_MAX;
	if (kind != STEPS_TRAINING)
		return p;
	p.backward = last_of_class(t, cut->begin, cut->end, CLASS_BACKWARD);
	if (p.backward == SIZE_MAX)
		p.backward = last_of_class(t, cut->begin, cut->end, CLASS_OPTIMIZER);
	if (p.backward != SIZE_MAX)
		p.updated = last_of_class(t, p.backward, cut->end, updating);
	p.saves = p.updated != SIZE_MAX &&
		  copies_to_host(t, p.updated + 1, cut->end) >= CHECKPOINT_COPIES;
	return p;
}

/* ---- one operation after the other ---- */

struct walk {
	const struct steps_text *t;
	const struct steps_cut *cut;
	enum steps_kind kind;
	struct plan plan;
	bool loads;    /* no operation of the model was met since the step or batch began */
	size_t update; /* operations before it are of an update in the midst of the step */
	enum steps_phase before; /* of the operation before */
};

/* Whether data is made or moved by it; where models' operations are known they end it. */
static bool is_of_data(const struct walk *w, uint32_t class)
{
	if (w->plan.named)
		return !(class & (CLASS_MODEL | CLASS_FORWARD));
	return class & (CLASS_COPY | CLASS_LOADER | CLASS_RESET);
}

/* Behind a backward pass that is not the last one comes an update, or another batch. */
static void pass_backward(struct walk *w, size_t i)
{
	size_t next = first_of_class(w->t, i + 1, w->cut->end, CLASS_BACKWARD), most;
	size_t model = first_of_class(w->t, i + 1, w->cut->end, CLASS_MODEL);
	if (i >= w->plan.backward || model == SIZE_MAX || model > next)
		return;
	w->update = i + steps_update_run(w->t, i, next, &most);
	w->loads = true;
}

/* Gradients are reset: in front of the forward pass or of the backward pass. */
static bool resets(const struct walk *w, size_t i, uint32_t class)
{
	const uint32_t beside = CLASS_RESET | CLASS_NEUTRAL | CLASS_SETUP;
	if (w->kind != STEPS_TRAINING || !(class & CLASS_RESET))
		return false;
	if (w->loads || class & CLASS_ZERO_GRAD || w->before == STEPS_OPTIMIZER)
		return true;
	while (i < w->cut->end && steps_class(w->t, i) & beside)
		i++;
	return i < w->cut->end && steps_class(w->t, i) & CLASS_BACKWARD;
}

static enum steps_phase phase_of(struct walk *w, size_t i, uint32_t class)
{
	if (w->kind == STEPS_LOADING)
		return STEPS_LOAD;
	if (class & CLASS_BACKWARD)
		return STEPS_BACKWARD;
	if (class & CLASS_COLLECTIVE)
		return STEPS_COMMUNICATION;
	if (w->plan.updated != SIZE_MAX && i > w->plan.updated)
		return w->plan.saves ? STEPS_CHECKPOINT : STEPS_OTHER;
	if ((w->plan.backward != SIZE_MAX && i >= w->plan.backward) || i < w->update)
		return STEPS_OPTIMIZER;
	w->loads = w->loads && is_of_data(w, class);
	if (resets(w, i, class))
		return STEPS_OPTIMIZER;
	if (!w->loads)
		return STEPS_FORWARD;
	/* A value of the step before, for a log. */
	bool logs = class & CLASS_READ && !(class & CLASS_COPY);
	return logs && (i == w->cut->begin || w->before == STEPS_OTHER) ? STEPS_OTHER : STEPS_LOAD;
}

/* The time before an operation counts for it, but for the wait in front of the model, and what
 * comes before the next batch is asked for. */
static enum steps_phase phase_before(const struct walk *w, size_t i, bool loaded,
				     enum steps_phase its)
{
	if (i == w->cut->begin && steps_class(w->t, i) & CLASS_LOADER)
		return STEPS_OTHER;
	if (!loaded || (its != STEPS_FORWARD && its != STEPS_OPTIMIZER))
		return its;
	return its == STEPS_OPTIMIZER && w->before == STEPS_OPTIMIZER ? its : STEPS_LOAD;
}

static uint64_t add_until(struct steps_step *step, enum steps_phase phase, uint64_t at,
			  uint64_t end)
{
	end = end < step->end_ns ? end : step->end_ns;
	if (end <= at)
		return at;
	step->phase_ns[phase] += end - at;
	return end;
}

/* ---- time without operations ---- */

/* Whether a wait is for what the thread works on next. Where others make it, those that they end;
 * where nobody is known to, all. */
static bool is_for_data(const struct walk *w, const struct steps_wait *wait)
{
	if (w->kind == STEPS_INFERENCE && wait->waker == WAKER_PARENT)
		return false;
	return !w->t->fed || wait->waker == WAKER_CHILD || wait->waker == WAKER_THREAD;
}

/* In front of the model: what the host does before it waits for the first batch is not for it,
 * where it does not make batches itself. */
static uint64_t add_before_wait(const struct walk *w, struct steps_step *step, uint64_t at,
				uint64_t end)
{
	for (size_t i = steps_waits_from(w->t->waits, at); i < w->t->waits->len; i++) {
		const struct steps_wait *wait = &w->t->waits->data[i];
		if (wait->start_ns >= end)
			break;
		if (is_for_data(w, wait))
			return add_until(step, STEPS_OTHER, at, wait->start_ns);
	}
	return add_until(step, STEPS_OTHER, at, end);
}

/* Behind that: waits that children end are for data wherever they are. */
static uint64_t add_with_waits(const struct walk *w, struct steps_step *step,
			       enum steps_phase phase, uint64_t at, uint64_t end)
{
	for (size_t i = steps_waits_from(w->t->waits, at); i < w->t->waits->len; i++) {
		const struct steps_wait *wait = &w->t->waits->data[i];
		if (wait->start_ns >= end)
			break;
		if (wait->waker != WAKER_CHILD)
			continue;
		at = add_until(step, phase, at, wait->start_ns);
		at = add_until(step, STEPS_LOAD, at, wait->end_ns < end ? wait->end_ns : end);
	}
	return add_until(step, phase, at, end);
}

/* The time before operation i, from `at` on. */
static uint64_t add_pause(const struct walk *w, struct steps_step *step, size_t i,
			  enum steps_phase phase, uint64_t at)
{
	uint64_t end = w->t->ops[i].start_ns;
	bool first = i == w->cut->begin;
	/* Nothing is made for the model. */
	bool idle = w->kind == STEPS_INFERENCE && w->plan.named && (!w->loads || w->plan.chooses);
	if (!w->t->waits || end <= at)
		return add_until(step, phase, at, end);
	if (phase == STEPS_LOAD && first && (w->t->fed || idle))
		at = add_before_wait(w, step, at, end);
	return add_with_waits(w, step, phase, at, end);
}

void steps_phases(const struct steps_text *t, const struct steps_cut *cut, enum steps_kind kind,
		  struct steps_step *step)
{
	struct walk w = {.t = t, .cut = cut, .kind = kind, .loads = true, .before = STEPS_LOAD};
	uint64_t at = step->start_ns;
	w.plan = plan_of(t, cut, kind);
	for (size_t i = cut->begin; i < cut->end; i++) {
		const struct steps_op *o = &t->ops[i];
		bool loaded = w.loads && i >= w.update;
		uint32_t class = steps_class(t, i);
		enum steps_phase phase = phase_of(&w, i, class);
		at = add_pause(&w, step, i, phase_before(&w, i, loaded, phase), at);
		at = add_until(step, phase, at, steps_op_end(o));
		w.before = phase;
		if (class & CLASS_BACKWARD)
			pass_backward(&w, i);
	}
}
