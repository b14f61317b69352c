/* steps_phase.c - what the host did in a step, from the order of its operations. */
#include "analyze/steps_impl.h"

/* Copies to the host after the update that make a checkpoint: fewer are values for a log. */
#define CHECKPOINT_COPIES 16

static size_t last_of_class(const struct steps_text *t, const struct steps_cut *cut, uint16_t class)
{
	for (size_t i = cut->end; i-- > cut->begin;)
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

/* The last operation of the update, or SIZE_MAX. */
static size_t update_end(const struct steps_text *t, const struct steps_cut *cut, size_t from)
{
	for (size_t i = cut->end; i-- > from;)
		if (steps_class(t, i) & (CLASS_UPDATE | CLASS_OPTIMIZER | CLASS_ZERO_GRAD))
			return i;
	return SIZE_MAX;
}

void steps_phases(const struct steps_text *t, const struct steps_cut *cut, enum steps_kind kind,
		  struct steps_step *step)
{
	const uint16_t loading = CLASS_COPY | CLASS_LOADER | CLASS_ZERO_GRAD;
	size_t backward = SIZE_MAX, updated = SIZE_MAX;
	if (kind == STEPS_TRAINING) {
		backward = last_of_class(t, cut, CLASS_BACKWARD | CLASS_OPTIMIZER);
		size_t before = last_of_class(t, cut, CLASS_BACKWARD);
		backward = before != SIZE_MAX ? before : backward;
		updated = update_end(t, cut, backward != SIZE_MAX ? backward : cut->begin);
	}
	bool saves = updated != SIZE_MAX &&
		     copies_to_host(t, updated + 1, cut->end) >= CHECKPOINT_COPIES;
	bool loads = true;
	uint64_t at = step->start_ns;
	for (size_t i = cut->begin; i < cut->end; i++) {
		uint16_t class = steps_class(t, i);
		uint64_t end = steps_op_end(&t->ops[i]), begin = t->ops[i].start_ns;
		enum steps_phase phase = STEPS_FORWARD;
		/* The wait before the first operation is for its data, whatever comes then. */
		if (loads && begin > at && i == cut->begin) {
			step->phase_ns[STEPS_LOAD] += begin - at;
			at = begin;
		}
		loads = loads && class & loading;
		if (class & CLASS_BACKWARD)
			phase = STEPS_BACKWARD;
		else if (class & CLASS_COLLECTIVE)
			phase = STEPS_COMMUNICATION;
		else if (loads)
			phase = STEPS_LOAD;
		else if (saves && i > updated)
			phase = STEPS_CHECKPOINT;
		else if (backward != SIZE_MAX && i >= backward)
			phase = STEPS_OPTIMIZER;
		if (end > step->end_ns)
			end = step->end_ns;
		if (end > at) {
			step->phase_ns[phase] += end - at;
			at = end;
		}
	}
}
