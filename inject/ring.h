/* ring.h - the writing side of the file that hands what the GPU did to eacgm (wire/gpu_ring.h).
 *
 * One writer at a time: the caller locks. Nothing here waits or fails loudly: what finds no
 * room is counted in the file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/gpu_ring.h"

struct ring_name;

struct ring {
	struct gpu_ring_header *header;
	uint8_t *data;
	uint64_t bytes;
	uint64_t head;
	uint64_t tail; /* as last read */
	struct ring_name *names;
	size_t names_cap; /* a power of two, or 0 */
	size_t names_len;
};

/* Makes the file of this process in a folder. False when there is no folder or no room. */
bool ring_open(struct ring *r, const char *folder);

/* The same with a file that eacgm has made for this process. */
bool ring_open_file(struct ring *r, const char *path);

/* Gives back what the process has of it; what is in the file stays for eacgm. */
void ring_close(struct ring *r);

/* Adds a span; name is its kernel's, NULL for none. The record's head is filled in. */
void ring_put(struct ring *r, struct gpu_ring_span *span, const char *name);

/* Adds a call; the record's head is filled in. */
void ring_put_call(struct ring *r, struct gpu_ring_call *call);

/* Likewise an operator. Its name was told before; false when there was no room to. */
void ring_put_op(struct ring *r, struct gpu_ring_op *op);
bool ring_put_operator_name(struct ring *r, uint32_t number, uint32_t kind, const char *text,
			    size_t len);
void ring_put_launch(struct ring *r, struct gpu_ring_launch *launch);
void ring_put_ops_upto(struct ring *r, uint64_t ns);
void ring_lost_ops(struct ring *r, uint64_t n);
/* Why there are no operators, below 64 bytes. */
void ring_set_why(struct ring *r, const char *why);
/* Whether eacgm wants nothing of a name. */
bool ring_wants_no(const struct ring *r, uint32_t number);

/* Says what comes beside spans, before it does. */
void ring_set_tells(struct ring *r, unsigned tells);

void ring_set_state(struct ring *r, enum gpu_ring_state state, const char *text);

/* Whether eacgm asks the process to record nothing for now, and to end its work. */
bool ring_paused(const struct ring *r);
bool ring_stopped(const struct ring *r);
