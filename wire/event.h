/* event.h - the records that BPF programs and user space share, and nothing else.
 *
 * Included by bpf/ (with its own kernel types) and by src/ (after <linux/types.h>).
 * Every struct has a fixed size, checked below; fields are only ever appended and
 * enum values never change their number. Times are CLOCK_MONOTONIC nanoseconds. */
#pragma once

#include <linux/types.h>

#include "wire/stalls.h"
#include "wire/unwind.h"
#include "wire/waits.h"

/* Layers are numbers here, below this power of two; src/base/layer.h says what they are. */
#define LAYERS_MAX 32

/* What a probe site does when it is hit. */
enum site_action {
	SITE_SPAN,    /* function: entry and return */
	SITE_INSTANT, /* one moment */
	SITE_BEGIN,   /* first half of a pair (USDT foo__start) */
	SITE_END,     /* second half of a pair */
};

/* How much is kept of a call; per layer, may change while tracing. */
enum trace_mode {
	MODE_TRACE, /* every call */
	MODE_TAIL,  /* histogram, and each call slower than the probe's threshold */
	MODE_STATS, /* histogram only */
};

/* The cookie of a probe site: probe number, action, layer, arguments, flags. */
#define COOKIE_PROBE(c)	  ((__u32)(c))
#define COOKIE_ACTION(c)  ((__u8)((c) >> 32) & 0x3f)
#define COOKIE_LAYER(c)	  ((__u8)((c) >> 40))
#define COOKIE_NARGS(c)	  ((__u8)((c) >> 48) & 0x3f)
#define COOKIE_STEPPED(c) ((c) >> 54 & 1)     /* the kernel single-steps the instruction */
#define COOKIE_STACK(c)	  ((c) >> 55 & 1)     /* its calls may have their stacks taken */
#define COOKIE_FLAGS(c)	  ((__u8)((c) >> 56)) /* call_flags that every call of the probe has */
#define COOKIE_MAKE(probe, action, layer, nargs, flags)                                            \
	((__u64)(probe) | (__u64)(action) << 32 | (__u64)(layer) << 40 | (__u64)(nargs) << 48 |    \
	 (__u64)(flags) << 56)
#define COOKIE_IS_STEPPED (1ULL << 54)
#define COOKIE_WITH_STACK (1ULL << 55)
/* A high bit of the action: not of processes that tell such calls themselves, TARGET_TELLS_INSIDE.
 */
#define COOKIE_TOLD_INSIDE (1ULL << 38)

/* Values of the map `targets`, bits. */
#define TARGET_IS_TRACED    1
#define TARGET_TELLS_INSIDE 2

/* Values of the map `excluded`: a bit for each layer whose calls are left out; with all of them, or
 * with the bit above, nothing of the process is traced. */
#define EXCLUDED_LAYERS 0xffffffffULL
#define EXCLUDED_UNSAFE (1ULL << LAYERS_MAX) /* return probes would harm it */

#define MAX_PROBES	     16384
#define TIMES_LEFT	     16 /* bpf/state.h: times_left_ns */
#define HITS_STRIPES	     16 /* counters of a probe (bpf/hits.h) */
#define HITS_KEY(cpu, probe) (((cpu) % HITS_STRIPES) * MAX_PROBES + ((probe) & (MAX_PROBES - 1)))
#define MAX_ARGS	     8	 /* arguments of one probe, the return value included */
#define MAX_OPEN_CALLS	     128 /* traced calls open at once on a thread */
/* Pending return probes the kernel allows a task; a call that is deeper has no return: its end is
 * bounded by what follows it. */
#define MAX_RETURNS  64
#define STRING_BYTES 128  /* longest string argument kept; longer ones are cut and counted */
#define TEXT_BYTES   4096 /* longest text argument, its NUL included */
#define UID_BYTES    128  /* NCCL_UNIQUE_ID_BYTES of nccl.h */

