/* diagnosis_words.h - what people read of an incident as a whole. */
#pragma once

#include "base/buffer.h"
#include "incident/diagnosis.h"

/* "CPU contention by stress (4242)": the cause and its culprit, or that it is not known. */
void diagnosed_words(struct buf *b, const struct rec_tables *t, const struct diagnosed *in);
