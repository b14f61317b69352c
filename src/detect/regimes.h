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
	double pace, cpus;    /* these and those below: of struct feature_row */
	bool parents_pace;
	bool other_work, resized;
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
struct regimes *regimes_new(void);
void regimes_free(struct regimes *r);
/* From a model, in order: the first becomes 1. They are frozen. */
void regimes_add(struct regimes *r, const struct model_regime *m);
/* Which it is, from 1. Where none is near: a new one when may_add and there is room, else 0. A
 * regime that was not frozen (those of a model are) becomes the mean of its windows. */
uint32_t regimes_of(struct regimes *r, const float shares[REGIME_PLACES], bool may_add);
/* Whether functions are called in shares that are near those of a frozen one, whatever the sizes;
 * where none is frozen, they are. */
bool regimes_know_functions(const struct regimes *r, const float shares[REGIME_PLACES]);
uint32_t regimes_count(const struct regimes *r);
void regimes_get(const struct regimes *r, uint32_t number, struct model_regime *ret);
void regimes_freeze(struct regimes *r); /* what is known now moves no more */