/* Where an argument comes from and what it is. */
enum arg_source {
	ARG_REG,   /* index: 0..5, the System V integer argument registers */
	ARG_STACK, /* index: 0.., stack arguments after the return address; or ARG_CALLER */
	ARG_RETURN,
};
#define ARG_CALLER 255 /* the slot before the first: the return address itself */
enum arg_fetch {
	FETCH_VALUE,	 /* size bytes of the (dereferenced) value */
	FETCH_CSTRING,	 /* NUL-terminated characters at the value */
	FETCH_PYSTRING,	 /* CPython str object at the value */
	FETCH_CXXSTRING, /* libstdc++ std::string object at the value */
	FETCH_PYCODE,	 /* frame object or interpreter frame at the value: its code object */
	FETCH_TEXT,	 /* as CSTRING, up to TEXT_BYTES, in a record of its own each time */
	FETCH_XYZ,	 /* three 32-bit arguments from here on, packed as model.h's dim3 */
	FETCH_DIM3,	 /* the same of a struct of three: by value, or in memory when nderef */
	FETCH_COUNT,	 /* how many calls of this group had this value before */
	FETCH_UID,	 /* UID_BYTES at the place (or pointer) itself: their hash */
	FETCH_SHAPE,	 /* sizes of a PyTorch tensor, packed as wire/shape.h says */
};
struct arg_desc {
	__u8 source; /* enum arg_source */
	__u8 index;
	__u8 fetch; /* enum arg_fetch */
	__u8 size;  /* 1, 2, 4 or 8 bytes of the value */
	__u8 is_signed;
	__u8 nderef;	/* how many pointers to follow first, 0..3 */
	__u8 at_return; /* read when the call returns, from the value saved at entry */
	__u8 layout;	/* FETCH_PY*: index into the Python layouts of the plan; COUNT: the group */
	__s32 deref[3]; /* offset added before each dereference */
	__u32 pad;
};
enum error_rule { ERROR_NONE, ERROR_NONZERO, ERROR_NEGATIVE, ERROR_NULL };
struct probe_desc {
	__u8 nargs;
	__u8 error_rule; /* what return value is an error */
	__u8 has_except; /* but not this one */
	__u8 keep;	 /* its calls are recorded in every mode: what they say is needed */
	__s32 error_except;
	__u8 begins; /* argument + 1 that is a new thing: counting (FETCH_COUNT) begins anew */
	__u8 pad[3];
	__u32 stack_chance; /* a call's stack is taken when a random number is at most this; 0 =
			       never */
	struct arg_desc args[MAX_ARGS];
};

/* Offsets in one build of CPython; see src/symbolize/cpython.h for their sources. */
struct py_layout {
	__u16 frame_code;	/* frame -> code object */
	__u16 code_firstlineno; /* int */
	__u16 code_filename;	/* str */
	__u16 code_name;	/* str */
	__u16 code_qualname;	/* str, 0 where the version has none */
	__u16 str_length;
	__u16 str_state; /* u32: bits 2..4 kind, bit 5 compact, bit 6 ascii (see cpython.h) */
	__u16 str_ascii_data;
	__u16 str_compact_data;
	__u8 frame_code_tagged; /* low bits of the code pointer are tags (3.14) */
	__u8 state_kind_shift;
	__u8 state_ascii_shift;
	__u8 pad[5];
};

/* ---- ring buffer records ---- */
enum record_kind {
	REC_CALL = 1,
	REC_STRING = 2,
	REC_PYCODE = 3,
	REC_FORK = 4,
	REC_EXEC = 5,
	REC_EXIT = 6,
	REC_MAPS = 7,	/* the dynamic linker changed the mappings of a traced process */
	REC_UNWIND = 8, /* return addresses to exchange before a task goes on */
	REC_TEXT = 9,
	REC_XID = 10,
	REC_STACK = 11,
	REC_SAMPLE = 12,
	REC_STALE = 13, /* a process has mappings that were not known: struct rec_task */
	REC_SOCKET = 14,
	REC_WAIT = 15, /* wire/waits.h */
	REC_WAIT_SUMS = 16,
	REC_STALL = 17, /* wire/stalls.h */
	REC_STALL_SUMS = 18,
	REC_MARK = 19,
	REC_TOLD_TEXT = 20,
	REC_UNREAD = 21,
	REC_RULES = 22,
};

