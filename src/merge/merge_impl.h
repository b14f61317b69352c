/* merge_impl.h - inside of a merge; for the merge*.c files only. */
#pragma once

#include "analyze/process_index.h"
#include "base/map64.h"
#include "merge/clock_align.h"
#include "merge/merge.h"

/* Rows of one size, each once, and the number that the output gave to each. */
struct row_set {
	size_t row_bytes;
	struct map64 by_hash; /* hash, or where that is taken one after it -> place */
	struct buf rows;
	VEC(uint32_t) numbers;
};

/* The number of a row (without padding bytes that differ); false: it is new, and *ret is where its
 * number is to be put. */
bool row_set_find(struct row_set *s, const void *row, uint32_t **ret);
void row_set_free(struct row_set *s);

/* Room for a row of any kind but calls. */
union merge_any_row {
#define X(number, NAME, stem, members) struct m_##stem of_##stem;
	ROW_NUMBERED(X) ROW_LISTED(X) ROW_SERIES(X)
#undef X
};

struct merge_input {
	const char *path;
	struct rec_reader *reader;
	const struct rec_tables *t;
	uint32_t clock;
	const char *host;    /* of its meta, or "unknown" */
	int64_t realtime_ns; /* CLOCK_REALTIME minus CLOCK_MONOTONIC */
	bool realtime_known;
	uint32_t pid_shift;
	uint64_t blocks_unread;
	struct err unread; /* the first of them */
	/* From numbers of the source to those of the output. */
	uint32_t *strings, *numbers[ROW_KINDS];
	struct process_index processes; /* while its tables are put */
};

struct merge {
	VEC(struct merge_input) inputs;
	VEC(struct clock_state) clocks; /* the first is the output's */
	VEC(char *) labels;		/* of clocks: how their host is called; all differ */
	struct rec_writer *w;
	struct row_set once[ROW_KINDS]; /* of kinds whose rows several sources may have */
	VEC(struct m_loss) losses;
	struct map64 loss_of; /* cause << 32 | CPU -> index */
	const struct merge_options *options;
	uint64_t blocks_done, blocks;
};

/* Opens the sources and finds which clocks there are. */
int merge_inputs_open(struct merge *m, const char *const *paths, size_t n, const char *output,
		      struct err *e);
void merge_inputs_close(struct merge *m);
/* Chooses what is added to pids. */
int merge_choose_pids(struct merge *m, struct err *e);
/* Finds how clocks 1.. stand to the first. */
void merge_align(struct merge *m);
/* False: go_on has said so. */
bool merge_go_on(struct merge *m);

/* Metas of the whole, and those of sources that differ. */
void merge_put_metas(struct merge *m);
/* All tables of a source. */
void merge_put_tables(struct merge *m, uint32_t source);
/* All bulk rows of a source. */
int merge_put_rows(struct merge *m, uint32_t source, struct err *e);

/* ---- what a source's values are in the output ---- */

static inline uint64_t merge_time(const struct merge *m, const struct merge_input *in,
				  uint64_t time_ns)
{
	return clock_map_time(&m->clocks.data[in->clock].map, time_ns);
}

/* 0 is no process. */
static inline uint32_t merge_pid(const struct merge_input *in, uint32_t pid)
{
	return pid ? pid + in->pid_shift : 0;
}

static inline uint32_t merge_string(const struct merge_input *in, uint32_t number)
{
	return number < strtab_len(&in->t->strings) ? in->strings[number] : 0;
}

/* What an argument's value is. */
uint64_t merge_argument(const struct merge_input *in, uint8_t type, uint64_t value);

/* A row of a kind that has fields, as the output has it. */
void merge_row(struct merge *m, const struct merge_input *in, const struct row_kind_info *k,
	       const void *from, void *to);
