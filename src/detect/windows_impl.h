/* windows_impl.h - the sums of one window, which windows.c finds and window_sums.c adds up. */
#pragma once

#include "detect/windows.h"

#define WINDOW_CANDIDATES 16 /* keys that are followed to find WINDOWS_KEYS */

struct window_event {
	struct detect_keyed keyed;
	enum detect_layer layer;
	bool device, outermost, failed, saves;
	bool known;    /* its key is a model's */
	bool resized;  /* its function is, its size is not */
	bool explains; /* its key may be told as what a window was made of */
	uint64_t start_ns, end_ns;
	uint64_t duration_ns, gap_ns; /* USUAL_NONE */
	struct usual_z usual;
};

/* Of things that have a z. Whole events are counted, also where only a share of their time is
 * the window's. */
struct window_sum {
	double ns, usual_ns; /* of durations: of outermost calls alone, of python all */
	double z, z_squared; /* cut off at WINDOW_Z_CUT */
	uint32_t count, tail;
};
#define WINDOW_Z_CUT  6.0
#define WINDOW_Z_TAIL 4.0

struct window_layer {
	uint64_t events;
	uint32_t calls, errors; /* of the host */
	struct window_sum duration, gap, device;
	struct clock_sums clock;
	/* Space-saving (Metwally, Agrawal and El Abbadi 2005): a new key takes the place of the one
	 * with the least weight, and its weight. */
	uint32_t keys_len;
	uint32_t keys[WINDOW_CANDIDATES];
	double weights[WINDOW_CANDIDATES]; /* time beyond what is usual, too high at most */
	struct window_key of_keys[WINDOW_CANDIDATES];
};

struct window {
	uint64_t number;
	struct regime_mix mix;
	struct window_layer *layers[DETECT_LAYERS]; /* NULL: nothing happened in it */
};

void window_free(struct window *w);

void window_add_event(struct window *w, const struct window_event *e);
/* share: of the duration or gap that is in this window. */
void window_add_duration(struct window *w, const struct window_event *e, double share);
void window_add_device(struct window *w, const struct window_event *e, double share);
void window_add_gap(struct window *w, const struct window_event *e, double share);

/* Sets row->events and row->x; row->pace is known. */
void window_features(const struct window_layer *l, struct feature_row *row);
void window_explain(const struct window_layer *l, struct window_detail *ret,
		    struct window_key keys[WINDOWS_KEYS]);
