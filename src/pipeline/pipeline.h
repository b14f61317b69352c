/* pipeline.h - from raw records to rows of a recording: decode and check once, resolve
 * names, keep order per thread, count every loss.
 *
 * Two threads: one passes records (pipeline_record, _pass_end, _flush), any other may
 * define probes, maps, processes and counters at any time. What is defined is known to
 * every record that is passed later. Knows nothing of BPF's maps or links. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/entity.h"
#include "base/error.h"
#include "parser/parser.h"
#include "recording/recording.h"
#include "symbolize/proc_maps.h"
#include "wire/disk_io.h"
#include "wire/event.h"

struct pipeline;
struct debuginfod;

/* What the 64 bits of an argument in a raw record are. */
enum raw_arg {
	RAW_PLAIN,
	RAW_STRING, /* number of a REC_STRING */
	RAW_CODE,   /* number of a REC_PYCODE */
	RAW_VTABLE, /* address in a vtable: resolved to the class's name */
	RAW_TEXT,   /* number of a REC_TEXT: used once */
	RAW_KERNEL, /* handle of a CUDA kernel: resolved to its name */
};

#define MAX_FACTORS 3

struct pipeline_probe {
	uint32_t id; /* what records carry */
	const char *layer, *library, *symbol;
	char *name;   /* "import {name}": the argument that names the call stands in it */
	uint8_t kind; /* enum site_action */
	uint8_t nargs;
	bool has_return;
	int8_t name_arg;
	const char *arg_names[MAX_ARGS];
	uint8_t arg_types[MAX_ARGS];	 /* enum arg_type */
	uint8_t arg_raw[MAX_ARGS];	 /* enum raw_arg */
	const char *arg_enums[MAX_ARGS]; /* enumeration that names the values, or NULL */
	const char *role;		 /* what the call is to the analyses, or NULL */
	bool by_callback;		 /* told by others too: pipeline_op, pipeline_launch */
	uint32_t stack_every;		 /* one call in so many has its stack, 0 = none */
	/* An argument "bytes" is added, the product of these; a value of an enumeration stands
	 * for its bytes. None when nfactors is 0. */
	uint8_t nfactors;
	struct pipeline_factor {
		int8_t arg; /* negative: the number */
		uint32_t value;
	} factors[MAX_FACTORS];
};

/* Takes the writer over: it is closed with the pipeline. proc_root: "/proc". readers: who answers
 * readers.h's operations, longer than the pipeline lives; NULL: nothing in files has a name. */
struct pipeline *pipeline_new(struct rec_writer *w, const char *proc_root,
			      const struct parser_service *readers);

/* Before anything is passed: at the end, symbols of stripped files may come from servers. */
struct pipeline_servers {
	struct debuginfod *debuginfod; /* lives longer; NULL: none is asked */
	int stop_fd;		       /* readable: no more is asked */
	void (*say)(void *ctx, const char *sentence);
	void *ctx;
};
void pipeline_ask_servers(struct pipeline *p, const struct pipeline_servers *servers);

/* Likewise: who names an address of the running kernel as it prints it (kernel_symbol_parse);
 * false: who cannot. Called by the recording thread. Without it /proc/kallsyms is read. */
struct pipeline_kernel {
	bool (*name)(void *ctx, uint64_t address, char *ret, size_t size);
	void *ctx;
};
void pipeline_ask_kernel(struct pipeline *p, const struct pipeline_kernel *kernel);

/* Likewise: ranks that do not enter a collective that others wait in are told, as events of the
 * recording and, from the recording thread, to tell. Needs every call of the layer recorded. */
void pipeline_watch_hangs(struct pipeline *p, void (*tell)(void *ctx, const char *sentence),
			  void *ctx);

/* Likewise, for what runs for days and keeps nothing: processes are forgotten some time after their
 * end, not only their threads and mappings, and caches that have grown are dropped. */
void pipeline_forget_ended(struct pipeline *p);

/* How much of stacks the pipeline knows: numbers of what it has forgotten are met no more. */
struct stack_bounds {
	uint32_t stacks; /* of a generation, of which there are two */
	uint32_t nodes;	 /* of the tree of stacks; likewise */
	uint32_t frames; /* likewise; of a recording in all */
};
/* keeps_nothing: pipeline_forget_ended. */
const struct stack_bounds *pipeline_stack_bounds(bool keeps_nothing);

/* Likewise, of a session on all of a host: processes that make no traced call are not told, nor
 * what their threads waited for, ran, or were interrupted by. */
void pipeline_tell_jobs_alone(struct pipeline *p);

