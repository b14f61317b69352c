/* gpu_ring.h - the file through which the CUPTI shim in a traced process (inject/) hands what
 * the GPU did to eacgm (src/collect/gpu_spans.c).
 *
 * One file per process, named after its pid, in the session's folder, which the environment
 * variable GPU_RINGS_ENV names. It is a header of GPU_RING_HEADER_BYTES and `bytes` bytes of
 * records, a ring: the record at position p lies at offset p modulo bytes. The producer alone
 * writes head, all else in its part, and records; the consumer alone tail, stop and pause. Records
 * lie in [tail, head); positions only grow. A record never crosses the end of the ring: a
 * GPU_RING_PAD fills what is left there. The file has its full length, with blocks behind it,
 * before the producer maps it: a write cannot fault.
 *
 * magic is written last, with what it covers visible. The consumer reads and writes by
 * pread(2) and pwrite(2) and trusts nothing: a number that was torn or forged costs records,
 * not more. A producer that finds no room counts the record and goes on; it never waits.
 *
 * eacgm holds a write lock (fcntl, F_OFD_SETLK) on the file GPU_RINGS_LOCK of the folder while it
 * runs. A producer that finds it unlocked or the folder gone ends its work. */
#pragma once

#include <linux/types.h>

#define GPU_RINGS_ENV  "EACGM_GPU_RINGS"
#define GPU_RINGS_LOCK "session"

/* What the shim is asked for: a number in the environment, or before the path of its ring, which
 * eacgm has made, and a space, where it came into a running process. */
#define GPU_OPTIONS_ENV	 "EACGM_GPU_OPTIONS"
#define GPU_ATTACH_ENTRY "eacgm_gpu_attach"
enum gpu_options {
	GPU_OPTION_GRAPHS = 1,	  /* graphs as wholes, not their nodes */
	GPU_OPTION_WAITS = 2,	  /* waits of the host and of streams, which are dear */
	GPU_OPTION_OPERATORS = 4, /* PyTorch's operators too */
	GPU_OPTION_LAUNCHES = 8,  /* and with them launches */
};

#define GPU_RING_MAGIC	      0x32555047474d4341ULL /* "ACMGGPU2" */
#define GPU_RING_HEADER_BYTES 4096
#define GPU_RING_MIN_BYTES    (1u << 16)
#define GPU_RING_MAX_BYTES    (1u << 26)

enum gpu_ring_state {
	GPU_RING_STARTING,
	GPU_RING_ON,
	GPU_RING_ENDED,	 /* all that CUPTI had was handed over */
	GPU_RING_FAILED, /* text says why */
};

/* What comes beside spans. */
enum gpu_ring_tells {
	GPU_RING_TELLS_CALLS = 1,
	GPU_RING_TELLS_OPERATORS = 2,
	GPU_RING_TELLS_LAUNCHES = 4, /* never without operators */
};

#define GPU_RING_MAX_OPERATORS 2048 /* names of operators and nodes */

struct gpu_ring_header {
	__u64 magic;
	__u64 bytes; /* of records: a power of two */
	__u32 pid;
	__u32 cupti_version; /* of cuptiGetVersion */
	__u8 pad0[40];

	/* the producer's */
	__u64 head;	  /* position after the last record */
	__u64 full;	  /* spans for which there was no room */
	__u64 dropped;	  /* records that CUPTI says it dropped */
	__u64 untimed;	  /* work whose times CUPTI could not tell */
	__u32 state;	  /* enum gpu_ring_state */
	__u32 tells;	  /* bits of enum gpu_ring_tells; grows before the first such record */
	__u64 full_calls; /* calls for which there was no room */
	__u64 lost_ops;	  /* operators, nodes and launches for which there was no room */
	__u8 pad1[8];
	char text[448]; /* CUPTI's path, or why there is none, or, once ended, what stays in the
			 * process; ends with a NUL */
	char why[64];	/* no operators are told; "" = they are, or there is no PyTorch */

	/* the consumer's */
	__u64 tail;  /* position up to which records were read */
	__u32 stop;  /* the producer is to end its work */
	__u32 pause; /* it is to record nothing for the time being */
	__u8 pad2[48];
	__u8 unwanted[GPU_RING_MAX_OPERATORS / 8]; /* bits by number: names to tell nothing of */
};
_Static_assert(__builtin_offsetof(struct gpu_ring_header, head) == 64, "a cache line each");
_Static_assert(__builtin_offsetof(struct gpu_ring_header, tail) == 640, "a cache line each");
_Static_assert(sizeof(struct gpu_ring_header) == 960, "shared with traced processes");

