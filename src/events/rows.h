/* rows.h - what a recording holds, as rows; the event view that everything right
 * of the pipeline reads, live or from a file.
 *
 * Strings are numbers into the recording's string table (0 = ""). Times are
 * CLOCK_MONOTONIC nanoseconds of the recorded host. A zeroed row is valid. */
#pragma once

#include <stdint.h>

#include "wire/shape.h"
#include "wire/stalls.h"
#include "wire/waits.h"

#define MODEL_MAX_ARGS 8

/* How an argument's 64 bits are to be read and shown. */
enum arg_type {
	ARG_TYPE_U64,
	ARG_TYPE_I64,
	ARG_TYPE_PTR,	/* shown in hexadecimal */
	ARG_TYPE_BYTES, /* a size in bytes */
	ARG_TYPE_BOOL,
	ARG_TYPE_STRING, /* a string number */
	ARG_TYPE_CODE,	 /* an index into the code table */
	ARG_TYPE_DIM3,	 /* three dimensions, packed: see dim3_x, _y, _z */
	ARG_TYPE_SHAPE,	 /* a tensor's sizes, packed: see shape_dims, shape_size */
};

/* CUDA's launch dimensions in 64 bits: x below 2^31, y and z below 2^16 (CUDA C++
 * Programming Guide, "Technical Specifications per Compute Capability"). */
static inline uint64_t dim3_pack(uint32_t x, uint32_t y, uint32_t z)
{
	return (uint64_t)(x & 0x7fffffff) | (uint64_t)(y & 0xffff) << 31 |
	       (uint64_t)(z & 0xffff) << 47;
}
static inline uint32_t dim3_x(uint64_t v)
{
	return v & 0x7fffffff;
}
static inline uint32_t dim3_y(uint64_t v)
{
	return v >> 31 & 0xffff;
}
static inline uint32_t dim3_z(uint64_t v)
{
	return v >> 47 & 0xffff;
}

/* One traced function (or USDT probe, or pair). Probe numbers are dense from 0. */
struct m_probe {
	uint32_t layer;	  /* string: "torch" */
	uint32_t name;	  /* string: "aten::linear" */
	uint32_t library; /* string: path as the traced process sees it */
	uint32_t symbol;  /* string: as in the library */
	uint8_t kind;	  /* enum site_action of wire/event.h: SITE_SPAN, SITE_INSTANT */
	uint8_t nargs;	  /* arguments, the return value included and last */
	uint8_t has_return;
	int8_t name_arg; /* argument whose value names the call (Python code, autograd node); -1 */
	uint32_t arg_names[MODEL_MAX_ARGS]; /* strings; "return" for the return value */
	uint8_t arg_types[MODEL_MAX_ARGS];  /* enum arg_type */
	uint32_t arg_enums[MODEL_MAX_ARGS]; /* strings: type in the enum table, "" = plain number */
	uint32_t role; /* string: what the call is to the analyses, "launch"; see docs/catalog.md */
	uint32_t stack_every; /* one call in so many, by chance, has its stack; 0 = none has */
};

/* A named value of an enumeration: "CUresult", 2, "CUDA_ERROR_OUT_OF_MEMORY". */
struct m_enum {
	uint32_t type; /* string */
	uint32_t name; /* string */
	int64_t value;
};

struct m_process {
	uint32_t pid;
	uint32_t parent_pid;
	uint32_t comm;	   /* string */
	uint32_t command;  /* string: the executable's path; arguments are not kept */
	uint64_t start_ns; /* when tracing of it began */
	uint64_t end_ns;   /* 0 while it runs */
	int32_t exit_code; /* as wait(2); meaningful when end_ns is set */
	int32_t rank;	   /* -1 unknown */
	uint32_t source;   /* of a merged recording: index into the source table */
	uint8_t joined;	   /* it ran its program before tracing of it began */
	uint64_t cpu_ns;   /* CPU time of all its threads since start_ns, until its end or that of
			    * the recording; 0 unknown */
	uint32_t script;   /* string: what its interpreter runs, "train.py"; "" none */
	double cpu_limit;  /* so many CPUs at once its cgroup may use; 0 = as many as there are */
};