/* Where jobs alone are told: the process is none since since_ns (CLOCK_MONOTONIC; 0: at any time),
 * whatever calls of it come; a job that it was has ended then. alone false: it may be one again.
 * Its children are as it is. From any thread, before the record of the exec that made it so. */
void pipeline_leave_alone(struct pipeline *p, pid_t pid, bool alone, uint64_t since_ns);

/* After that: rows that only a recording's readers look at have their texts all the same, but those
 * of connections, for a listener who makes recordings of them. The writer's max_string_bytes
 * bounds them. */
void pipeline_keep_texts(struct pipeline *p);

/* Likewise: any process may tell calls (pipeline_told_call), and those that come otherwise wait for
 * these from the first on. */
void pipeline_await_told(struct pipeline *p);

/* ---- from any thread; strings are copied ---- */
void pipeline_define_probe(struct pipeline *p, const struct pipeline_probe *probe);
/* A named value of an enumeration; bytes: what it stands for takes so many, or 0. */
void pipeline_define_enum(struct pipeline *p, const char *type, int64_t value, const char *name,
			  uint32_t bytes);
/* Takes the maps (emptied). build_ids: one per map, malloc'ed array of malloc'ed strings. seen_ns:
 * when they were read, of CLOCK_REALTIME. */
void pipeline_define_maps(struct pipeline *p, pid_t pid, proc_maps_t *maps, char **build_ids,
			  uint64_t seen_ns);
/* A file whose rules have a number, which stacks name its places by from now on. m: as one of the
 * processes has it mapped. fd: taken over, -1 = the vDSO, or one that has to be opened by its name.
 */
void pipeline_define_table(struct pipeline *p, uint32_t table, const struct proc_map *m,
			   const char *build_id, int fd);
