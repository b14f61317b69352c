/* live_work.h - the work that jobs hand to their GPUs while a session runs: floating-point
 * operations by process and format, of calls whose shapes are seen (analyze/flops_count.h), and
 * kernels by name. Knows no devices; what CUDA graphs run is not in it.
 *
 * Not for several threads: the host locks it. */
#pragma once

#include "analyze/flops_count.h"
#include "base/buffer.h"
#include "base/map64.h"

#define WORK_KERNELS	64 /* names of a process; others are one row */
#define WORK_NAME_BYTES 128
#define WORK_SECONDS	10		   /* over which a speed is told; */
#define WORK_BURSTS	60		   /* likewise, of functions that a budget has in bursts */
#define WORK_PLACES	(WORK_BURSTS + 32) /* and those until what it left out is known */

struct live_flops {
	uint32_t pid;
	double model[FLOPS_FORMATS]; /* by format: of the calls that were seen */
	uint64_t unknown;	     /* calls without a shape or room: in none of them */
	/* The rest is its own: the operations of each of the last seconds, with those of calls
	 * that a budget kept from being seen, by what other calls of the function were. float32
	 * whose kernels were not seen is at TF32's place. */
	double all[WORK_PLACES][FLOPS_FORMATS];
	uint64_t first_s, last_s; /* of CLOCK_MONOTONIC */
};

struct live_kernel {
	uint32_t pid;
	char name[WORK_NAME_BYTES]; /* short (base/kernel_name.h); "(other)": the rest */
	uint64_t launches;	    /* that were seen */
};

struct live_work_thread;
struct live_work_probe;
struct live_work_wait;

struct live_work {
	VEC(struct live_flops) flops;
	VEC(struct live_kernel) kernels;
	/* the rest is its own */
	VEC(struct live_work_thread) threads;
	VEC(struct live_work_probe) probes;
	VEC(struct live_work_wait) waits;
	VEC(uint32_t) free_threads; /* places */
	struct map64 flops_of, kernel_of, named, names_of, thread_of, probe_of, wait_of;
};

struct live_series;
struct session_view;

/* w: zeroed. The calls of a batch. s: whose processes are kept. */
void live_work_batch(struct live_work *w, const struct session_view *v, const struct live_series *s,
		     uint64_t now_ns);
/* What is of processes that s does not know is dropped. */
void live_work_forget(struct live_work *w, const struct live_series *s);
void live_work_free(struct live_work *w);

/* Operations a second of a process over the last WORK_SECONDS whole seconds of which all is known
 * (WORK_BURSTS, where a budget has some of its functions in bursts: of a few bursts a second or two
 * say little), or since it is seen where that is less. false: not a second is over, nothing was
 * counted, or a budget left no burst of what it calls for half a minute. float32 is at FORMAT_F32
 * where its kernels were seen not to use tensor cores, else at FORMAT_TF32. */
bool live_work_speed(const struct live_work *w, uint32_t pid, uint64_t now_ns,
		     double ret[static FLOPS_FORMATS]);
