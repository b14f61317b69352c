/* session.h - a tracing session that any program can host: a tracer, its pipeline and collectors,
 * on processes that run or on a command that it starts.
 *
 * - session_prepare forks what needs the program's rights and is to have nothing of the session;
 * - session_open loads the programs;
 * - session_start attaches, or lets the command go;
 * - session_fds are for poll(2), then session_service, until session_ended says why;
 * - session_finish: all that was seen is in the recording, and the recording is whole;
 * - session_close takes the probes off.
 *
 * Knows no terminal, no signals and no environment: those are its host's. Several sessions can be
 * under way in one program, each of them in a thread of its host's at a time. Its own threads have
 * all signals blocked; a host that lives with a limit of file sizes ignores SIGXFSZ. Loading raises
 * the program's limits of descriptors and locked memory. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "session/job_rules.h"
#include "session/launch.h"
#include "probe/attach.h"
#include "probe/catalog.h"
#include "probe/tracer.h"
#include "recording/recording.h"
#include "recording/segments.h"
#include "session/target.h"

enum gpu_timeline {
	GPU_TIMELINE_OFF,
	GPU_TIMELINE_ON,
	GPU_TIMELINE_GRAPHS, /* graphs as wholes */
	GPU_TIMELINE_WAITS,  /* also what the host and streams waited for */
};

/* Where PyTorch's operators and nodes of backward passes come from. */
enum operator_source {
	OPERATORS_AUTO, /* callbacks where all operators are asked for, else probes */
	OPERATORS_PROBES,
	OPERATORS_CALLBACKS, /* of PyTorch, where the shim is in and knows them */
};

/* Who probes functions of the command's processes. */
enum probes_where {
	PROBES_KERNEL, /* uprobes alone */
	PROBES_INSIDE, /* code inside of the processes, where it can: docs/record.md */
	PROBES_AUTO,   /* PROBES_INSIDE of a command where nothing speaks against it, else KERNEL */
};

struct session_live;

#define DURATION_MOST_NS 10000000000000000ULL /* ten million seconds */

/* What it points to is the host's, and lives as long as the session. */
struct session_options {
	const char *output;			/* NULL: nothing is kept */
	const struct segments_limits *segments; /* NULL: the output is one file */
	struct output_owner owner;		/* of the recording */
	const struct catalog *catalog;
	const struct target *target;
	uint32_t layers;
	bool frequent; /* also entries of high cost */
	bool all_entries;
	enum trace_mode mode[LAYERS_MAX];
	enum attach_method method;
	bool without_guard;
	bool stacks;	    /* calls carry their stacks as the catalog says */
	bool allocators;    /* also the allocators above the driver's, call by call */
	bool callers;	    /* who asks the CUDA runtime for device memory is told, in every mode */
	bool debuginfod;    /* servers may be asked for symbols */
	bool waits;	    /* stacks where threads stop running */
	bool counts_stalls; /* with counts_waits: what the kernel takes of threads' time on CPUs */
	/* For what is there for days beside everything: rings of 32 MB in all, less often a look at
	 * processes and counters. */
	bool always_on;
	uint64_t counters_ns; /* counters are read no more often; 0: as each has it */
	/* Processes are told, and what their threads did, from their first call on; counters have
	 * those that have mapped what is probed. */
	bool jobs_alone;
	struct job_rules *rules; /* what of which process is traced; NULL: all of each */
	bool disk_io;		 /* what processes of the host have disks do */
	bool counts_waits;	 /* how long threads wait, and why: cheap */
	/* what the GPU did, through the CUPTI shim */
	enum gpu_timeline gpu_timeline;
	bool cupti_taken; /* another tool has the command's CUPTI: there is no timeline of it */
	enum operator_source operators;
	enum probes_where probes;
	/* Every call of a Python function, as the interpreters of the command's processes tell it:
	 * of files that one of the globs fits, and none of the others (wire/call_ring.h). */
	bool python_calls;
	const char *python_only, *python_skip; /* with commas between them; NULL: none */
	const char *preload;		 /* LD_PRELOAD that the command would have; NULL: none */
	uint32_t sample_hz;		 /* stacks at the CPU clock, 0 = none */
	char **command;			 /* NULL: the target's processes */
	const struct command_user *user; /* the command's */
	uint64_t duration_ns;		 /* 0 = until the end */
	uint64_t burst_on_ns;		 /* 0 = always on */
	uint64_t burst_period_ns;
	double budget;	       /* share of the job's CPU time that recording may cost, 0 = any */
	double own_budget;     /* cores that eacgm itself may take, 0 or 1 = any */
	bool judged;	       /* who looks compares: budget.h's steady */
	uint64_t max_bytes;    /* of a file, 0 = no limit */
	const char *btf_path;  /* the kernel's types; NULL: the running kernel's */
	uint32_t patience;     /* struct tracer_options */
	const char *nvml_path; /* NULL: the driver's */
	int hurry_fd;	       /* readable: nothing slow is waited for any more; 0: none */
	/* session_live.h: who looks at the rows, each on a thread of its own */
	const struct session_live *live;
	size_t nlive;
	bool live_texts; /* one of them makes recordings of rows: pipeline_keep_texts */
	/* What there is to say meanwhile, from any thread; NULL: nobody hears it. */
	void (*say)(void *ctx, const char *sentence);
	void *say_ctx;
	const char *mode_text; /* for the recording's header */
	const char *target_text;
};

