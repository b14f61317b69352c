/* regimes.h - what a process's job was doing: training, evaluating, with which sizes. Hardware
 * and gaps are judged against the same kind of work; work of a new kind is unknown, no anomaly.
 *
 * A mix is a sketch of shares of events (never of time: a fault must not look like other work):
 * the first half of its places holds the functions, by hash, the second half the sizes that calls
 * were made with; each half sums to 1/2 (all of it in the first half where nothing told a size).
 * A mix belongs to the nearest known regime, if its distance (sum of absolute differences, 0 to 2)
 * is at most REGIME_DISTANCE. Windows of few events are judged together with those before: their
 * mix is a decaying sum. So a job whose steps are longer than a window has one regime, not one for
 * each phase of a step. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "detect/model.h"

#define REGIMES_MOST	16
#define REGIME_DISTANCE 0.5
#define REGIME_SIZES	(REGIME_PLACES / 2)
#define REGIME_LEAST	500  /* events that a mix needs; before them the regime is 0 */
#define REGIME_EVENTS	4000 /* that it is made of: as many windows as have these */

/* What a process did in a window. */
struct work {
	uint32_t regime; /* 0 unknown */
	uint64_t events;
	uint64_t cuda_events; /* of these */
	double pace;	      /* this and those below: of struct feature_row */
	bool parents_pace;
	bool other_work;
};

/* The work of one process so far: zeroed at its beginning. */
struct regime_mix {
	float functions[REGIME_PLACES - REGIME_SIZES], sizes[REGIME_SIZES]; /* decaying counts */
	double events;
};

/* The hashes of keys.h's struct detect_keyed; size 0: none. */
void regime_mix_add(struct regime_mix *m, uint32_t function, uint32_t size);
/* Adds a window's events to those before, of which it keeps as many as are needed. */
void regime_mix_window(struct regime_mix *m, const struct regime_mix *window);
/* false: too few events. */
bool regime_mix_shares(const struct regime_mix *m, float ret[REGIME_PLACES]);

struct regimes;
/* Whether a window by itself is no mix of that regime. false: it has too few events to know. */
bool regimes_differs(const struct regimes *r, uint32_t number, const struct regime_mix *window);
struct regimes *regimes_new(void);
void regimes_free(struct regimes *r);
/* From a model, in order: the first becomes 1. They are frozen. */
void regimes_add(struct regimes *r, const struct model_regime *m);
/* Which it is, from 1. Where none is near: a new one when may_add and there is room, else 0. A
 * regime that was not frozen (those of a model are) becomes the mean of its windows. */
uint32_t regimes_of(struct regimes *r, const float shares[REGIME_PLACES], bool may_add);
/* A window of that regime: how much of the work there usually is. */
void regimes_window(struct regimes *r, uint32_t number, const struct regime_mix *window);
/* How fast a regime's work went on in a window, whatever else there was: each place of its sizes
 * has so many times its usual calls. sizes: of the window's calls of known keys, as in regime_mix.
 * Regimes from a model alone. 0: unknown, or the places do not agree (most of them within
 * REGIME_PACE_ALIKE), for it is other work. */
#define REGIME_PACE_ALIKE 0.25
double regimes_pace(const struct regimes *r, uint32_t number, const float sizes[REGIME_SIZES]);
/* How fast its work goes on in what is usual for another regime: that may be the same work, slowed,
 * with something beside it. */
double regimes_pace_in(const struct regimes *r, uint32_t number, uint32_t other);
/* Of a window in which a process made hardly any calls, so that nothing can be said of what they
 * were: how many, over what is usual, above 0; 0 of others, and where nothing is usual. It is slow,
 * or waits. Regimes from a model alone. */
#define REGIME_STILL 0.02
double regimes_still(const struct regimes *r, uint32_t number, const struct regime_mix *window);
/* Most of a regime's usual calls have none in a window: the process did other work, or none.
 * Regimes from a model alone. */
bool regimes_gone(const struct regimes *r, uint32_t number, const float sizes[REGIME_SIZES]);
uint32_t regimes_frozen(const struct regimes *r); /* the first so many */
uint32_t regimes_count(const struct regimes *r);
void regimes_get(const struct regimes *r, uint32_t number, struct model_regime *ret);
void regimes_freeze(struct regimes *r); /* what is known now moves no more */
