/* export_steps.c - finds the steps of a recording for exports. */
#include "cli/export_steps.h"

#include <string.h>

#include "analyze/steps.h"

static const char *const kind_names[STEPS_KINDS] = STEPS_KIND_NAMES;
static const char *const phase_names[STEPS_PHASES] = STEPS_PHASE_NAMES;
_Static_assert(STEPS_PHASES <= STEP_SLICE_PHASES, "a step has more phases than a slice");

void export_steps_make(struct step_slices *ret, const struct rec_reader *reader)
{
	struct steps steps;
	steps_make(&steps, rec_source(reader), NULL);
	ret->phase_names = phase_names;
	ret->phases = STEPS_PHASES;
	for (size_t i = 0; i < steps.processes.len; i++) {
		const struct steps_process *p = &steps.processes.data[i];
		for (size_t k = 0; k < p->steps.len; k++) {
			const struct steps_step *s = &p->steps.data[k];
			struct step_slice *row = vec_push(&ret->rows);
			*row = (struct step_slice){.start_ns = s->start_ns,
						   .end_ns = s->end_ns,
						   .pid = p->pid,
						   .loop = s->loop,
						   .index = s->index,
						   .ops = s->ops,
						   .launches = s->launches,
						   .kind = kind_names[p->loops.data[s->loop].kind]};
			memcpy(row->phase_ns, s->phase_ns, sizeof(s->phase_ns));
		}
	}
	steps_free(&steps);
}

void export_steps_free(struct step_slices *s)
{
	vec_free(&s->rows);
}
