/* usual.h - what is usual for each key: how long its events take, and how long the time between
 * the call before and them. Numbers of keys are those of keys.h. No I/O.
 *
 * Baselines come from a model (usual_set), or are learned from events (usual_learn): a key is
 * judged from BASELINE_LEAST events on, its baseline is made anew whenever twice as many have come,
 * up to BASELINE_SAMPLE, and stays then. What stays follows slow drift by an exponential average,
 * when it is told that what came was normal. Memory: at most 4 KiB a key while it learns, 160 bytes
 * afterwards. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "detect/baseline.h"
#include "detect/layer.h"

#define USUAL_NO_GAP   UINT64_MAX
#define USUAL_FOLLOW_S 600.0 /* time constant of following */

struct usual;
struct usual *usual_new(uint64_t seed);
void usual_free(struct usual *u);

/* From a model; count 0: unknown. Numbers from 1 on. */
void usual_set(struct usual *u, uint32_t key, const struct baseline *duration,
	       const struct baseline *gap);
/* What is known now; count 0 where nothing is. */
void usual_get(const struct usual *u, uint32_t key, struct baseline *ret_duration,
	       struct baseline *ret_gap);

/* One event more to learn from. Instants have a gap alone: duration_ns 0 is no duration. */
void usual_learn(struct usual *u, uint32_t key, uint64_t duration_ns, uint64_t gap_ns);
/* All samples become baselines now, and are given back: learning ends. What is learned later of
 * keys that had none begins anew. */
void usual_settle(struct usual *u);

/* An event against what is usual. NaN: unknown. */
struct usual_z {
	double z, gap_z;
	double usual_ns, usual_gap_ns;
};
void usual_z(struct usual *u, uint32_t key, uint64_t duration_ns, uint64_t gap_ns,
	     struct usual_z *ret);

/* All that usual_z was asked for keys of this layer since the last call was normal, and took
 * seconds: medians move towards it. normal false: it is forgotten. layer_of: of each key's
 * number. */
void usual_follow(struct usual *u, const uint8_t *layer_of, uint32_t keys, enum detect_layer layer,
		  double seconds, bool normal);
