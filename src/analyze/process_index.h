/* process_index.h - the processes of a recording, to be found by their numbers. */
#pragma once

#include <stdint.h>

#include "base/map64.h"
#include "events/visitor.h"

struct process_place {
	uint32_t first, last; /* rows + 1, 0 = none has this number */
	int32_t rank;	      /* of the last row that knows it, -1 none does */
	int32_t comm_rank;    /* in the last of the largest communicators, -1 in none of them */
};

struct process_index {
	const struct rec_tables *t;
	struct map64 place_of; /* pid -> index */
	VEC(struct process_place) places;
};

void process_index_make(struct process_index *ret, const struct rec_tables *t);
void process_index_free(struct process_index *x);

/* The last row of a process, NULL where there is none. */
const struct m_process *process_index_row(const struct process_index *x, uint32_t pid);

/* Which source of a merged recording a process is of; 0 where it is not known. */
uint32_t process_index_source(const struct process_index *x, uint32_t pid);

/* A process's rank in its job: as it was recorded, or in the largest communicator; -1 unknown. */
int32_t process_index_rank(const struct process_index *x, uint32_t pid);
