/* session_impl.h - the insides of a session, shared by the files that implement it. Each part is
 * the file's that is named above it. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/nap.h"
#include "base/map64.h"
#include "session/budget.h"
#include "session/own_cost.h"
#include "session/running_cost.h"
#include "session/session.h"
#include "collect/call_rings.h"
#include "collect/collectors.h"
#include "pipeline/pipeline.h"
#include "pipeline/listeners.h"
#include "recording/segments.h"

/* session_command.c: what was forked, and has ended or not. */
struct session_command {
	struct launch launch;
	bool ended;
	int status;	 /* wait(2)'s, once it has ended */
	uint64_t cpu_ns; /* of it and what it waited for, likewise */
};

/* session_follow.c: the clock, and what goes by it. */
struct session_clock {
	int timer_fd;
	unsigned tick, stride; /* as many of them go by between two looks */
	uint64_t follow_ns;    /* when all was attached: a duration counts from here */
	bool timeline_came;    /* to the processes that were there first, or it does not */
	int burst_fd;	       /* of the next edge of a burst; -1: there are none */
	bool probes_on;	       /* calls are recorded: not so between bursts */
	bool places_on;	       /* or being put on */
	uint64_t switched_ns;  /* when recording of calls last went on or off */
	uint64_t switches, switching_ns, longest_switch_ns; /* what each took this thread */
	struct own_cost cost;				    /* since the start */
	uint64_t start_cpu_ns; /* taken before there was anything to record */
};

/* session_output.c: where the rows go. */
struct output {
	struct rec_writer *writer; /* the pipeline's own */
	struct segments *segments; /* NULL: there are none */
};

/* session_mover.c: the threads between rings, recording and disk. */
struct mover {
	pthread_t thread, syncer;
	bool runs, syncs;
	atomic_bool stop;
	bool last;		/* the pass is the one after stop; the mover's alone */
	struct nap pause;	/* ends with stop */
	atomic_bool begun;	/* from here on the recording has its name */
	bool named;		/* this and what follows: the thread's own */
	uint64_t stacks_taken;	/* of frequent calls, when they were last judged */
	unsigned stack_flushes; /* since then */
	unsigned stack_shift;
	uint64_t disks_ns;	       /* when disks were looked at last */
	uint64_t counted_calls;	       /* in histograms, the kernel's and those of processes */
	struct thresholds *thresholds; /* NULL: no layer has the mode `tail` */
	uint64_t learned_ns;	       /* when they were learned last */
	bool learns;		       /* they are in this flush */
	struct {
		atomic_uint_fast64_t calls, samples, gpu_spans, lost;
		atomic_uint segment;
	} progress; /* as of the last flush */
	atomic_bool failed;
	struct err error; /* set before failed */
};

/* session_hangs.c, of the control thread. */
struct hang_watch {
	bool on;
	VEC(bool) collectives; /* by probe id */
};

/* session_silence.c, of the control thread. */
struct asked_probe { /* of a --probe */
	uint32_t id;
	const struct cat_entry *entry;
	const char *symbol, *library; /* the tracer's */
};
struct silence {
	VEC(bool) told; /* by entry of the catalog: it has no place */
	bool told_no_place;
	bool in_vain; /* functions were asked for by name, and there is no probe */
	VEC(struct asked_probe) probes;
};

/* session_spans.c: what the GPU did. */
struct timeline {
	struct gpu_spans *rings;   /* under lock; NULL: there is no timeline */
	pthread_mutex_t lock;	   /* of the mover and the attacher */
	struct attacher *attacher; /* session_attach.c's; NULL: a command has its shim */
	uint64_t drained_ns;
	struct err error;	   /* why there is none, to be told */
	atomic_bool ops_told;	   /* a process tells its operators: their probes may go */
	atomic_bool launches_told; /* likewise; set before ops_told */
	bool ops_switched;	   /* the control thread's */
};

/* session_inside.c: calls that are told inside of processes. */
struct callers;
struct told_inside {
	struct call_rings *rings; /* under lock; NULL: the kernel has all probes */
	pthread_mutex_t lock;	  /* of the mover and who brings libraries */
	struct callers *callers;  /* session_calls.c; NULL: processes are the command's */
	char library[4096];
	uint64_t drained_ns;
	_Atomic uint64_t cost_ns; /* that calls have taken of the job so far */
	bool probes;		  /* some of what is told is of probes inside, */
	bool python;		  /* or of Python's interpreters */
	size_t silent;		  /* processes with probes that told nothing */
	struct err error;	  /* why there are none, to be told */
	struct err python_error;  /* likewise */
};

