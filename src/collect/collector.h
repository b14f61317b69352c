/* collector.h - a source of counters, events and rows about a host, its devices and the processes
 * that are watched.
 *
 * One file for each source, one line for each in registry.c. A source tells values and knows
 * nothing of where they go; it includes neither probes nor the pipeline. collectors.h runs them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/entity.h"
#include "base/error.h"
#include "base/layer.h"
#include "wire/event.h"

struct connection; /* collect/sockets.h */
struct gpu_info;   /* collect/nvml.h */
struct gpu_places; /* collect/gpu_places.h */

/* Where a collector runs. All pointers live as long as it is open. */
struct collect_env {
	const char *proc_root, *sys_root; /* "/proc", "/sys" but for tests */
	const char *nvml_library;	  /* NULL: where the dynamic linker finds it */
	const char *output;		  /* the recording; NULL: none is kept */
	struct gpu_places *gpu_places;	  /* what collectors of GPUs tell each other; or NULL */
	uint64_t period_least_ns;	  /* none is read more often; 0: as each has it */
	bool started;			  /* the watched processes were started by us */
	bool asked; /* layers were asked for by name: what does not open is worth a note */

	/* The kernel's side, by eBPF, for those that are not slow; NULL: there is none. */
	void *kernel;
	/* From here on records of a kind come (enum record_kind). -EOPNOTSUPP: this kernel has
	 * none. */
	int (*watch)(void *kernel, uint8_t record, struct err *e);
	/* Each connection that a process has, and each TCP socket that it listens at. */
	int (*sockets)(void *kernel, pid_t pid,
		       void (*visit)(void *ctx, const struct rec_socket *row), void *ctx,
		       struct err *e);
};

/* Where what a collector tells goes. Those that are NULL are not called; what is handed over lives
 * until the function returns. Use the functions below. */
struct collect_sink {
	void *ctx;
	/* A value of a thing; the name's end is its unit: "rss_bytes" (base/unit.h). */
	void (*counter)(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
			double value);
	void (*event)(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
		      const char *text);
	/* What cannot be told, and why; each once. */
	void (*note)(void *ctx, const char *subject, const char *reason);
	/* A GPU or instance appeared, something of it changed, or (present false) it is gone. */
	void (*gpu)(void *ctx, uint64_t time_ns, const struct gpu_info *info, bool present);
	void (*connection)(void *ctx, const struct connection *connection);
};

/* Functions that are NULL are not called. All but add_pid and del_pid of a slow one are called on
 * one thread. */
struct collector {
	const char *name;   /* what it tells of, as notes have it */
	unsigned layers;    /* enum layer_traits: it is opened when a layer that has one is traced;
			     * 0: always */
	uint64_t period_ns; /* between two reads; 0: it is not read */
	const char *slow;   /* a driver that it may hang in, so that it has a thread of its own;
			     * NULL: it answers at once */
	uint8_t record;	    /* enum record_kind: what the kernel tells it, where it is not
			     * slow; 0: nothing */

	/* *ret_state is freed by close. env and sink stay where they are until then. -EOPNOTSUPP:
	 * there is no such thing here, of which nobody needs to know. */
	int (*open)(void **ret_state, const struct collect_env *env,
		    const struct collect_sink *sink, struct err *e);
	/* A process is watched from now on (is_new: it begins now and has used nothing so far), or
	 * no longer. */
	void (*add_pid)(void *state, pid_t pid, bool is_new);
	void (*del_pid)(void *state, pid_t pid);
	void (*take_record)(void *state, const void *record);
	void (*read)(void *state, uint64_t now_ns);
	/* CPU time that all watched processes have used while they were watched. */
	uint64_t (*cpu_ns)(const void *state);
	void (*close)(void *state);
};

static inline void sink_counter(const struct collect_sink *s, uint64_t time_ns,
				const struct entity *of, const char *name, double value)
{
	if (s->counter)
		s->counter(s->ctx, time_ns, of, name, value);
}

static inline void sink_event(const struct collect_sink *s, uint64_t time_ns,
			      const struct entity *of, const char *name, const char *text)
{
	if (s->event)
		s->event(s->ctx, time_ns, of, name, text);
}

static inline void sink_note(const struct collect_sink *s, const char *subject, const char *reason)
{
	if (s->note)
		s->note(s->ctx, subject, reason);
}