enum gpu_ring_kind {
	GPU_RING_PAD = 1,
	GPU_RING_NAME,
	GPU_RING_SPAN,
	GPU_RING_CALL,
	GPU_RING_OP_NAME,
	GPU_RING_OP,
	GPU_RING_OPS_UPTO,
	GPU_RING_LAUNCH,
};

struct gpu_ring_record {
	__u32 kind;  /* enum gpu_ring_kind */
	__u32 bytes; /* of the whole record, a multiple of 8 */
};

#define GPU_RING_NAME_BYTES (1u << 14) /* longer names are cut */

/* Comes before the first span that uses it; numbers are dense from 1. */
struct gpu_ring_name {
	struct gpu_ring_record record;
	__u32 number;
	__u32 len; /* of the text, which follows */
};
_Static_assert(sizeof(struct gpu_ring_name) == 16, "shared with traced processes");

struct gpu_ring_span {
	struct gpu_ring_record record;
	__u64 start_ns; /* CLOCK_MONOTONIC */
	__u64 end_ns;
	__u64 bytes;
	__u64 graph_node;
	__u32 device;
	__u32 context;
	__u32 stream;
	__u32 correlation;
	__u32 name;	/* 0 = none */
	__u8 work;	/* enum gpu_ring_work */
	__u8 copy_kind; /* of a GPU_RING_SYNC what was waited for */
	__u8 source_kind;
	__u8 destination_kind;
	__u32 grid[3], block[3];
	__u32 graph;
	__u32 shared_bytes;
	__u16 registers;
	__u8 async;
	__u8 pad[5];
};
_Static_assert(sizeof(struct gpu_ring_span) == 104, "shared with traced processes");

/* As enum gpu_work of recording/model.h. */
enum gpu_ring_work {
	GPU_RING_KERNEL,
	GPU_RING_COPY,
	GPU_RING_SET,
	GPU_RING_SYNC,
	GPU_RING_GRAPH,
};

/* A call of the driver that hands work to a GPU, by the clock of spans. It may come before or
 * after what it started, which has the same correlation number; a graph's nodes share one. */
struct gpu_ring_call {
	struct gpu_ring_record record;
	__u64 start_ns;
	__u64 end_ns;
	__u32 tid;
	__u32 correlation;
	__u32 function; /* CUpti_driver_api_trace_cbid */
	__u32 result;	/* CUresult */
};
_Static_assert(sizeof(struct gpu_ring_call) == 40, "shared with traced processes");

enum gpu_ring_operator_kind {
	GPU_RING_OPERATOR,
	GPU_RING_NODE, /* of a backward pass, with its hooks */
};

/* Of an operator or node, before the first that uses it. Numbers are below
 * GPU_RING_MAX_OPERATORS, in any order, and are not those of GPU_RING_NAME. */
struct gpu_ring_op_name {
	struct gpu_ring_record record;
	__u32 number;
	__u32 len;  /* of the text, which follows */
	__u32 kind; /* enum gpu_ring_operator_kind */
	__u32 pad;
};
_Static_assert(sizeof(struct gpu_ring_op_name) == 24, "shared with traced processes");

/* An operator or node that has ended: in the order of ends, for each thread. */
struct gpu_ring_op {
	struct gpu_ring_record record;
	__u64 start_ns; /* CLOCK_MONOTONIC */
	__u64 end_ns;
	__s64 sequence; /* of nodes: autograd's number; else -1 */
	__u32 tid;
	__u16 name;
	__u8 depth; /* operators and nodes around it, also of unwanted names */
	__u8 pad;
};
_Static_assert(sizeof(struct gpu_ring_op) == 40, "shared with traced processes");

/* A launch of a kernel that has returned. There is no GPU_RING_CALL of it. */
struct gpu_ring_launch {
	struct gpu_ring_record record;
	__u64 start_ns;
	__u64 end_ns;
	__u64 kernel; /* handle */
	__u64 stream; /* handle */
	__u32 grid[3], block[3];
	__u32 shared_bytes;
	__u32 tid;
	__u32 correlation;
	__u32 result;	/* CUresult */
	__u16 function; /* CUpti_driver_api_trace_cbid */
	__u8 depth;	/* as of gpu_ring_op */
	__u8 pad[5];
};
_Static_assert(sizeof(struct gpu_ring_launch) == 88, "shared with traced processes");

/* All that ended before has been told, or counted. */
struct gpu_ring_ops_upto {
	struct gpu_ring_record record;
	__u64 ns;
};
_Static_assert(sizeof(struct gpu_ring_ops_upto) == 16, "shared with traced processes");