/* session_budget.c, of the control thread. */
struct budgeted_probe {
	uint64_t hits;
	const char *name;  /* the tracer's */
	bool moved;	   /* it is on in bursts alone */
	uint64_t since_ns; /* up to when it is in these: */
	uint64_t on_ns, off_ns;
	uint32_t changes;
};
struct session_budget {
	struct budget b;
	VEC(struct budgeted_probe) probes; /* as in b */
	struct map64 cpu_of;		   /* process -> what it had used at the last look */
	uint64_t looked_ns, told_ns;
	uint64_t burst_began_ns;
	double cost_ns, displacing_ns; /* so far, at the last look */
	double spent_ns, job_ns;       /* since the budget holds */
	uint64_t calls;		       /* that programs saw, at the last look */
	uint64_t whole_ns;	       /* since when all probes are on, 0: some are not */
	bool any_moved;
	bool bursts_on;
	bool raised; /* they are on around what happened, since */
	uint64_t raised_ns;
	double own_ns, switch_ns;  /* of eacgm's own, so far, at the last look */
	bool told_small;	   /* the own budget is less than what stays: said */
	pthread_mutex_t told_lock; /* of who looks at rows: */
	struct own_budget_view told_own;
	bool quiet; /* nothing was called between the last looks, and no look is due */
};

/* session_jobs.c's: which processes have counters, where not all do. */
struct jobs {
	VEC(char *) files;    /* that have probes, without their folders */
	pids_t changed;	      /* processes with new mappings since the last look */
	struct map64 counted; /* pids */
};

struct session {
	struct session_options options;
	const struct session_options *opts; /* these */
	struct tracer *tracer;
	struct parser_host *readers;   /* where files of others are read */
	struct debuginfod *debuginfod; /* NULL: no servers are asked */
	struct pipeline *pipeline;     /* NULL: what the tracer tells is for nobody */
	pthread_mutex_t tables_lock;   /* of the tracer's thread that tells tables: pipeline */
	struct collectors *collectors; /* of the control thread */
	atomic_bool saw_gpu;
	pids_t live;  /* targets that have not ended */
	pids_t ended; /* those that have, since the last sweep */
	bool had_targets;
	VEC(const char *) enums; /* whose names are in the recording */
	struct call_costs call_costs;
	struct err call_costs_error;	  /* why they are not known */
	_Atomic uint64_t running_cost_ns; /* so far: running_cost.h */
	_Atomic uint64_t holds, held_ns;  /* so far: tracer_holds */
	_Atomic uint64_t held_until_ns;	  /* what a budget has on is to stay so: session_live.h */
	_Atomic uint64_t raised_until_ns; /* what it has in bursts is to be on: likewise */
	_Atomic uint64_t raised_ns;	  /* when that was so last: likewise */
	uint64_t start_ns, end_ns;	  /* end: no call counts any more */
	bool started;
	bool guard_failed;
	atomic_bool stop_asked;
	enum session_end end;

	struct session_command command;
	struct session_clock clock;
	struct mover mover;
	struct hang_watch hangs;
	struct silence silence;
	struct timeline timeline;
	struct told_inside inside;
	pthread_mutex_t bringing; /* a library to a process: one at a time */
	struct session_budget budget;
	struct jobs jobs;
	struct output output;
	struct feed *feed;	    /* of what is looked at; NULL: nobody does */
	VEC(struct live *) lookers; /* session_live.c's */
};

/* session_calls.c: probes inside of processes that ran before. look: of the control thread; gone: a
 * process has ended; note: of the mover, now and then: what was called; stop: nobody is stopped any
 * more; leave: after the mover, all is taken off. */
void calls_open(struct session *s);
void calls_start(struct session *s);
void calls_look(struct session *s, unsigned tick);
void calls_note(struct session *s);
void calls_forked(struct session *s, pid_t parent, pid_t child);
void calls_gone(struct session *s, pid_t pid);
void calls_stop(struct session *s);
void calls_leave(struct session *s);
void calls_close(struct session *s);

