/* steps_words.h - steps in a sentence. */
#pragma once

#include "analyze/steps.h"

/* Of a loop, or of a part of one. */
struct steps_means {
	const struct steps_process *process; /* whose words phases have */
	uint64_t count;
	bool further; /* there are others, which are told elsewhere */
	enum steps_kind kind;
	double mean_ns, phase_mean_ns[STEPS_PHASES];
};

/* "300 of training, 17.8 ms each on average: load 96 %, forward 2 %, backward 2 %": phases of less
 * than 1 % are left out. */
void steps_say_means(struct buf *to, const struct steps_means *m);
/* The same of each process that has steps and does not only load for others, the main one first. */
void steps_say_each(const struct steps *s, void (*say)(void *ctx, uint32_t pid, const char *text),
		    void *ctx);
