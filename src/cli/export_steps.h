/* export_steps.h - the steps of a recording as exports take them. */
#pragma once

#include "export/step_slices.h"
#include "recording/recording.h"

void export_steps_make(struct step_slices *ret, const struct rec_reader *reader);
void export_steps_free(struct step_slices *s);
