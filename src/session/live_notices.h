/* live_notices.h - what was told of a running session beside incidents: early warnings, errors of
 * GPUs, hangs, changes. The latest, and how many there were by name. Not for several threads: the
 * host locks it. */
#pragma once

#include <stdint.h>

#define LIVE_NOTICES	   64
#define LIVE_NOTICES_NAMES 32 /* those of other names are counted as "(other)" */

struct live_notice {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	char entity[128]; /* "gpu 0" */
	char name[48];	  /* "early_warning" */
	char text[768];
};

struct live_notice_count {
	char name[48];
	uint64_t n;
};

/* Zeroed at first. */
struct live_notices {
	struct live_notice of[LIVE_NOTICES]; /* a ring: */
	uint32_t first, len;
	struct live_notice_count counts[LIVE_NOTICES_NAMES];
	uint32_t counts_len;
};

/* What does not fit is cut. */
void live_notices_add(struct live_notices *all, uint64_t time_ns, const char *entity,
		      const char *name, const char *text);
/* The oldest is 0. */
const struct live_notice *live_notices_at(const struct live_notices *all, uint32_t i);