enum call_flags {
	CALL_NESTED = 1,  /* another call of its layer was open on the thread */
	CALL_INSTANT = 2, /* a moment: no duration */
	CALL_OPEN = 4,	  /* had not returned when tracing stopped; dur is up to then */
	CALL_UNWOUND = 8, /* its return was not seen (exception, longjmp, deeper than MAX_RETURNS);
			   * dur is an upper bound; or up to when a budget took its place off */
	CALL_ARG_FAULT = 16, /* at least one argument could not be read */
	CALL_ARG_CUT = 32,   /* a string argument was longer than is kept */
	CALL_ERROR = 64,     /* the return value says so (the probe's error rule) */
	CALL_NAMED = 128,    /* args[0] names the call: histograms are kept per name */
};

struct rec_call {
	__u8 kind; /* REC_CALL */
	__u8 flags;
	__u8 depth; /* traced calls open on this thread when it began */
	__u8 nargs;
	__u32 probe;
	__u32 tgid;
	__u32 tid;
	__u64 start_ns;
	__u64 dur_ns;
	__u64 args[MAX_ARGS]; /* only nargs of them are in the record, rounded up (see calls.h) */
};
/* A record of this size has the number of the call's stack (rec_stack.id) after all arguments. */
struct rec_call_stack {
	struct rec_call call;
	__u64 stack;
};

struct rec_string {
	__u8 kind;    /* REC_STRING */
	__u8 fetch;   /* enum arg_fetch: how to decode the bytes */
	__u8 pystate; /* PYSTRING: bytes per character (1, 2, 4), 0x80 = ASCII */
	__u8 cut;
	__u32 len; /* bytes that follow */
	__u64 id;  /* what REC_CALL arguments hold */
	__u8 bytes[STRING_BYTES];
};

/* A C string in a page that was not in memory: user space reads it in the program's place. */
struct rec_unread {
	__u8 kind; /* REC_UNREAD */
	__u8 pad[3];
	__u32 tgid;
	__u64 id; /* as of rec_string */
	__u64 address;
};

struct rec_text {
	__u8 kind; /* REC_TEXT */
	__u8 cut;
	__u8 pad[2];
	__u32 len; /* without the NUL */
	__u64 id;  /* as of rec_string */
	__u8 bytes[TEXT_BYTES];
};

struct rec_pycode {
	__u8 kind; /* REC_PYCODE */
	__u8 cut;
	__u8 name_state; /* as pystate above */
	__u8 file_state;
	__u32 firstlineno;
	__u32 name_len;
	__u32 file_len;
	__u64 id;
	__u64 code; /* address in the process */
	__u32 tgid;
	__u32 pad;
	__u8 name[STRING_BYTES];
	__u8 file[STRING_BYTES * 2];
};

/* A file whose code was looked into, as the kernel tells it apart. */
struct known_file {
	__u64 device; /* super_block.s_dev */
	__u64 inode;
};

/* The values of known_files. */
enum known_as {
	KNOWN_FILE = 1,
	KNOWN_AWAITED, /* who maps it is held until user space has answered: calls of it carry
			* stacks, which are to be whole from the first one on */
	KNOWN_RULED,   /* who maps it is held until user space has answered since the program began:
			* rules say of whom its calls are recorded */
};

/* In the place of a time until which a task is held on. */
#define HOLD_REFUSED 1