/* A recording that was merged into this one. Times of its rows were moved by shift_ns. In a
 * merged recording a pid that two sources have is made unique: see src/merge. */
struct m_source {
	uint32_t path; /* string */
	uint32_t host; /* string */
	int64_t shift_ns;
	uint64_t error_ns;  /* the shift is right within this; UINT64_MAX = nothing bounds it */
	uint32_t pid_shift; /* was added to its pids and tids */
	uint32_t
		how; /* string: what the shift comes from, "collectives", "realtime", "same boot" */
	double drift_ratio; /* shift_ns is that of the source's beginning; it grew by this */
};

struct m_thread {
	uint32_t pid;
	uint32_t tid;
	uint32_t comm; /* string */
};

/* An executable mapping of a process. */
struct m_map {
	uint32_t pid;
	uint64_t start;
	uint64_t end;
	uint64_t file_offset;
	uint32_t path;	   /* string */
	uint32_t build_id; /* string: hexadecimal, "" when the file has none */
	uint64_t time_ns;  /* when it was seen */
};

/* A Python function: names the calls whose name_arg is ARG_TYPE_CODE. */
struct m_code {
	uint32_t name; /* string: qualified name where the version has one */
	uint32_t file; /* string */
	uint32_t line; /* first line */
};

/* One traced call. */
struct m_call {
	uint64_t start_ns;
	uint64_t dur_ns;
	uint32_t thread; /* index into the thread table */
	uint32_t probe;
	uint8_t flags; /* enum call_flags of wire/event.h */
	uint8_t depth; /* traced calls open on the thread when it began, at most 255 */
	uint8_t nargs;
	uint8_t pad;
	uint32_t stack;		       /* index into the stack table, 0 = not taken */
	uint64_t args[MODEL_MAX_ARGS]; /* by the probe's arg_types; unused ones 0 */
};

enum frame_kind {
	FRAME_NATIVE, /* of a program or library */
	FRAME_PYTHON,
	FRAME_KERNEL, /* of the operating system */
	FRAME_CUT,    /* stands at the root of a stack that is not whole: name is the reason */
	FRAME_OWN,    /* probes at work: what the kernel does for them is no part of the job */
};

/* The library of frames in code that was made while the program ran. */
#define LIBRARY_OF_MADE_CODE "JIT"

/* A place in code; rows are written when it is first met, native and kernel ones again when
 * its name was found. Numbers are dense from 0. */
struct m_frame {
	uint8_t kind;	   /* enum frame_kind */
	uint8_t in_python; /* native: of the file that holds a Python interpreter */
	uint32_t name;	   /* string: demangled function or qualified name; 0 = not found */
	uint32_t file;	   /* string: source file, 0 unknown */
	uint32_t line;	   /* 0 unknown; Python: the line being run */
	uint32_t library;  /* string: path of the binary */
	uint32_t build_id; /* string */
	uint64_t address;  /* virtual address in the binary, or in the kernel */
	uint8_t guessed;   /* native: its caller was found without call frame information */
};

/* A stack is a leaf of this tree: number, then its parent's, up to 0. Number 0 is no stack;
 * a parent's number is smaller than its children's. */
struct m_stack {
	uint32_t parent; /* the caller: index into this table, 0 = this frame is the root */
	uint32_t frame;	 /* index into the frame table */
};

enum sample_kind {
	SAMPLE_CPU,    /* weight_ns of running, as the clock ticks */
	SAMPLE_OFFCPU, /* weight_ns of not running, which ended at time_ns */
};

/* What a thread did at a moment, and the time that the moment stands for. */
struct m_sample {
	uint64_t time_ns;
	uint64_t weight_ns;
	uint32_t thread;
	uint32_t stack; /* index into the stack table, 0 = not taken */
	uint8_t kind;	/* enum sample_kind */
	uint8_t reason; /* enum wait_reason of wire/waits.h, of SAMPLE_OFFCPU */
	uint32_t waker; /* string: comm of the thread that woke it, 0 unknown */
	uint32_t waker_tid;
};

/* A wait of a thread that was long: from when it left its CPU until it had one again. The last one
 * of a thread may not have ended. */
