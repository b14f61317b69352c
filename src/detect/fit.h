/* fit.h - does a model fit what a process does? Judged by its windows as they come: how fast its
 * work goes on, against the model's (clock.h), and how much of its time is in calls that the model
 * does not know.
 *
 * A model of another job, of other libraries or of another host says nothing about this one: where
 * all is quicker than it says, a fault is still quicker than usual. A fault makes work slower, and
 * may be there from the first window on; so slow work is a model that does not fit only where
 * the caller knows that something differs, and never once the model has fitted. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define FIT_WINDOWS 15	 /* of work that it takes: with the warm-up it is known in 20 s */
#define FIT_LATER   60	 /* of a process that the model fitted before */
#define FIT_APART   1.25 /* launches of a job on one host differ by less (0.85 to 1.15) */
#define FIT_NEARLY  0.8	 /* of the windows: nearly all */
#define FIT_OTHER   0.5	 /* of a window's time in what the model does not know */

enum fit_verdict {
	FIT_UNKNOWN,
	FIT_FITS,
	FIT_QUICKER,
	FIT_SLOWER,
	FIT_OTHER_SIZES, /* of functions that the model knows */
	FIT_OTHER_CALLS, /* or the same in other shares */
};

/* A window of a process; shares are of the time in calls and between them. */
struct fit_window {
	uint64_t start_ns;
	double pace; /* 0 unknown */
	double unknown, resized;
	bool other_mix; /* functions are called in shares that the model does not have */
};

/* One process. Zeroed at its beginning. */
struct fit {
	struct fit_window kept[FIT_LATER]; /* ring of those that say something */
	uint32_t len, at;
	uint32_t looked_at;	  /* of the last, by the verdict */
	enum fit_verdict verdict; /* FIT_FITS may become another, others stay */
};

/* A window as it ends; the verdict is made anew. */
void fit_add(struct fit *f, const struct fit_window *w);
/* Slow work that is put down to a fault: the model fits. */
void fit_accept(struct fit *f);
/* What most of the windows so far say, where it is not decided yet; FIT_FITS: nothing else. */
enum fit_verdict fit_leaning(const struct fit *f);

/* What a verdict rests on: of the windows that were looked at the start of the first, and in the
 * middle the pace, or the share of time in what is not known. */
struct fit_evidence {
	uint64_t since_ns;
	double pace, share;
};
void fit_evidence(const struct fit *f, struct fit_evidence *ret);
