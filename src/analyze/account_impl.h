/* account_impl.h - what the files that make the account share. */
#pragma once

#include "analyze/account.h"
#include "analyze/process_index.h"
#include "analyze/stretches.h"
#include "base/map64.h"

/* Samples of one thread by what was running. */
struct running {
	uint32_t samples[ACCOUNT_RUNS];
};

/* What one process or thread was to one main thread. */
struct peer_row {
	uint32_t at; /* index into ret->threads */
	uint32_t part;
	uint32_t pid, tid;
	uint32_t name; /* string: what it called itself; 0 unknown */
	uint64_t ns;
};

struct accounting {
	struct account *ret;
	const struct rec_tables *t;
	uint32_t pid;
	struct map64 place_of;	    /* thread -> index into ret->threads */
	struct map64 parent_of;	    /* pid -> pid */
	struct map64 thread_of_tid; /* tid -> thread */
	struct process_index index;
	struct map64 peer_of; /* hash of who did what to whom -> index into peers */
	VEC(struct peer_row) peers;
	uint64_t *sync_off_ns;	 /* by index: off the CPU within calls that wait for the GPU */
	struct running *running; /* likewise */
	struct stretches syncs;	 /* by thread: calls that wait for the GPU, and: */
	const struct stretches *through; /* what struct account has of it; or NULL */
	struct map64 *on_gpu;	   /* gets processes with waits in the GPU's driver; or NULL */
	struct stretches compiles; /* by process: compilers that it started ran */
	struct map64 workers;	   /* pid: compiles, and lives on */
	/* ret->threads are the phases of one thread, in order of time. */
	bool is_cut;
};

/* What a thread had at a time: its index into ret->threads; SIZE_MAX none. */
size_t account_place(const struct accounting *a, uint32_t thread, uint64_t time_ns);

/* account.c: tables that names and kin are found by. */
void account_begin(struct accounting *a, struct account *ret, const struct row_source *s);
/* Reads what is in rows beyond the totals, which ret->threads have; and frees *a. */
void account_read(struct accounting *a, const struct row_source *s, const struct timeline *t);

/* account_phases.c: leaves of a wait what lies within a thread's time; false: nothing does. */
bool account_clip(struct m_wait *w, const struct account_thread *th);
void account_cut_phases(struct account *a, const struct row_source *s, const struct timeline *t,
			uint64_t from_ns, uint64_t to_ns);

/* account_through.c: fills in a->through, of processes that are on_gpu. False: there is nothing. */
bool account_find_through(struct account *a, const struct row_source *s, const struct timeline *t,
			  const struct map64 *on_gpu);

/* account_samples.c: calls of threads that have a place. */
void syncs_load(struct accounting *a, const struct timeline *t);

/* account_compilers.c */
void compiles_load(struct accounting *a, const struct row_source *s);

/* account_samples.c: running, by samples. */
void account_read_samples(struct accounting *a, const struct row_source *s);
/* What ns has as ACCOUNT_CPU, by whose the samples are: `all` of them together. */
void account_split(uint64_t ns[static ACCOUNT_OWNERS], const uint32_t samples[static ACCOUNT_RUNS],
		   uint64_t all);

/* Whether a frame is of a compiler: of PyTorch, Triton, JAX, numba, or CUDA's. */
bool account_is_compile(const struct rec_tables *t, const struct m_frame *f);
enum account_owner account_owner_of_stack(const struct rec_tables *t, uint32_t stack);

/* account.c: whose a wait is, by who ended it; ACCOUNT_COMPILERS is told by compiles. */
enum account_owner account_owner_of_wait(const struct accounting *a, uint32_t pid,
					 const struct m_wait *w);
uint64_t account_compiled_ns(const struct accounting *a, uint32_t pid, const struct m_wait *w,
			     enum account_owner owner);
void account_forget(struct accounting *a);

/* account_peers.c: adds ns to who has these numbers. end: before the threads are moved. */
void account_peer_add(struct accounting *a, const struct account_thread *th, enum account_part part,
		      const struct peer_row *peer);
void account_peers_end(struct accounting *a, const struct process_index *index);

/* account_main.c: SIZE_MAX where there are no threads. */
size_t account_choose_main(const struct account *a);

/* account_holders.c: fills in the holders. What lies in `through` is no wait for a lock. */
void account_find_holders(struct account_lock *ret, const struct account_thread *th,
			  const struct row_source *s, const struct stretches *through);

/* account_locks.c: reads the source once more. */
void account_find_lines(struct account_lock *ret, const struct account_thread *th,
			const struct row_source *s, const struct stretches *through);