struct m_wait {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t runnable_ns; /* the end of it: the thread could run, and had no CPU */
	uint32_t thread;
	int32_t syscall;    /* number, -1 = none */
	uint32_t waker_pid; /* 0: an interrupt, or not known */
	uint32_t waker_tid;
	uint8_t reason; /* enum wait_reason of wire/waits.h */
	/* The process that had its CPU while it could run; of WAIT_STOPPED: that stopped it. 0 =
	 * not known. */
	uint32_t rival_pid;
	uint32_t rival; /* string: what that calls itself */
	/* Of who had its CPU: string, its cgroup's path; the leader of its process group, where
	 * that is the thread's own the ancestor that started it, and a string, what that calls
	 * itself. 0 = not known. */
	uint32_t rival_cgroup;
	uint32_t rival_leader_pid;
	uint32_t rival_leader;
};

/* All waits of a thread for one reason, short ones too. Key: thread, reason. */
struct m_wait_total {
	uint32_t thread;
	uint8_t reason;	   /* enum wait_reason */
	uint64_t since_ns; /* what the thread did between these is either in one of its totals, */
	uint64_t until_ns; /* or was running; the latest of its totals says how far */
	uint64_t count;
	uint64_t waited_ns;	     /* until it was woken */
	uint64_t runnable_ns;	     /* from then on, or since it was preempted, until it ran */
	uint64_t longest_ns;	     /* both, of one wait */
	uint64_t left_out;	     /* waits that were long, and have no row */
	uint32_t cpus;		     /* that the thread may run on, as of until_ns; 0 unknown */
	uint64_t uninterruptible_ns; /* of waited_ns: in state D of ps(1) */
};

/* Time in which a thread had a CPU, and the kernel did what its program had not asked for, of some
 * length. */
struct m_stall {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t own_ns; /* of that: the thread had its CPU, and it is in no other stall */
	uint32_t thread;
	int32_t number; /* by kind, as wire/stalls.h says: an interrupt's line, a softirq's number
			 */
	uint32_t name;	/* string: "NET_RX", "virtio0-input.0"; "" none */
	uint32_t cpu;
	uint8_t kind;	     /* enum stall_kind of wire/stalls.h */
	uint32_t sender_pid; /* of NET_RX: the process whose packets it was about, 0 = not known */
	uint32_t sender;     /* string: what that calls itself */
};

/* All such time of a thread, short ones too. Key: thread, kind, number. */
struct m_stall_total {
	uint32_t thread;
	uint8_t kind;	/* enum stall_kind */
	int32_t number; /* as above; STALL_OTHER_LINES: interrupts of more lines than are told apart
			 */
	uint32_t name;	/* string */
	uint64_t since_ns; /* all between these is in it */
	uint64_t until_ns;
	uint64_t count;
	uint64_t total_ns;   /* of m_stall's own_ns */
	uint64_t longest_ns; /* likewise */
	uint64_t left_out;   /* that were long, and have no row */
};

/* What a process had a disk do in a while, a second mostly: requests that ended then. Of all
 * processes of the host, for they share the disk. */
struct m_disk_io {
	uint64_t since_ns;
	uint64_t until_ns;
	uint32_t disk; /* string: "vda" */
	uint32_t pid;  /* of a thread of the kernel its tid */
	uint32_t comm; /* string */
	uint64_t reads;
	uint64_t writes;
	uint64_t flushes; /* of the disk's own memory to what it keeps */
	uint64_t read_bytes;
	uint64_t written_bytes;
	uint64_t read_ns; /* from when the disk was told until it had done it, summed up */
	uint64_t write_ns;
	uint64_t flush_ns;
	uint64_t queued_ns;  /* of all: from when they were made until the disk was told */
	uint64_t longest_ns; /* with the disk, of one */
};

enum gpu_work {
	WORK_KERNEL,
	WORK_COPY,
	WORK_SET,
	WORK_SYNC,  /* a wait: of the host, or of a stream for an event. See gpu_sync_kind */
	WORK_GRAPH, /* a whole CUDA graph, where its nodes are not recorded one by one */
};

