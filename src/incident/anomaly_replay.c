/* anomaly_replay.c - rows that were judged before, judged again without their recording. The events
 * are not there, so what the judge needs them for is taken from the rows' own p: short stretches
 * that were not judged (work with new keys, the end of the recording) are not judged here. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "incident/anomaly_list.h"

/* Work of a new kind, and counters that became usual, take at least so many. */
#define SHORT_ROWS 30

static bool is_series(const struct feature_row *a, const struct feature_row *b)
{
	return a->layer == b->layer && a->pid == b->pid && a->gpu == b->gpu;
}

/* Has nothing known of rows that lie in short stretches without a p: they are not judged then.
 * What a detector finds by the rows themselves it has to see: the warm-up, where nothing is lost,
 * and work of a kind that the model does not know. */
static void blank_unjudged(struct rows_file *f, uint32_t regimes)
{
	bool *done = xcalloc(f->rows.len + 1, sizeof(*done));
	for (size_t i = 0; i < f->rows.len; i++) {
		const struct feature_row *first = &f->rows.data[i].row;
		size_t stretch[SHORT_ROWS], len = 0;
		for (size_t k = i; k < f->rows.len && !done[i]; k++) {
			struct filed_row *r = &f->rows.data[k];
			if (!is_series(&r->row, first))
				continue;
			if (!isnan(r->p))
				break;
			done[k] = k != i;
			if (len < SHORT_ROWS)
				stretch[len] = k;
			len++;
		}
		for (size_t k = 0; k < len && len < SHORT_ROWS; k++) {
			struct feature_row *r = &f->rows.data[stretch[k]].row;
			if (r->regime > regimes && r->layer != DETECT_STEP)
				continue;
			for (size_t x = 0; x < FEATURES_MOST; x++)
				r->x[x] = NAN;
		}
	}
	free(done);
}

void detector_rows(struct detector *d, const struct model *m, const struct rows_file *f)
{
	struct rows_file seen = {0};
	vec_reserve(&seen.rows, f->rows.len + 1);
	if (f->rows.len)
		/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): room was made */
		memcpy(seen.rows.data, f->rows.data, f->rows.len * sizeof(*f->rows.data));
	seen.rows.len = f->rows.len;
	blank_unjudged(&seen, (uint32_t)m->regimes.len);
	for (size_t i = 0; i < seen.rows.len; i++) {
		const struct feature_row *row = &seen.rows.data[i].row;
		if (row->parent)
			detector_process(
				d, &(struct m_process){.pid = row->pid, .parent_pid = row->parent});
		detector_row(d, row);
	}
	rows_file_free(&seen);
	detector_end(d);
}
