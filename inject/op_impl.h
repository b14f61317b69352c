/* op_impl.h - what the files of torch_ops.h share: names, a thread's block of operators and rows,
 * and the one state of all. Internal to them. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "launches.h"
#include "ring.h"
#include "ticks.h"
#include "torch_abi.h"

#define MOST_OPEN   128
#define ROWS	    (1u << 14) /* of a thread: 36 ms at 450,000 operators a second */
#define BY_ADDRESS  512
#define BY_TEXT	    4096 /* more than names, so that there is always a free place */
#define LAUNCHES    (1u << 12)
#define PAIRS	    256 /* of clocks, one a second: older times are a little off */
#define NODE_PREFIX "autograd::engine::evaluate_function: "

struct name {
	uint64_t hash;
	uint32_t number;
	bool unwanted; /* atomic; from the ring's header */
	bool told;     /* our thread's: it is in the ring */
	uint8_t kind;  /* enum gpu_ring_operator_kind */
	uint32_t len;
	char text[]; /* as PyTorch gives it */
};

struct open_row {
	const struct torch_record *record;
	struct name *name; /* NULL: there are too many */
	uint64_t start;
	int64_t sequence;
};

struct row {
	uint64_t start, end;
	int64_t sequence;
	uint16_t name;
	uint8_t depth;
	uint8_t pad[5];
};
_Static_assert(sizeof(struct row) == 32, "two in a cache line");

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): a cache line for each side */
struct thread {
	struct thread *next; /* under ops.lock */
	uint32_t tid;
	bool gone; /* atomic: the thread has ended */

	unsigned depth; /* atomic: open operators, also those beyond MOST_OPEN */
	bool in_launch; /* atomic: it is in op_take_launch */
	struct open_row open[MOST_OPEN];
	struct {
		const char *text;
		struct name *name;
	} by_address[BY_ADDRESS];
	struct name *by_text[BY_TEXT];

	uint64_t lost __attribute__((aligned(64))); /* atomic: rows without room or name */
	uint64_t head;				    /* atomic: rows written */
	uint64_t seen_tail;			    /* tail as the thread last saw it */
	uint64_t tail __attribute__((aligned(64))); /* atomic: rows read */
	uint64_t lost_told;
	uint64_t launches_head; /* atomic, as those of rows */
	uint64_t launches_tail; /* atomic */
	struct row rows[ROWS];
	struct launch launches[LAUNCHES];
};

/* The process's one. */
struct op_state {
	struct torch_abi abi;
	uint64_t handles[2];
	struct ring *ring;
	pthread_mutex_t *ring_lock;
	const struct cupti *cupti; /* NULL: no launches */
	bool launches;		   /* are told */

	pthread_mutex_t lock; /* guards threads and names; held for moments */
	struct thread *threads;
	struct name *names[GPU_RING_MAX_OPERATORS];
	struct name *by_text[BY_TEXT];
	uint32_t names_len;

	unsigned making; /* atomic: threads that make their block */
	bool off;	 /* atomic: callbacks do nothing */
	pthread_key_t key;
	bool has_key;

	pthread_mutex_t end_lock;
	pthread_cond_t end_wake;
	bool ending;
	pthread_t emptier;
	bool runs;

	struct ticks_pair pairs[PAIRS], now;
	size_t pairs_len;
	uint64_t read_upto_ns; /* rows that end before are in the ring */
};
extern struct op_state ops __attribute__((visibility("hidden")));

/* ---- op_names.c ---- */

/* The name that all threads share, from the thread's own table, or, where it meets it for the first
 * time, from that of all. NULL when there are too many, or no memory. */
struct name *op_name_look_up(struct thread *t, const char *text);

/* Asks the ring which names are not wanted. */
void op_names_read_unwanted(void);

void op_names_free(void);

/* ---- op_threads.c: functions that are called in the job's threads ---- */

void **op_start(void **ret, const struct torch_record *record);
void **op_start_node(void **ret, const struct torch_record *record);
void op_end(const struct torch_record *record, void *context);
void op_take_launch(struct launch *l);

/* Of the key, when a thread ends. */
void op_end_thread(void *thread);

/* Of a forked child, which has the callbacks and nobody who reads its blocks. */
void op_go_without(void);

/* ---- op_rows.c: in our thread ---- */

/* Puts the clocks side by side; op_rows_empty does it too. */
void op_rows_take_pair(void);

/* What is in the blocks of all threads goes into the ring. */
void op_rows_empty(void);
