/* usual.h - what is usual for each key: how long its events take, and how long the time between
 * the call before and them. Numbers of keys are those of keys.h. No I/O.
 *
 * What a thread does between two calls depends on both: of times between calls there are baselines
 * for pairs of keys as well, and that of the pair is taken where it is known (on an H200 that
 * trains a transformer the spread of ln gap falls from 0.34 to 0.11 for cuda, from 0.16 to 0.08
 * for torch).
 *
 * Baselines come from a model, or are learned from events: a key is judged from BASELINE_LEAST
 * events on, and its baseline is made anew whenever twice as many have come. usual_settle ends
 * that; keys that are met afterwards settle by themselves after BASELINE_SAMPLE events. From
 * USUAL_OWN events on a baseline is learned on from the process alone that it began with: another
 * job may do other work under the same keys (nodes of backward passes tell no sizes), and would
 * move what is usual under its own pace. What is settled follows slow drift by an exponential
 * average, where it is told that what came was normal. Memory: at most 2 KiB for each duration, gap
 * and pair while it learns, 80 bytes afterwards. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "detect/keys.h"
#include "detect/model.h"

#define USUAL_NONE	 UINT64_MAX /* no duration (instants), no gap */
#define USUAL_FOLLOW_S	 600.0	    /* time constant of following */
#define USUAL_PAIRS_MOST 32768
#define USUAL_OWN	 64
/* Stands between the two keys' texts of a pair in a model; its duration's count is 0. */
#define USUAL_PAIR "\t"

struct usual;
/* keys is used as long as it lives. */
struct usual *usual_new(struct detect_keys *keys, uint64_t seed);
void usual_free(struct usual *u);

/* A model's keys and pairs; others are learned beside them. */
void usual_of_model(struct usual *u, const struct model *m);
/* Appends what is known to m->keys. */
void usual_to_model(const struct usual *u, struct model *m);
/* count 0: unknown. Numbers from 1 on. */
void usual_set(struct usual *u, uint32_t key, const struct baseline *duration,
	       const struct baseline *gap);
void usual_get(const struct usual *u, uint32_t key, struct baseline *ret_duration,
	       struct baseline *ret_gap);

struct usual_event {
	uint32_t key, previous; /* previous: of the call before on the thread, 0 unknown */
	uint64_t duration_ns;	/* USUAL_NONE of an instant */
	uint64_t gap_ns;	/* USUAL_NONE: there is none */
	uint32_t pid;		/* whose; 0 anybody's */
};
void usual_learn(struct usual *u, const struct usual_event *e);
/* Nobody asks for what is usual before usual_settle: then it is made once. */
void usual_learn_until_settled(struct usual *u);
void usual_settle(struct usual *u);

/* An event against what is usual. NaN: unknown. */
struct usual_z {
	double z, gap_z;
	double usual_ns, usual_gap_ns;
};
void usual_z(struct usual *u, const struct usual_event *e, struct usual_z *ret);
/* The same, and nothing follows it: any number of threads may ask while nothing is learned. */
void usual_z_of(const struct usual *u, const struct usual_event *e, struct usual_z *ret);

/* All that usual_z was asked for keys of this layer since the last call was normal, and took
 * seconds: medians move towards it. normal false: it is forgotten. */
void usual_follow(struct usual *u, enum detect_layer layer, double seconds, bool normal);
