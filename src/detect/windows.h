/* windows.h - rows of the layers that have calls (cuda, python, torch, nccl): one for each window
 * of time, process and layer, from calls and spans of the GPU as they come. features.h has the
 * list, docs/developers/detection-features.md the formulas.
 *
 * The end of a call decides its window; a call, or a time between calls, that is longer than a
 * window counts for each that it covers and that is still open, with its share. Windows of a
 * process are handed out in order of time, those of one time together, when windows_upto says that
 * nothing of them comes any more.
 *
 * Live, late_ns is as long as sources may lag behind and few windows are open. Offline, calls come
 * in blocks grouped by thread: late_ns WINDOWS_NEVER keeps all windows open up to windows_end, at
 * 650 bytes for each second and process and 1.6 KB for each layer that has calls in it. The code is
 * the same. Calls that come after their window was handed out are counted (windows_late) and
 * dropped; work of the GPU counts for the first window that is open. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "detect/clock.h"
#include "detect/features.h"
#include "detect/keys.h"
#include "detect/regimes.h"
#include "detect/usual.h"

#define WINDOWS_NEVER	  UINT64_MAX
#define WINDOWS_KEYS	  8   /* of a window: those with the most time beyond what is usual */
#define WINDOWS_LEAST	  8   /* known events that a share or a spread needs */
#define WINDOWS_LEAST_SUM 3   /* and a sum of times: of long calls a window has few */
#define WINDOWS_COVERED	  600 /* windows that one event may cover */
#define WINDOWS_PROCESSES 4096

struct window_key {
	uint32_t key;
	uint64_t calls;
	double total_ns, usual_ns; /* of these calls: more_ns = total - usual, and gaps' */
	double gap_ns, usual_gap_ns;
};

/* What a row was made of, for explanations. Valid during the callback. */
struct window_detail {
	uint64_t events, known; /* known: of a key that has a baseline */
	double total_ns;	/* of outermost calls with a baseline */
	double usual_ns;	/* NaN: there are none */
	double gap_ns, usual_gap_ns;
	double device_ns, usual_device_ns; /* of spans of the GPU */
	uint64_t errors;
	const struct window_key *keys; /* the most excess first */
	uint32_t keys_len;
};

/* What an event came to, for those who mark events. */
struct windows_event {
	uint64_t start_ns, dur_ns;
	uint32_t key, pid, tid;
	enum detect_layer layer;
	bool saves; /* a part of saving a checkpoint */
	struct usual_z usual;
};

/* An event when its key and the time before it are known: all that a windows of the same keys needs
 * to take it again (windows_again). */
struct windows_input {
	uint64_t end_ns, lasted_ns;   /* the second also where that is not its true duration: */
	uint64_t duration_ns, gap_ns; /* USUAL_NONE */
	uint32_t key, previous;	      /* the second where there is a gap, else it may be 0 */
	uint32_t pid;
	uint32_t size; /* as in struct detect_keyed */
	bool device, outermost, failed;
};

struct windows_options {
	uint64_t window_ns;
	uint64_t late_ns; /* WINDOWS_NEVER: all windows are handed out at the end */
	struct detect_keys *keys;
	struct usual *usual;
	struct regimes *regimes; /* NULL: every regime is 0 */
	bool learn;		 /* each event is handed to usual_learn as well */
	bool learn_only;     /* and is not judged: rows have no numbers, mixes and work are told */
	bool without_keys;   /* what a row is made of is told without its keys */
	bool new_regimes;    /* may be made */
	bool without_gaps;   /* features of gaps are NaN */
	uint32_t keys_known; /* keys with higher numbers are no usual work; 0: all are */
	/* What a model knows of the work; NULL: nothing. Kept by the caller. */
	const struct model_clock *clock;
	bool waits; /* waiting for the world is no part of the work: windows_wait */
	void (*row)(void *ctx, const struct feature_row *row, const struct window_detail *detail);
	/* Windows that start then are not handed out, and what ended in them is not counted or
	 * learned: it only ends the time before the next call. May be NULL. */
	bool (*left_out)(void *ctx, uint64_t start_ns);
	/* Each event that has a key, left out or not, for windows_again; may be NULL. */
	void (*input)(void *ctx, const struct windows_input *in);
	/* What was done in a window, for learning a clock; may be NULL. */
	void (*clocked)(void *ctx, const struct clock_window *window);
	/* What a process did in a window, after its rows; may be NULL. */
	void (*mix)(void *ctx, uint32_t pid, uint64_t start_ns, const struct work *work);
	void *ctx;
};

struct windows;
struct windows *windows_new(const struct windows_options *o);
void windows_free(struct windows *w);

/* true: it was counted, and *ret (may be NULL) says how. */
bool windows_call(struct windows *w, const struct detect_names *names, const struct m_call *c,
		  struct windows_event *ret);
bool windows_gpu_span(struct windows *w, const struct detect_names *names,
		      const struct m_gpu_span *s, struct windows_event *ret);
/* An event that another windows told as input, with the same keys, in the same order: comes to the
 * same as telling it the call or span. usual: against what is usual, NULL where that is not asked
 * for (learn_only). Not for windows that have a model (keys_known). */
void windows_again(struct windows *w, const struct windows_input *in, const struct usual_z *usual);
/* A thread waited. Where that was for the world (world.h), the time between calls is
 * shorter by it. Before calls that end later. */
void windows_wait(struct windows *w, const struct detect_names *names, const struct m_wait *wait);
/* A counter: of those of processes it takes how fast their CPUs were (cpu_speed.h), by which paces
 * are corrected. Before the window that it is of is handed out. */
void windows_counter(struct windows *w, const struct detect_names *names,
		     const struct m_counter *c);
/* All that ended before now_ns - late_ns has come. */
void windows_upto(struct windows *w, uint64_t now_ns);
/* Nothing more comes: hands out what is open. */
void windows_end(struct windows *w);
/* Calls of this thread come no more: what is known of it is forgotten. */
void windows_thread_gone(struct windows *w, uint32_t index);
/* A process's parent; 0 unknown. */
void windows_parent(struct windows *w, uint32_t pid, uint32_t parent);
/* Those that another knows, which forgets them. */
void windows_take_parents(struct windows *w, struct windows *from);
/* As was told; 0 unknown. */
uint32_t windows_parent_of(const struct windows *w, uint32_t pid);
/* The process has ended, and nothing of it comes any more: it is forgotten when its windows were
 * handed out. */
void windows_process_gone(struct windows *w, uint32_t pid);
/* Places for threads, used or free; processes that are known. */
size_t windows_threads(const struct windows *w);
size_t windows_processes(const struct windows *w);
/* Something is not told between the calls before and those that come. */
void windows_forget_threads(struct windows *w);
/* Numbers of rows mean something else from here on: another recording. After windows_end. */
void windows_forget_rows(struct windows *w);
uint64_t windows_late(const struct windows *w);

/* The number of the window that a time is in, and where it starts: windows begin at multiples of
 * their length on CLOCK_MONOTONIC. */
static inline uint64_t window_number(uint64_t time_ns, uint64_t window_ns)
{
	return time_ns / window_ns;
}