/* What a WORK_SYNC waited for: CUpti_ActivitySynchronizationType. */
enum gpu_sync_kind {
	SYNC_EVENT = 1,	   /* the host, for an event */
	SYNC_STREAM_EVENT, /* a stream, for an event: starts and ends when the host asked for it */
	SYNC_STREAM,	   /* the host, for a stream */
	SYNC_CONTEXT,	   /* the host, for all streams */
};

/* Where a copy's bytes are: CUpti_ActivityMemoryKind. */
enum gpu_memory_kind {
	MEMORY_UNKNOWN,
	MEMORY_PAGEABLE,
	MEMORY_PINNED,
	MEMORY_DEVICE,
	MEMORY_ARRAY,
	MEMORY_MANAGED,
};

/* What a GPU did, as CUPTI tells; times are on the host's clock. */
struct m_gpu_span {
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t pid;
	int32_t device; /* CUDA's number in the process */
	uint32_t context;
	uint32_t stream;      /* CUPTI's number of it */
	uint32_t correlation; /* the same for all that one call of the driver or runtime started */
	uint32_t name;	      /* string: mangled kernel name; of copies and sets "" */
	uint8_t work;	      /* enum gpu_work */
	uint8_t copy_kind;    /* CUpti_ActivityMemcpyKind; of a WORK_SYNC its gpu_sync_kind */
	uint64_t bytes;	      /* of copies and sets */
	uint64_t graph_node;  /* 0 = not of a graph */
	uint64_t grid, block; /* of kernels, as dim3_pack; 0 unknown */
	uint32_t graph;	    /* of WORK_GRAPH and of nodes: CUPTI's number of the graph, 0 unknown */
	uint32_t registers; /* of kernels: a thread's */
	uint32_t shared_bytes; /* of kernels: a block's, static and dynamic */
	uint8_t source_kind;   /* of copies: enum gpu_memory_kind */
	uint8_t destination_kind;
	uint8_t async; /* of copies: the call did not wait */
	/* The driver's call that started it, as CUPTI saw it, inside of the one that is probed;
	 * zero where CUPTI could not be asked for calls of launches alone (before CUDA 12.8). */
	uint64_t called_ns;
	uint32_t called_dur_ns;
	uint32_t called_tid;
};

/* What counters are in; recordings hold these numbers: append only. */
enum metric_unit {
	UNIT_COUNT, /* a number, or nothing that its name tells */
	UNIT_BYTES,
	UNIT_NS,
	UNIT_RATIO,
	UNIT_BYTES_PER_S,
	UNIT_PER_S,
	UNIT_CELSIUS,
	UNIT_MHZ,
	UNIT_W,
	UNIT_J,
	METRIC_UNITS,
};

/* What counters are of (base/entity.h, whose numbers these are), which of its values they are, and
 * in what unit. No two rows are the same, but in a file that was made to have them. */
struct m_metric {
	uint8_t kind;	  /* enum entity_kind */
	uint8_t unit;	  /* enum metric_unit */
	uint32_t pid;	  /* of a process; of a GPU 0: all of it */
	uint32_t gpu;	  /* of a GPU: m_gpu.index, of its instances m_gpu.parent */
	int32_t instance; /* of an instance of a GPU: m_gpu.index; else -1 */
	uint32_t label;	  /* string: of an interface or another: its name */
	uint32_t host;	  /* string: in what was merged of several hosts */
	uint32_t name;	  /* string: "cpu_ratio"; its end is the unit */
};

/* A value over time. */
struct m_counter {
	uint64_t time_ns;
	uint32_t metric; /* index into the metric table */
	double value;
};

/* Histogram of one function in one process, from the kernel; counts since start. Its key
 * is (pid, probe, name). */
struct m_hist {
	uint32_t pid;
	uint32_t probe;
	uint64_t name; /* probes with a name_arg: that argument's value; else 0 */
	uint64_t count;
	uint64_t errors;
	uint64_t nested;
	uint64_t total_ns;
	uint64_t max_ns;
	uint32_t buckets[128]; /* layout: HIST_* in wire/event.h */
};

