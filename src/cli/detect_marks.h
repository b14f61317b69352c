/* detect_marks.h - what was not normal in a recording, for timelines. */
#pragma once

#include "base/error.h"
#include "export/anomaly_slices.h"
#include "recording/recording.h"

/* model_path NULL: the recording is judged by its own beginning. 0, or negative errno with the
 * sentence: the model cannot be used. ret is written on success only. */
int detect_marks(struct anomaly_slices *ret, const struct rec_reader *reader,
		 const char *model_path, struct err *e);
