/* session_impl.h - the insides of a session, shared by the files that implement it. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "session/own_cost.h"
#include "session/session.h"
#include "collect/collector.h"
#include "collect/sockets.h"
#include "pipeline/pipeline.h"

/* Where a GPU is on the bus: Xid errors are told by that. */
struct seen_gpu {
	uint32_t index;
	unsigned domain, bus, device;
};

struct session {
	const struct session_options *opts;
	struct tracer *tracer;
	struct parser_host *readers; /* where files of others are read */
	struct rec_writer *writer;   /* the pipeline's own */
	struct pipeline *pipeline;
	struct debuginfod *debuginfod; /* NULL: no servers are asked */
	int signal_fd;		       /* of what asks for the end */
	struct collector *procfs;
	struct launch launch;
	pids_t live; /* targets that have not ended */
	bool had_targets;
	VEC(const char *) enums; /* whose names are in the recording */

	pthread_t mover;
	bool mover_runs;
	pthread_t syncer;
	bool syncer_runs;
	atomic_bool stop_mover;
	atomic_bool begun;     /* from here on the recording has its name */
	bool named;	       /* the mover's own */
	uint64_t stacks_taken; /* of frequent calls, as of the last flush; the mover's own */
	unsigned stack_shift;
	uint64_t counted_calls; /* in the kernel's histograms; the mover's own */
	atomic_bool write_failed;
	struct err write_error; /* set before write_failed */

	struct collector *gpu; /* session_gpu.c's, under gpu_lock until its thread runs */
	pthread_mutex_t gpu_lock;
	VEC(pid_t) gpu_pids; /* to be watched once NVML is open */
	pthread_t gpu_thread;
	bool gpus_asked;
	pthread_cond_t gpu_wake;
	bool stop_gpu;	    /* under gpu_lock */
	bool gpu_abandoned; /* under gpu_lock: its thread hangs in the driver, and goes on
			     * holding this struct */
	bool xid_traced;
	bool saw_gpu;
	uint64_t gpu_sample_ns;
	VEC(struct seen_gpu) gpus; /* under gpu_lock */

	bool watches_hangs;	     /* session_hangs.c's, of the control thread */
	VEC(bool) collective_probes; /* by probe id */

	struct sockets *sockets; /* session_sockets.c's, of the control thread; NULL: not watched */
	size_t sockets_next;
	bool sockets_failed; /* was told */

	struct live *looker; /* session_live.c's; NULL: nobody looks */

	atomic_bool ops_told;	    /* a process tells its operators: their probes may go */
	atomic_bool launches_told;  /* likewise; set before ops_told */
	bool ops_switched;	    /* the control thread's */
	struct gpu_spans *spans;    /* session_spans.c's, under spans_lock */
	pthread_mutex_t spans_lock; /* of the mover and the attacher */
	struct attacher *attacher;  /* session_attach.c's; NULL: a command has its shim */
	uint64_t spans_drained_ns;
	struct err spans_error; /* why there is no timeline, to be told */

	uint64_t start_ns;
	bool timeline_came; /* to the processes that were there at the beginning, or it does not */
	struct own_cost own_cost; /* since the start */
	uint64_t start_cpu_ns; /* what the start has taken, before there was anything to record */
	uint64_t follow_ns;    /* when all was attached: -d counts from here */
	bool probes_on;	       /* bursts */
	uint64_t switched_ns;  /* when they last went on or off */
	int interrupts;
	uint64_t interrupted_ns;
	bool stop;
	bool guard_failed;
	bool child_ended;
	int child_status;
};

/* session_events.c: what the tracer tells goes to the pipeline. */
struct tracer_events session_events(struct session *s);
void session_watch_pid(struct session *s, pid_t pid);
void session_unwatch_pid(struct session *s, pid_t pid);

/* session_mover.c: the threads that move records into the recording, and it to the disk. */
int mover_start(struct session *s, struct err *e);
void mover_stop(struct session *s);

/* session_gpu.c: the thread that asks the GPUs. */
void gpus_start(struct session *s);
void gpus_stop(struct session *s);
/* What the driver says of an error, put to the GPU it names. */
void gpus_xid(struct session *s, const struct rec_xid *xid);
void gpus_watch_pid(struct session *s, pid_t pid, bool watched);

/* session_spans.c: what the GPU did. Before the command is forked, and after. */
void spans_prepare(struct session *s);
void spans_prepared(const struct session *s);
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

/* session_sockets.c: TCP connections of the processes. */
void sockets_start(struct session *s);
void sockets_sample(struct session *s);
void sockets_told(struct session *s, const struct rec_socket *row);
void sockets_stop(struct session *s);

/* session_live.c: who looks at the rows as they come. pass: the mover's; stop: after its end. */
int live_start(struct session *s, double probe_ns_each, struct err *e);
void live_pass(struct session *s, uint64_t begin_ns);
void live_stop(struct session *s);

/* "eacgm: SENTENCE" on standard error, or to who asked for it. */
void session_say(const struct session *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* What the recording says of its own making: at the start, and at the end. */
void session_write_metas(struct session *s, double probe_ns_each);
void session_write_end(struct session *s);