/* What the programs found of the files whose code a process has mapped. */
enum task_known {
	TASK_UNKNOWN,	    /* one that is to be looked into, or they could not tell */
	TASK_KNOWN,	    /* all were looked into before */
	TASK_KNOWN_DYNAMIC, /* likewise, and a dynamic linker is among them: it tells more soon */
};

struct rec_task { /* REC_FORK, REC_EXEC, REC_EXIT, REC_MAPS */
	__u8 kind;
	__u8 known; /* REC_EXEC, REC_MAPS: enum task_known */
	__u8 pad[2];
	__u32 tgid;
	__u32 tid;
	__u32 parent_tgid; /* REC_FORK: the parent */
	__u64 time_ns;
	__s32 exit_code;  /* REC_EXIT of the last thread: as wait(2) gives it */
	__u32 group_dead; /* REC_EXIT: 1 when the whole process ended */
	__u64 sequence;	  /* REC_MAPS: to be acknowledged; 0 = it was not held */
	__u64 cpu_ns;	  /* REC_EXIT: CPU time of the process, all its life */
	char comm[16];
};

struct rec_rules { /* a walk needs rows of a table that are not in the pool: wire/unwind.h */
	__u8 kind; /* REC_RULES */
	__u8 pad[3];
	__u32 tgid;
	__u32 table;
	__u32 page;
	__u64 sp; /* of the frame: what called it has its return addresses above */
};

struct rec_xid {
	__u8 kind; /* REC_XID */
	__u8 pad[3];
	__u32 code;
	__u64 time_ns;
	char bus[32];	/* PCI address as the driver writes it: "0000:00:06" */
	char text[256]; /* the driver's sentence */
};

enum socket_flags {
	SOCKET_NCCL = 1, /* NCCL's code connected it, or listened for it */
};

/* A TCP connection: as it stands, or (REC_SOCKET) as it was when its state changed. */
struct rec_socket {
	__u8 kind;   /* REC_SOCKET */
	__u8 state;  /* TCP_CLOSE: the last of it; TCP_LISTEN: it has nothing but queues */
	__u8 family; /* AF_INET, AF_INET6 */
	__u8 flags;  /* enum socket_flags */
	__u32 tgid;
	__u64 socket; /* names it as long as it lives */
	__u64 time_ns;
	__u32 netns; /* inode number */
	__u32 srtt_us;
	__u8 source[16]; /* of AF_INET the first four */
	__u8 destination[16];
	__u16 source_port; /* 0: it was given back already */
	__u16 destination_port;
	__u32 retransmits;  /* segments */
	__u64 bytes_sent;   /* payload, each byte once */
	__u64 bytes_resent; /* payload, what went out again */
	__u64 bytes_received;
	char opener[16]; /* comm of the thread that connected or accepted it, "" unknown */
	__u32 timeouts;	 /* of retransmission, modulo 2^16; 0 before Linux 6.7 */
	/* Bytes that the peer has not acknowledged, sent or not, and that the process has not read.
	 * Of TCP_LISTEN: how many connections may wait to be accepted, and how many do. */
	__u32 send_queue;
	__u32 receive_queue;
	__u32 reserved;
};
_Static_assert(sizeof(struct rec_socket) == 128, "shared by BPF and user space");

