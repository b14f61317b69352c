/* series.h - the rows of one layer of one process or GPU, as far as they are known: what is usual
 * in its kinds of work, evidence that adds up, its last rows, its open anomaly. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "detect/cusum.h"
#include "detect/shift.h"
#include "incident/made_row.h"

#define SERIES_IDLE_S 600 /* without a row it is forgotten */
#define RECENT_ROWS   32

struct recent_row {
	uint64_t start_ns, end_ns;
	double p;
	struct row_calls calls;
	bool by_pace; /* what was lost is */
};

struct series {
	enum detect_layer layer;
	uint32_t pid;
	int32_t gpu;
	uint64_t first_ns; /* start of the first row */
	uint64_t last_ns;  /* start of the last row */
	/* Start of the first row that a model judged, of the process's first rows; 0: none yet. */
	uint64_t judged_ns;
	bool gone;	 /* its process has ended */
	uint32_t regime; /* the last that was told */
	uint32_t usual;	 /* the last of which it is known what is usual */
	struct cusum cusum;
	struct shifts shifts;
	struct recent_row recent[RECENT_ROWS]; /* that belong to no anomaly; ring */
	uint32_t recent_at, recent_len;
	struct episode *open;
};

/* Those of a recording. Zeroed at its beginning. */
struct series_set {
	VEC(struct series *) list;
	struct map64 at; /* number of layer, process and GPU to index + 1 */
};

void series_set_free(struct series_set *s);
/* That of a row; NULL: none of its rows was judged. */
struct series *series_find(const struct series_set *s, const struct feature_row *row);
struct series *series_get(struct series_set *s, const struct feature_row *row);
bool series_has_process(const struct series_set *s, uint32_t pid);
/* Those of a layer that have rows now. */
uint32_t series_active(const struct series_set *s, enum detect_layer layer, uint64_t now_ns);
/* Forgets those that are idle or gone and have no open anomaly; calls back for each. */
void series_forget(struct series_set *s, uint64_t now_ns, void (*gone)(void *ctx, uint32_t pid),
		   void *ctx);

/* A row that belongs to no anomaly. */
void series_recent_push(struct series *s, const struct recent_row *r);
/* The last is taken back: it belongs to one. */
void series_recent_pop(struct series *s);
/* The last but so many of them; back < recent_len. */
const struct recent_row *series_recent(const struct series *s, uint32_t back);