/* session_events.c: what the tracer tells goes to the pipeline. */
struct tracer_events session_events(struct session *s);

/* session_targets.c: the processes. */
int targets_add(struct session *s, struct err *e);
/* fresh: it was forked just now. */
void session_watch_pid(struct session *s, pid_t pid, bool fresh);
void session_unwatch_pid(struct session *s, pid_t pid);
/* Takes note of ends that were not told, and leaves nothing in the kernel of what has ended. */
void targets_sweep(struct session *s);

bool session_is_watched(const struct session *s, pid_t pid);

/* session_jobs.c: of the control thread; nothing where all processes have counters. */
void jobs_probe(struct session *s, const char *library);
void jobs_maps(struct session *s, pid_t pid);
void jobs_look(struct session *s, unsigned tick);
/* Whether a process is a job; all that are watched are, but of a whole host. */
bool jobs_has(const struct session *s, pid_t pid);
void jobs_gone(struct session *s, pid_t pid);
void jobs_free(struct session *s);

/* session_rules.c: of the control thread; nothing where there are no rules. met: it is new to the
 * session, or runs another program since since_ns (CLOCK_MONOTONIC; 0: it is new); gone: it has
 * ended. */
void rules_met(struct session *s, pid_t pid, uint64_t since_ns);
void rules_forked(struct session *s, pid_t parent, pid_t child);
bool rules_leave_alone(const struct session *s, pid_t pid);
void rules_gone(struct session *s, pid_t pid);

/* session_command.c: from the fork to the end. */
int command_prepare(struct session *s, struct err *e);
int command_start(struct session *s, struct err *e);
void command_reap(struct session *s);
/* Ends one that was not let go. */
void command_close(struct session *s);

/* session_follow.c: what is done by the clock, until the end. */
void follow_begin(struct session *s);
/* How often it is looked: at each tick, or, where what is always on has no burst, each fourth. */
void follow_pace(struct session *s, bool burst);
void follow_tick(struct session *s);
void follow_end(struct session *s);
uint64_t session_cpu_ns(const struct session *s);
/* What the job has paid for probes until now, and for how many runs of our programs. */
void session_running_cost(const struct session *s, struct tracer_spending spent[SPENT_KINDS],
			  struct running_cost *ret);

/* session_budget.c: where the options have a budget. end: before the recording's last rows. */
bool session_has_budget(const struct session *s);
void session_budget_open(struct session *s);
void session_budget_tick(struct session *s, unsigned tick);
void session_budget_end(struct session *s);
/* From any thread. */
void session_budget_own(struct session *s, struct own_budget_view *ret);
void session_budget_close(struct session *s);

/* session_bursts.c: those of --burst. go_on: whatever is due; end: the window that is open. */
int bursts_open(struct session *s, struct err *e);
void bursts_begin(struct session *s); /* calls count from now on */
void bursts_go_on(struct session *s);
void bursts_end(struct session *s);
void bursts_close(struct session *s);

/* session_output.c: opens the pipeline too. */
int session_output_open(struct session *s, struct err *e);
/* The recording thread's: these two. */
int session_output_flush(struct session *s, struct err *e);
int session_output_name(struct session *s, struct err *e);
/* Of a thread that may wait. */
void session_output_sync(struct session *s);
int session_output_end(struct session *s, struct pipeline_stats *ret, struct err *e);
int session_output_close(struct session *s, struct err *e);

/* session_metas.c: what the recording says of its own making, at the start, and at the end. */
void metas_begin(struct session *s);
void metas_begin_segment(struct session *s);
void metas_end(struct session *s);
/* What was expected and not found. */
void metas_note_missing(struct session *s);

/* session_mover.c: the threads that move records into the recording, and it to the disk. */
int mover_start(struct session *s, struct err *e);
/* The mover's: so many were lost by a cause that is counted elsewhere, so far. */
void session_loss(struct session *s, const char *cause, uint64_t total);
void mover_stop(struct session *s);

/* session_collect.c: counters, events and rows of collectors go to the pipeline. stop: what they
 * and the kernel have to tell was told; close: they tell nothing any more. */
void collect_start(struct session *s);
void collect_stop(struct session *s);
void collect_close(struct session *s);