/* What the unwinder works on; it lies in the record since nothing else is as private. */
struct unwind_state {
	__u64 regs[UNWIND_REGISTERS];
	__u64 read[UNWIND_REGISTERS]; /* the part of the stack that was read last */
	struct unwind_rule rule;
	struct unwind_mapping mapping; /* the one met last */
	struct unwind_process process;
	__u64 returns;	  /* the kernel's return_instance that comes next */
	__u64 trampoline; /* where functions with a return probe return to */
	__u64 py_frame;	  /* the next frame of Python */
	__u64 py_run;	  /* PY_ENTRY_FLAG: the struct of the run that it is of */
	__u64 py_begin;	  /* of the run at hand: the first frame, and what the stack was before */
	__u64 py_begin_id;
	__u32 py_begin_frames;
	__s32 found;	 /* what look_up() said of the native frame at hand */
	__u64 frame_end; /* the CFA of the frame at hand, 0 = not known */
	__u32 known;	 /* bit for each register */
	__u8 exact;	 /* rip is where the frame stands, not where it returns to */
	__u8 guessed;	 /* the frame was found by the frame pointer */
	__u8 py_begun;
	__u8 in_python;	 /* amid a run's frames */
	__u8 amid_entry; /* the leaf may stand in an instruction that the kernel emulates */
	__u8 py_retried;
	__u8 in_exec;	/* amid execve(2): the old program's stack may be gone */
	__u8 by_guess;	/* the caller of the frame at hand has no better source */
	__u8 published; /* mapping is one that user space published */
	__u8 recalled;	/* mapping and rule are of the frame at hand, from before */
	__u8 pad[2];
};

struct rec_stack {
	__u8 kind;   /* REC_STACK */
	__u8 end;    /* enum stack_end */
	__u8 python; /* enum stack_python */
	__u8 where;  /* bits: enum stack_where */
	__u32 tgid;
	__u64 id;     /* a hash of all of it: the same stack has the same */
	__u32 frames; /* leaf first */
	__u32 kernel; /* how many of them are the kernel's: the first */
	__u64 frame[STACK_FRAMES];
	struct unwind_state state;
};

/* The stack of a call that its process tells (wire/call_ring.h). */
struct rec_mark {
	__u8 kind; /* REC_MARK */
	__u8 pad[3];
	__u32 tgid;
	__u32 tid;
	__u32 mark;  /* the thread's number of it */
	__u64 stack; /* rec_stack.id */
};

/* What a process means by a key, in the arguments of calls that it tells. */
struct rec_told_text {
	__u8 kind;  /* REC_TOLD_TEXT */
	__u8 flags; /* call_flags: CALL_ARG_* */
	__u8 pad[2];
	__u32 tgid;
	__u64 key;
	__u64 id; /* of a REC_STRING or REC_PYCODE, 0 = it could not be read */
};

struct rec_sample {
	__u8 kind;	/* REC_SAMPLE */
	__u8 is_wait;	/* weight is the time that the thread did not run, up to time_ns */
	__u8 preempted; /* it could have run */
	__u8 reason;	/* of waits: enum wait_reason, as far as no stack is needed */
	__s32 syscall;	/* of waits: the number, -1 = none */
	__u32 tgid;
	__u32 tid;
	__u64 time_ns;
	__u64 weight_ns;
	__u64 stack; /* rec_stack.id, 0 = not taken */
	__u32 waker_tid;
	__u32 pad2;
	char waker[16];
	char comm[16]; /* the thread's own */
};

#define UNWIND_SLOTS 64 /* as many pending return probes as the kernel allows a task */
struct rec_unwind {
	__u8 kind; /* REC_UNWIND */
	__u8 pad[3];
	__u32 count;
	__u32 pid;
	__u32 pad2;
	__u64 sequence; /* to be answered */
	struct {
		__u64 address;
		__u64 value;
	} slots[UNWIND_SLOTS];
};

