/* padding.h - what recordings of tests are short of: rows that tests make compress to far fewer
 * bytes than those of jobs, and a file stands only for what its size can hold (recording/reader.h).
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "pipeline/pipeline.h"

/* Some 200 KB that do not compress. */
static inline void pad_recording(struct pipeline *p)
{
	char text[1001];
	srandom(1);
	for (int i = 0; i < 400; i++) {
		for (int k = 0; k < 1000; k += 4)
			snprintf(text + k, 5, "%04lx", random() & 0xffff);
		pipeline_note(p, "padding", text);
	}
}