/* Losses by cause and CPU, totals since the start (later rows replace earlier ones). */
struct m_loss {
	uint32_t cause; /* string: a name of LOSS_NAMES, or one of the pipeline's own */
	uint32_t cpu;
	uint64_t count;
};

/* Reason of a note: a library of the catalog is not there. */
#define NOTE_NOT_LOADED "not loaded by any traced process"

/* A library or symbol that was expected and is not traced, or only in part. */
struct m_note {
	uint32_t subject; /* string: "libtorch_cpu.so" */
	uint32_t reason;  /* string: one sentence */
	uint64_t time_ns;
};

/* A period in which a set of probes was on (bursts); none = always on. */
struct m_window {
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t layer; /* string, "" = all */
};

/* How long a probe was on, and not, where a budget turned it down (--budget); those without a row
 * were on all the time. Key: probe. */
struct m_coverage {
	uint32_t probe;
	uint64_t on_ns;
	uint64_t off_ns;
	uint32_t changes;  /* how often it was turned down, or up again */
	uint8_t in_bursts; /* it is on in bursts alone, as of the last row */
	uint8_t for_own;   /* the last time for eacgm's own budget, else for the jobs' */
};

/* A GPU, or an instance of one (MIG). Key: uuid; what changes comes as counters. */
struct m_gpu {
	uint32_t index;	 /* NVML's; of an instance: within its GPU */
	int32_t parent;	 /* of an instance the index of its GPU, else -1 */
	uint32_t uuid;	 /* string */
	uint32_t name;	 /* string: "NVIDIA H200" */
	uint32_t bus_id; /* string: PCI, "00000000:00:06.0" */
	uint32_t driver; /* string: version */
	uint64_t memory_bytes;
	double power_limit_w;
	uint64_t seen_ns;     /* when it was first seen */
	uint64_t gone_ns;     /* when it vanished, 0 = is there */
	uint32_t host;	      /* string: in what was merged of several hosts */
	int32_t gpu_instance; /* of a MIG instance: NVML's number of its GPU instance, else -1; 0 in
				 files that do not have it */
};

/* A communicator (NCCL) in one process. Key: pid, handle, start_ns. */
struct m_comm {
	uint32_t pid;
	int32_t rank;	 /* -1 unknown */
	int32_t size;	 /* ranks in it, 0 unknown */
	int32_t device;	 /* CUDA device number in the process, -1 unknown */
	uint64_t handle; /* as calls carry it */
	uint64_t hash;	 /* the same on all ranks, 0 unknown; see src/pipeline/comms.c */
	uint64_t parent; /* handle of the communicator it was split from, or 0 */
	uint64_t start_ns;
	uint64_t end_ns; /* when it was destroyed, 0 = lives */
};

/* A TCP connection of a process, and what went over it as long as it was watched. Key: pid,
 * source, destination, netns, first_ns. */
struct m_connection {
	uint32_t pid;	      /* of those that have it open, the one that was seen first */
	uint32_t source;      /* string: "10.0.0.1:4791", "[fe80::1]:4791", its own end */
	uint32_t destination; /* string */
	uint32_t opener;      /* string: comm of the thread that connected or accepted it, ""
			       * unknown: it was there before */
	uint64_t netns;	      /* inode number of its network namespace */
	uint64_t first_ns;    /* when it was first seen */
	uint64_t last_ns;     /* when the figures below were read */
	uint64_t closed_ns;   /* 0 = is open */
	/* All since the connection was made. */
	uint64_t bytes_sent;	      /* payload, each byte once */
	uint64_t bytes_received;      /* payload, in order */
	uint64_t bytes_retransmitted; /* payload that was sent again */
	uint64_t retransmits;	      /* segments that were sent again */
	uint64_t sent_before;	      /* bytes_sent and bytes_received before tracing began */
	uint64_t received_before;
	uint32_t srtt_us; /* smoothed round-trip time, 0 unknown */
	uint8_t by_nccl;  /* 1: NCCL's code connected it, or listened for it */
};

/* Something that happened to something: an Xid error of a GPU. */
struct m_event {
	uint64_t time_ns;
	uint32_t entity; /* string: "gpu 0" */
	uint32_t name;	 /* string: "xid" */
	uint32_t text;	 /* string: "79: GPU has fallen off the bus" */
};

