/* calls.h - the layout of CALLS blocks: rows to payload and back. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "events/rows.h"

/* Room for encoding that is kept from block to block. Zero-initialised by the owner. */
struct calls_encoder {
	size_t cap;	    /* rows that the arrays below have room for */
	uint32_t *order;    /* row numbers in order of the file */
	uint32_t *by_probe; /* positions in order, in order of probe */
	uint64_t *end_ns;   /* by position, as the next two */
	uint64_t *dur_ns;
	uint64_t *probe;
	uint64_t *grouped; /* one column's values, by probe */
	uint32_t *starts;  /* counting sort */
	size_t starts_cap;
};

/* Appends the columns of n rows, each with thread < nthreads, probe < nprobes and
 * nargs <= MODEL_MAX_ARGS. The times are the earliest start and the latest end. */
void calls_encode(struct calls_encoder *enc, struct buf *payload, const struct m_call *rows,
		  size_t n, size_t nthreads, size_t nprobes, uint64_t *ret_first_ns,
		  uint64_t *ret_last_ns);
void calls_encoder_free(struct calls_encoder *enc);

/* Decodes a payload into n rows that the caller has room for. Numbers in the rows are as
 * in the file: not checked, but nargs <= MODEL_MAX_ARGS. 0 or -EBADMSG. */
int calls_decode(const uint8_t *payload, size_t len, size_t n, struct m_call *rows);
