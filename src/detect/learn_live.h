/* learn_live.h - a model made of rows as they come, where none was given: what is usual first, then
 * a mixture of each layer, made anew as normal rows come. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "detect/features.h"
#include "detect/hardware.h"
#include "detect/model.h"

#define LEARN_LIVE_S 30 /* of work, of which the first mixture is made */

struct learn_live;
/* counters: where what is usual for them is learned; the caller's. */
struct learn_live *learn_live_new(uint64_t window_ns, struct counters_usual *counters);
void learn_live_free(struct learn_live *l);
/* Valid as long as l; its mixtures change. */
const struct model *learn_live_model(const struct learn_live *l);

/* A row as it comes; true: it is not judged, for the layer was not learned yet. values: of a row
 * of counters, in their units; NULL others. */
bool learn_live_row(struct learn_live *l, const struct feature_row *row, const double *values);
/* Whether the layer was learned from rows of this regime too. */
bool learn_live_knows(const struct learn_live *l, enum detect_layer layer, uint32_t regime);
/* A row that was judged and is normal; x: less what its kind of work has beyond (shift.h). */
void learn_live_normal(struct learn_live *l, const struct feature_row *row, const double *x);