struct session_result {
	int exit_status; /* of the command; 0 where there was none */
	uint64_t calls;	 /* in the recording, as all of these; where none is kept, seen */
	uint64_t samples;
	uint64_t gpu_spans; /* kernels, copies and sets */
	uint64_t bytes;	    /* 0: there is no file */
	uint64_t lost;	    /* calls, samples and stacks that are not in the recording */
	struct {	    /* of the lost: for a full disk, or the size limit */
		uint64_t calls, samples, gpu_spans;
	} unwritten;
	double duration_s;
	bool in_vain;	    /* functions were asked for by name, and no probe was attached */
	bool left_running;  /* the command goes on without us; its end is the host's to wait for */
	bool stopped_early; /* the disk or the size limit, or the guard; e holds the sentence */
};

enum session_end {
	SESSION_GOES_ON,
	SESSION_STOPPED,   /* session_stop */
	SESSION_TIME_OVER, /* the options' duration */
	SESSION_JOB_ENDED, /* the command and all that it started, or all targets */
	SESSION_CANNOT_WRITE,
	SESSION_GUARD_FAILED,
};

struct session;

/* Whether calls are to be told inside of processes, as far as the options say. */
bool session_asks_inside(const struct session_options *o);

/* Forks the command, which waits, the processes that read files of others and those that ask
 * servers. It needs root's rights; then the host may give up its own (privileges.h), while it has
 * one thread. On failure there is no session. */
int session_prepare(struct session **ret, const struct session_options *opts, struct err *e);

/* Loads the programs. After a failure of this or of session_start there is only session_close. */
int session_open(struct session *s, struct err *e);

/* Attaches to what runs, or lets the command go: from here on the recording has its name. On
 * failure there is no recording, and what lay there before stays. */
int session_start(struct session *s, struct err *e);

/* Of this moment. */
struct session_attached {
	size_t processes; /* that are traced */
	uint64_t places;  /* that have a probe */
};
void session_attached(const struct session *s, struct session_attached *ret);

/* What came so far, as of half a second ago; from any thread. */
struct session_progress {
	uint64_t calls, samples, gpu_spans, lost; /* as of the result */
	uint32_t segment;			  /* number of the one that is written, 0: none */
};
void session_progress(const struct session *s, struct session_progress *ret);

#define SESSION_FDS 4
/* What session_service is to be called for; asked before each poll(2). Their number. */
size_t session_fds(const struct session *s, struct pollfd ret[SESSION_FDS]);

/* Others than the options' budgets, of a session that was started with one of them; on the thread
 * that calls session_service. */
void session_set_budget(struct session *s, double budget, double own_budget);

/* Does what is due, at least 20 times a second: one of the descriptors is a clock. */
void session_service(struct session *s);
enum session_end session_ended(const struct session *s);

/* Asks for the end, from any thread. What session_service does next ends the session. */
void session_stop(struct session *s);

/* Once, of a session that was started. Where it was stopped early, e holds why. */
void session_finish(struct session *s, struct session_result *ret, struct err *e);

/* At any time after session_prepare. A command that was not let go ends. */
void session_close(struct session *s);