/* Why something was not recorded; counted per CPU. */
enum loss_cause {
	LOSS_RING_FULL,	  /* the ring buffer had no room for a call */
	LOSS_STACK_FULL,  /* more than MAX_OPEN_CALLS traced calls open on a thread: not kept */
	LOSS_NO_STATE,	  /* no memory for a thread's state */
	LOSS_NO_RETURN,	  /* left without returning: kept, with an upper bound as duration */
	LOSS_ARG_FAULT,	  /* an argument could not be read: call kept */
	LOSS_ARG_CUT,	  /* a string argument was cut: call kept */
	LOSS_STRING_FULL, /* the table of string arguments is full: call kept, string not */
	LOSS_HIST_FULL,	  /* the table of histograms is full */
	LOSS_TASK_FULL,	  /* a fork, exec or exit record found no room */
	LOSS_LATE_ATTACH, /* a library ran before its probes were attached */
	LOSS_RETURN_UNMATCHED, /* a return whose entry was not seen (attached in mid-call) */
	LOSS_LATE_GUARD,       /* an exception was not prepared for in time (bpf/unwind.h) */
	LOSS_SIGNAL_STACK,     /* a call on an alternate signal stack: not kept, its return probe
				* would harm the job */
	LOSS_SAMPLE,	       /* a sample found no room */
	LOSS_STACK,	       /* a stack found no room: the sample or call is kept without it */
	LOSS_WAIT_STACK,       /* a wait is kept without its stack: the CPU had no time for it */
	LOSS_WAIT_JOINED, /* a wait is put together with others of its thread: its time is kept */
	LOSS_STALL,	  /* a stall is in no sum of its thread, or its last sums found no room */
	LOSS_DISK_IO, /* a request to a disk is in no sum: its end was not told, or there were too
			 many */
	LOSS_COUNT,
};
#define LOSS_NAMES                                                                                 \
	{                                                                                          \
		"ring_full", "stack_full", "no_state", "no_return", "arg_fault", "arg_cut",        \
			"string_full", "hist_full", "task_full", "late_attach",                    \
			"return_unmatched", "late_guard", "signal_stack", "sample", "stack",       \
			"wait_stack", "wait_joined", "stall", "disk_io"                            \
	}

/* Histograms of durations: four buckets an octave from 2^6 ns to 2^38 ns (wire/hist.h). */
#define HISTS_MAX      16384 /* of a session, by either way */
#define HIST_MIN_SHIFT 6
#define HIST_OCTAVES   32
#define HIST_BUCKETS   (HIST_OCTAVES * 4)
struct hist_key {
	__u32 tgid;
	__u32 probe;
	__u64 name; /* CALL_NAMED: args[0], else 0 */
};
struct hist_value {
	__u64 count;
	__u64 errors;
	__u64 total_ns;
	__u64 max_ns;
	__u64 nested;
	__u32 buckets[HIST_BUCKETS];
};

/* What programs did for traced tasks, per CPU: bpf/spending.h. */
enum spending_kind {
	SPENT_CALLS,   /* entries of functions */
	SPENT_STEPPED, /* likewise, on an instruction that the kernel single-steps */
	SPENT_RETURNS,
	SPENT_LOADS,	/* the dynamic linker came by; without what it was held */
	SPENT_TICKS,	/* of the CPU clock */
	SPENT_SWITCHES, /* of tasks, and wake-ups */
	SPENT_FORKS,
	SPENT_EXECS,
	SPENT_EXITS,
	SPENT_STALLS, /* interrupts and softirqs on them, memory that they had to free */
	SPENT_KINDS
};
struct spending {
	__u64 runs;
	__u64 timed; /* so many of them */
	__u64 timed_ns;
	__u64 skip; /* so many are not timed */
};

#ifndef __cplusplus
_Static_assert(sizeof(struct arg_desc) == 24, "arg_desc");
_Static_assert(sizeof(struct probe_desc) == 16 + 24 * MAX_ARGS, "probe_desc");
_Static_assert(sizeof(struct rec_call) == 32 + 8 * MAX_ARGS, "rec_call");
_Static_assert(sizeof(struct rec_task) == 64, "rec_task");
_Static_assert(sizeof(struct rec_rules) == 24, "rec_rules");
_Static_assert(sizeof(struct rec_xid) == 304, "rec_xid");
_Static_assert(sizeof(struct rec_unwind) == 24 + 16 * UNWIND_SLOTS, "rec_unwind");
_Static_assert(sizeof(struct hist_key) == 16, "hist_key");
#endif