void pipeline_task(struct pipeline *p, const struct rec_task *task);
void pipeline_process(struct pipeline *p, pid_t pid); /* a target from the start */
/* What a process that still runs has used as recording ends. cpu_ns: as process_cpu_ns(). */
void pipeline_process_used(struct pipeline *p, pid_t pid, uint64_t cpu_ns);
void pipeline_note(struct pipeline *p, const char *subject, const char *reason);
void pipeline_meta(struct pipeline *p, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* of: of this host. */
void pipeline_counter(struct pipeline *p, uint64_t time_ns, const struct entity *of,
		      const char *name, double value);
/* How long fixed work took on the CPUs of a process, in the mean since it was told last. */
void pipeline_fixed_work(struct pipeline *p, uint64_t time_ns, pid_t pid, double ns);
/* gpu's strings are numbers nowhere yet: they are given as text. */
struct pipeline_gpu {
	struct m_gpu row;
	const char *uuid, *name, *bus_id, *driver;
};
void pipeline_gpu(struct pipeline *p, const struct pipeline_gpu *gpu);
/* Something that happened: entity "gpu 0", name "xid". */
void pipeline_event(struct pipeline *p, uint64_t time_ns, const char *entity, const char *name,
		    const char *text);
/* A row of a kind of ROW_LISTED that was made elsewhere: its fields that are strings are numbers of
 * texts, from 1 on. */
void pipeline_row(struct pipeline *p, enum row_kind kind, const void *row, const char *const *texts,
		  size_t n);
/* Replaces what was told of the same connection; strings are given as text. */
struct pipeline_connection {
	struct m_connection row;
	const char *source, *destination, *opener;
};
void pipeline_connection(struct pipeline *p, const struct pipeline_connection *connection);
/* A call that is open (tracer_open_calls), while the recording thread runs. */
void pipeline_open_call(struct pipeline *p, const struct rec_call *call);
/* A wait that has not ended (tracer_open_waits), likewise. */
void pipeline_open_wait(struct pipeline *p, const struct rec_sample *sample);
/* A collective that is open (tracer_open_calls): it is watched, not recorded. */
void pipeline_open_collective(struct pipeline *p, const struct rec_call *call);
/* Whether these are asked for now: a communicator is quiet. */
bool pipeline_asks_open_collectives(const struct pipeline *p);
void pipeline_window(struct pipeline *p, uint64_t start_ns, uint64_t end_ns);

/* ---- from the recording thread ---- */
/* What a process had a disk do. */
void pipeline_disk_io(struct pipeline *p, const struct disk_io *d);
/* One raw record as it comes from a ring; bad ones are counted, never trusted. */
void pipeline_record(struct pipeline *p, const void *record, size_t len);
/* All rings were emptied once: resolves and hands on what came. */
void pipeline_pass_end(struct pipeline *p);
void pipeline_loss(struct pipeline *p, const char *cause, uint32_t cpu, uint64_t total);
/* Calls that found no room in a ring so far, looked up now and then; where there are more than at
 * the look before, both go into the counter lost_calls of "eacgm": when they were lost. */
void pipeline_lost_calls(struct pipeline *p, uint64_t time_ns, uint64_t total);
/* The recording's string of a kernel's name, for spans. */
uint32_t pipeline_gpu_name(struct pipeline *p, const char *text, size_t len);
/* What the GPU did; called_* are filled in where the process tells calls. */
void pipeline_gpu_span(struct pipeline *p, const struct m_gpu_span *span);
/* From here on the process tells the driver's calls too. */
void pipeline_gpu_tells_calls(struct pipeline *p, uint32_t pid);
/* A call of the driver that handed work to a GPU. */
struct pipeline_gpu_call {
	uint64_t start_ns, end_ns;
	uint32_t pid, tid;
	uint32_t correlation;
	uint32_t function; /* CUpti_driver_api_trace_cbid */
};
void pipeline_gpu_call(struct pipeline *p, const struct pipeline_gpu_call *call);
/* The number of an operator's or a node's name for pipeline_op; 0: no probe of them is on. */
uint32_t pipeline_op_name(struct pipeline *p, bool node, const char *text, size_t len);
struct pipeline_op {
	uint64_t start_ns, end_ns;
	int64_t sequence; /* of nodes */
	uint32_t pid, tid;
	uint32_t name;
	uint8_t depth; /* operators and nodes around it */
};
/* A launch that CUPTI told: a call of the driver, as its probe would see it. */
struct pipeline_launch {
	struct pipeline_gpu_call call;
	uint64_t kernel, stream; /* handles */
	uint64_t grid, block;	 /* as dim3_pack */
	uint32_t shared_bytes;
	uint32_t result; /* CUresult */
	uint8_t depth;
};
void pipeline_launch(struct pipeline *p, const struct pipeline_launch *launch);
/* An operator that PyTorch told. The calls of its thread wait for the operators that they are in
 * or have called: until pipeline_ops_upto has passed their end. */
void pipeline_op(struct pipeline *p, const struct pipeline_op *op);
void pipeline_ops_upto(struct pipeline *p, uint32_t pid, uint64_t ns);
/* A call that a probe inside its process told (wire/call_ring.h); waits as pipeline_op's do. mark:
 * of its stack, of which the record comes before the end of the pass; 0: it has none. */
void pipeline_told_call(struct pipeline *p, const struct rec_call *call, uint32_t mark);
/* What a Python function is that such calls have as an argument of RAW_CODE. id: no REC_PYCODE's.
 */
struct told_code {
	uint64_t id;
	const char *name, *file; /* any bytes */
	size_t name_len, file_len;
	uint32_t line;
};
void pipeline_told_code(struct pipeline *p, const struct told_code *code);
/* From any thread: operators that end before come from probes. UINT64_MAX: all do. */
void pipeline_ops_from(struct pipeline *p, uint64_t ns);
/* All that there was has come: spans wait for no calls any more. */
void pipeline_gpu_end(struct pipeline *p);
/* All histograms, before each flush. last: what has no name will get none any more. */
void pipeline_histogram(struct pipeline *p, const struct hist_key *key,
			const struct hist_value *value, bool last);
/* Of one that a process counted: its name as the kernel's programs have it. False: what it means by
 * the name has not come yet. */
bool pipeline_told_name(struct pipeline *p, struct hist_key *key, bool last);
int pipeline_flush(struct pipeline *p, struct err *e);

/* Whether a call of the probe came; id: what records carry, below pipeline_probes. Of the recording
 * thread, or once it has ended. */
uint32_t pipeline_probes(const struct pipeline *p);
bool pipeline_was_called(const struct pipeline *p, uint32_t id);

struct pipeline_stats {
	uint64_t calls;
	uint64_t samples;
	uint64_t chance_stacks; /* calls whose stack was taken by chance */
	uint64_t gpu_spans;
	uint64_t bytes;
	uint64_t lost; /* what is not in the recording, by all causes, as of the last flush */
	struct rec_writer_stats written; /* what the recording has of these */
};
void pipeline_stats(const struct pipeline *p, struct pipeline_stats *ret);

/* Flushes everything and ends the recording: what is told after it is for nobody. */
int pipeline_end(struct pipeline *p, struct err *e);

/* Ends it, where that was not done, closes the recording, frees. */
int pipeline_close(struct pipeline *p, struct err *e);
