/* windows_impl.h - processes, their windows and the sums of one, which windows.c finds,
 * window_sums.c adds up and window_rows.c hands out. For these alone. */
#pragma once

#include <string.h>

#include "base/buffer.h"
#include "base/map64.h"

#include "detect/cpu_speed.h"
#include "detect/windows.h"
#include "detect/world.h"

#define CPUS_KEPT_NS	  60000000000ULL /* live, how fast they were: beyond late_ns */
#define WINDOW_CANDIDATES 16		 /* keys that are followed to find WINDOWS_KEYS */

struct window_event {
	struct detect_keyed keyed;
	enum detect_layer layer;
	bool device, outermost, failed, saves;
	bool known;    /* its key is a model's */
	bool resized;  /* its function is, its size is not */
	bool explains; /* its key may be told as what a window was made of */
	uint64_t start_ns, end_ns;
	uint64_t duration_ns, gap_ns; /* USUAL_NONE */
	struct usual_z usual;
};

/* Of things that have a z. Whole events are counted, also where only a share of their time is
 * the window's. */
struct window_sum {
	double ns, usual_ns; /* of durations: of outermost calls alone, of python all */
	double z, z_squared; /* cut off at WINDOW_Z_CUT */
	uint32_t count, tail;
};
#define WINDOW_Z_CUT  6.0
#define WINDOW_Z_TAIL 4.0

struct window_layer {
	uint64_t events;
	uint32_t calls, errors; /* of the host */
	struct window_sum duration, gap, device;
	struct clock_sums clock;
	/* Space-saving (Metwally, Agrawal and El Abbadi 2005): a new key takes the place of the one
	 * with the least weight, and its weight. */
	uint32_t keys_len;
	uint32_t keys[WINDOW_CANDIDATES];
	double weights[WINDOW_CANDIDATES]; /* time beyond what is usual, too high at most */
	struct window_key of_keys[WINDOW_CANDIDATES];
};

struct window {
	uint64_t number;
	struct regime_mix mix;
	struct window_layer *layers[DETECT_LAYERS]; /* NULL: nothing happened in it */
};

void window_free(struct window *w);

void window_add_event(struct window *w, const struct window_event *e);
/* share: of the duration or gap that is in this window. */
void window_add_duration(struct window *w, const struct window_event *e, double share);
void window_add_device(struct window *w, const struct window_event *e, double share);
void window_add_gap(struct window *w, const struct window_event *e, double share);

/* Sets row->events and row->x; row->pace is known. */
void window_features(const struct window_layer *l, struct feature_row *row);
void window_explain(const struct window_layer *l, struct window_detail *ret,
		    struct window_key keys[WINDOWS_KEYS]);

/* A thread's last call of each layer. */
struct thread {
	uint32_t pid, tid;
	uint32_t process;		/* index + 1, 0 not looked up */
	uint64_t end_ns[DETECT_LAYERS]; /* 0: none yet */
	uint32_t key[DETECT_LAYERS];
	uint64_t calls[DETECT_LAYERS];
	struct world_waits world;
	uint64_t world_ns[DETECT_LAYERS]; /* its total at that call's end */
};

struct process {
	uint32_t pid;
	VEC(struct window *) open;	 /* in order of number, from first on */
	size_t first;			 /* those before were handed out */
	size_t recent;			 /* the place that was asked for last */
	struct window *now;		 /* open, the one that was found last; NULL none */
	uint64_t now_ns;		 /* its start */
	struct regime_mix mix;		 /* of windows that were handed out */
	uint64_t last;			 /* number of the last that was handed out, 0 none */
	double pace, cpus;		 /* in that one (struct feature_row); 0 unknown */
	uint64_t windows, leads;	 /* that were handed out; of these, of the model's work */
	uint64_t busiest[DETECT_LAYERS]; /* calls of the thread with most */
	bool gone;			 /* it has ended */
};

struct windows {
	struct windows_options o;
	VEC(struct thread) threads;
	VEC(uint32_t) free_threads; /* places */
	struct map64 thread_at;	    /* index -> place */
	uint64_t last_index;	    /* + 1: the one that was asked for last, 0 none */
	uint32_t last_place;
	uint32_t last_process; /* index + 1: that windows_again had last, 0 none */
	uint64_t asked_ns;     /* start of the window that was asked last whether it is left out; */
	bool asked, is_out;    /* whether one was; what was said */
	VEC(struct process) processes;
	struct map64 process_of; /* pid -> index */
	struct map64 parents;	 /* pid -> its parent's */
	struct cpu_speed cpus;
	struct map64 functions;	    /* of a model's keys */
	struct map64 resized_since; /* key -> end of its first call */
	bool any_gone;		    /* of the processes */
	uint64_t closed;	    /* windows below this number were handed out */
	uint64_t late;
};

static inline struct window *first_window(const struct process *p)
{
	return p->first < p->open.len ? p->open.data[p->first] : NULL;
}

/* Their places are taken again when they are half of all: each window is moved about once. */
static inline void drop_first(struct process *p)
{
	p->now = NULL;
	if (++p->first * 2 < p->open.len)
		return;
	p->open.len -= p->first;
	memmove(p->open.data, p->open.data + p->first, p->open.len * sizeof(*p->open.data));
	p->first = 0;
}

/* Those that have nothing open go: all, or those that have ended. Threads' numbers of processes are
 * looked up again then. */
void windows_drop_processes(struct windows *w, bool all);
/* Whether the window that a time is in is left out. */
bool windows_is_left_out(struct windows *w, uint64_t time_ns);
