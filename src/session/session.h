/* session.h - one recording in progress: tracer, pipeline and collectors wired together,
 * a thread that moves records, and the loop that follows processes. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "session/launch.h"
#include "probe/attach.h"
#include "probe/catalog.h"
#include "probe/tracer.h"
#include "recording/recording.h"
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

struct session_live;

#define DURATION_MOST_NS 10000000000000000ULL /* ten million seconds */

struct session_options {
	const char *output;	   /* NULL: nothing is kept */
	struct output_owner owner; /* of the recording */
	const struct catalog *catalog;
	const struct target *target;
	uint32_t layers;
	bool frequent; /* also entries of high cost */
	bool all_entries;
	enum trace_mode mode[LAYER_COUNT];
	enum attach_method method;
	bool without_guard;
	bool stacks;	 /* calls carry their stacks as the catalog says */
	bool allocators; /* also the allocators above the driver's, call by call */
	bool debuginfod; /* servers may be asked for symbols */
	bool waits;	 /* stacks where threads stop running */
	/* what the GPU did, through the CUPTI shim */
	enum gpu_timeline gpu_timeline;
	enum operator_source operators;
	uint32_t sample_hz;		 /* stacks at the CPU clock, 0 = none */
	char **command;			 /* NULL: the target's processes */
	const struct command_user *user; /* the command's */
	uint64_t duration_ns;		 /* 0 = until the end */
	uint64_t burst_on_ns;		 /* 0 = always on */
	uint64_t burst_period_ns;
	uint64_t max_bytes;
	const struct session_live *live; /* session_live.h: who looks at the rows; or NULL */
	const atomic_bool *stop;	 /* ends the session when it becomes true; or NULL */
	struct parser_host *readers; /* session_start_readers; NULL: the session starts its own */
	bool confined; /* the process has given up its privileges, before it had threads */
	/* What there is to say meanwhile, from any thread; NULL: standard error. */
	void (*say)(void *ctx, const char *sentence);
	void *say_ctx;
	const char *mode_text; /* for the recording's header */
	const char *target_text;
};

/* Where files of others are read, for a session of these options; to be called before privileges
 * are given up, and stopped (parser_host_stop) after the session. */
struct parser_host;
int session_start_readers(struct parser_host **ret, const struct session_options *opts,
			  struct err *e);

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
	bool left_running;  /* the command goes on without us */
	bool stopped_early; /* the disk or the size limit; e holds the sentence */
};

/* Records until the command ends, the time is over, or SIGINT/SIGTERM. On failure before
 * the command was started there is no output file, and what was there before stays. */
int session_run(const struct session_options *opts, struct session_result *ret, struct err *e);