/* session_spans.c: what the GPU did. Before the command is forked: environment holds what its
 * processes are to have, and is the caller's. */
#define SPANS_VARIABLES 3
void spans_prepare(struct session *s, char **environment);
/* What went wrong until there was a recording. */
void spans_tell(struct session *s);
/* The mover's. finish: the processes hand over what they have; for the last time. */
void spans_drain(struct session *s, uint64_t now_ns);
/* The timeline follows the probes, in bursts. */
void spans_pause(struct session *s, bool pause);
void spans_finish(struct session *s);
void spans_losses(struct session *s);
/* Calls and operators that the shim had no room for. */
uint64_t spans_lost_calls(struct session *s);
void spans_close(struct session *s);
unsigned spans_options(const struct session *s);
/* The control thread's, now and then. */
void spans_switch_probes(struct session *s);

/* session_inside.c: before the command is forked, environment as of spans_prepare; what went wrong
 * until there was a recording; the mover's: drain says how many calls came. */
#define INSIDE_VARIABLES (2 + PYTHON_VARIABLES)
void inside_prepare(struct session *s, char **environment);
bool inside_is_on(const struct session *s);
/* The library that processes load; NULL: none is. */
const char *inside_library(const struct session *s);
void inside_tell(struct session *s);
size_t inside_drain(struct session *s);
void inside_finish(struct session *s);
/* What processes have counted; and what is a slow call there. */
void inside_histograms(struct session *s, void (*visit)(void *ctx, const struct hist_key *key,
							const struct hist_value *value));
/* Between bursts: the control thread's. */
void inside_rest(struct session *s, bool rests);
void inside_set_threshold(struct session *s, uint32_t probe, uint64_t ns);
void inside_losses(struct session *s);
/* Also looks at what they cost. */
uint64_t inside_lost_calls(struct session *s);
void inside_metas(struct session *s);
void inside_close(struct session *s);

/* session_python.c: calls of Python functions, which come in the same rings. prepare: environment
 * as above, behind what it has. */
#define PYTHON_VARIABLES 3
int python_check(const struct session_options *o, struct err *e);
void python_prepare(const struct session *s, char **environment);
/* Before any call comes. */
void python_begin(struct session *s);
void python_code(struct session *s, uint64_t id, const struct call_text *name,
		 const struct call_text *file, uint32_t line);
void python_metas(struct session *s, const struct call_rings_stats *st);

/* session_attach.c: the shim comes into processes that run. saw, gone: a process's mappings and its
 * end, of the control thread; stop: none is held or stopped any more, before the mover's end. */
void attacher_open(struct session *s, const char *shim);
void attacher_start(struct session *s);
void attacher_saw(struct session *s, pid_t pid, const proc_maps_t *maps);
void attacher_gone(struct session *s, pid_t pid);
/* A process that is new to it has its timeline in a moment, or a note why not. */
bool attacher_at_work(struct session *s);
/* The mover's: of processes that would launch a CUDA graph. */
void attacher_look(struct session *s);
void attacher_stop(struct session *s);
void attacher_close(struct session *s);

/* session_hangs.c: collectives that not all ranks enter. */
void hang_watch_start(struct session *s);
void hang_watch_probe(struct session *s, const struct probe_info *info);
void hang_watch_tick(struct session *s);
void hang_watch_free(struct session *s);

/* session_live.c: those who look at the rows as they come. pass: the mover's; stop: after its end.
 */
int live_start(struct session *s, struct err *e);
void live_pass(struct session *s, uint64_t begin_ns);
void live_stop(struct session *s);

/* True where every call of the layers with the traits is recorded, burst or not. */
bool session_records_calls(const struct session_options *o, unsigned layer_traits);

/* session_silence.c: says what of it that was asked for by name comes to nothing. begin: when all
 * that runs is attached; look: now and then; end: when every call has come. */
void silence_probe(struct session *s, const struct probe_info *info);
void silence_begin(struct session *s);
void silence_look(struct session *s);
void silence_end(struct session *s);
void silence_free(struct session *s);

/* session.c: of each CPU's ring; 0: as the tracer likes. */
uint32_t session_ring_bytes(const struct session_options *o, long cpus);
/* A sentence for who hosts the session. */
void session_say(const struct session *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