#define MODEL_ANOMALY_FEATURES 4
#define MODEL_ANOMALY_CALLS    6

/* Something that was not normal, told while it was recorded (src/incident/anomaly.h): when it was
 * found, and again when it had ended. */
struct m_anomaly {
	uint64_t id; /* from 1 on, of one run */
	uint64_t start_ns, end_ns;
	uint64_t told_ns; /* end of the window that it was found by */
	uint32_t layer;	  /* string: "torch" */
	uint32_t name;	  /* string: the function, counter or phase that did most */
	uint32_t why;	  /* string: one sentence */
	uint32_t pid;	  /* 0: of the host or a GPU */
	int32_t gpu;	  /* -1 none */
	uint32_t windows;
	uint8_t ended;
	double p_value, score, lost_ns; /* NaN unknown */
	/* What made it so, the most first; a name of 0: there are no more. */
	uint32_t feature_names[MODEL_ANOMALY_FEATURES];
	uint32_t feature_units[MODEL_ANOMALY_FEATURES]; /* strings */
	double feature_values[MODEL_ANOMALY_FEATURES], feature_usuals[MODEL_ANOMALY_FEATURES];
	double feature_shares[MODEL_ANOMALY_FEATURES];
	/* Calls with the most time beyond what is usual, likewise. */
	uint32_t call_keys[MODEL_ANOMALY_CALLS]; /* strings */
	uint64_t call_counts[MODEL_ANOMALY_CALLS];
	double call_mean_ns[MODEL_ANOMALY_CALLS], call_usual_ns[MODEL_ANOMALY_CALLS];
	double call_more_ns[MODEL_ANOMALY_CALLS];
};

#define MODEL_INCIDENT_TEXTS  4
#define MODEL_INCIDENT_OWNERS 6

/* Anomalies of one process and time, with why, told while it was recorded: a later one of its
 * number knows more. */
struct m_incident {
	uint64_t id;		   /* from 1 on, of one run */
	uint64_t onset_ns, end_ns; /* of its unusual windows so far */
	uint64_t told_ns;	   /* end of the window that it was found by */
	uint64_t caused_ns;	   /* when the cause that it has was known; 0: it is not */
	uint32_t pid;		   /* whose time it was */
	uint8_t ended;
	uint8_t beside; /* it came to another row of this number, in whose cost it is, too */
	uint32_t cause, runner_up; /* strings: "cpu_contention"; 0 none */
	uint32_t what;		   /* string: "CPU contention by stress (4242)" */
	uint32_t against;	   /* string: a sentence against the runner-up; 0 none */
	uint32_t culprit;	   /* string: what that process calls itself; 0 none */
	uint32_t culprit_pid;
	uint32_t culprit_kind; /* string: "process", "cgroup"; 0 none */
	uint32_t culprit_name; /* string: of a cgroup, a device, an interrupt, a call; 0 none */
	uint32_t culprit_function, culprit_file; /* strings: of a line; 0 none */
	uint32_t culprit_line;
	uint32_t culprit_rank; /* 1 more than that of a straggler; 0: not known, or none */
	uint32_t why;	       /* string: why that rank was late, "slow_code"; 0 not known */
	double confidence;     /* 0 to 1 */
	double cost_ns, usual_ns, unexplained_ns;
	uint32_t evidence[MODEL_INCIDENT_TEXTS]; /* strings: sentences */
	/* Who had most of the cost, the most first; a name of 0: there are no more. */
	uint32_t owners[MODEL_INCIDENT_OWNERS]; /* strings: "could run, but stress (4242) had the
						   CPU" */
	double owner_ns[MODEL_INCIDENT_OWNERS];
	uint32_t culprit_cgroup; /* string: the path of the cgroup that a process is in; 0 none */
	/* Where the victim lost most: strings, the phase of its steps, a function of Python and its
	 * file; 0 not known. */
	uint32_t victim_phase, victim_function, victim_file;
	uint32_t victim_line;
};

/* Key and value about the recording: host, kernel, command, realtime offset, options. */
struct m_meta {
	uint32_t key;
	uint32_t value;
};
