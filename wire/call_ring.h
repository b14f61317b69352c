/* call_ring.h - what probes inside a process (inject/calls, libeacgm_calls.so) share with eacgm:
 * what eacgm writes into the process, and the file through which the process hands its calls out
 * (src/collect/call_rings.c). Calls of Python functions, which the interpreter itself tells
 * (inject/calls/python.c), go the same way.
 *
 * In the process. The library has CALL_SITES_MOST structs call_site, CALL_ISLANDS pieces of
 * CALL_ISLAND_BYTES of code, and a count of those in use, all of which eacgm alone writes, through
 * /proc/PID/mem, while nobody runs the code that is changed. A probed function keeps its first
 * bytes, up to and with the instruction that a uprobe would be put on; behind them stands a jump to
 * its island, which undoes what these bytes did, pushes r11, and goes to CALL_ENTRY with the site
 * in it.
 *
 * The file. One per process, named after its pid, in the session's folder, which the environment
 * variable CALL_RINGS_ENV names: a header of CALL_HEADER_BYTES, then CALL_THREADS_MOST slots of
 * CALL_SLOT_BYTES. A slot is one thread's at a time: struct call_slot, and from CALL_SLOT_HEADER on
 * a ring of records. The thread alone writes head, records and its open calls; eacgm alone tail.
 * Positions only grow. A slot has blocks behind it before it is written to: a write cannot fault.
 * eacgm reads by pread(2) and trusts nothing.
 *
 * Behind all slots each has room for histograms, where its thread counts calls of layers that are
 * not recorded in full (enum trace_mode). What is counted stays, and who has the slot next goes on
 * counting: only the sums of a process are asked for.
 *
 * What eacgm says to all processes at once is in one more file of the folder, CALL_SETTINGS, which
 * is eacgm's own and which they can only read: struct call_settings.
 *
 * Times are ticks of wire/ticks.h. The lock by which a process sees that eacgm has ended is that of
 * wire/gpu_ring.h. */
#pragma once

#include <linux/types.h>

#include "wire/event.h"

#define CALL_SHIM	 "libeacgm_calls.so"
#define CALL_RINGS_ENV	 "EACGM_CALL_RINGS"
#define CALL_PRELOAD_ENV "LD_PRELOAD"

/* Where this is set, every call of a Python function is told, of files that a glob of the second
 * fits, where that is set, and none of the third: globs with commas between them. A glob without a
 * slash is matched against the file's name without its folders. */
#define CALL_PYTHON_ENV	     "EACGM_PYTHON_CALLS"
#define CALL_PYTHON_ONLY_ENV "EACGM_PYTHON_ONLY"
#define CALL_PYTHON_SKIP_ENV "EACGM_PYTHON_SKIP"

/* Symbols of the library. */
#define CALL_SITES   "eacgm_call_sites"
#define CALL_ISLANDS "eacgm_call_islands"
#define CALL_ENTRY   "eacgm_call_entry"
#define CALL_USED    "eacgm_call_used" /* u32 */
/* Where a process that runs is given the library: its entry (src/remote/remote.h), whose argument
 * is the session's folder, and the address of the header of the file that it made, 0: it could not.
 * Its `stop` is set. */
#define CALL_ATTACHED "eacgm_call_attached"
/* u32: 0 until the process is to tell its calls, which children that it has by then do not. */
#define CALL_GO	    "eacgm_call_go"
#define CALL_HEADER "eacgm_call_header"
/* u32: not 0 where the process may switch the stack that a thread runs on (greenlet), so that a
 * frame below the stack pointer may come back. */
#define CALL_SWITCHES	  "eacgm_call_switches"
#define CALL_FOLDER_BYTES 480
/* A function that is called where a call's stack is to be taken: struct rec_mark of wire/event.h.
 */
#define CALL_STACK "eacgm_call_stack"
/* Called where an argument is a text that the process has not told before: with the key that it has
 * in calls, the value that the kernel would fetch it from, and CALL_TEXT_HOW: struct rec_told_text
 * of wire/event.h. */
#define CALL_TEXT		     "eacgm_call_text"
#define CALL_CODE_BIT		     (1ULL << 63) /* is not of keys: numbers of codes have it */
#define CALL_TEXT_HOW(fetch, layout) ((fetch) | (__u64)(layout) << 8)

#define CALL_SITES_MOST	  8192
#define CALL_ISLAND_BYTES 128
#define CALL_JUMP_BYTES	  14 /* jmp *0(%rip), and the address; or jmp rel32, and int3 */

enum call_site_trust {
	CALL_TRUST_NONE,
	CALL_TRUST_POINTERS, /* the function itself follows those that are read */
};

/* Where things are in CPython (struct py_layout), for arguments that are texts. */
struct call_objects {
	__u16 frame_code, code_name;
	__u16 str_length, str_state, str_ascii_data, str_compact_data;
	__u8 frame_code_tagged;
	__u8 state_kind_shift, state_ascii_shift;
	__u8 code_filename; /* offsets of it are below 256 */
};

struct call_site {
	__u64 original; /* code that does what the function does */
	__u32 probe;
	__u16 stack_words; /* of arguments that the function may have on the stack: even */
	__u8 layer;
	__u8 flags; /* call_flags that every call has */
	__u8 trust; /* enum call_site_trust */
	__u8 mode;  /* enum trace_mode */
	__u8 pad[6];
	__u64 function;
	struct probe_desc desc;
	struct call_objects objects;
};
_Static_assert(sizeof(struct call_site) == 256, "sites are found by number");

#define CALL_MAGIC	  0x31534c4c4143454aULL
#define CALL_HEADER_BYTES 4096
#define CALL_THREADS_MOST 64
#define CALL_RING_BYTES	  (1u << 21)
#define CALL_SLOT_HEADER  (3u << 15)
#define CALL_SLOT_BYTES	  (CALL_SLOT_HEADER + CALL_RING_BYTES)
#define CALL_HISTS_MOST	  8192	/* of a slot */
#define CALL_HISTS_INDEX  16384 /* its process's: hash -> place + 1 */
#define CALL_HISTS_BYTES  (2 * CALL_HISTS_INDEX + CALL_HISTS_MOST * sizeof(struct call_hist))
#define CALL_HISTS_BEGIN                                                                           \
	(CALL_HEADER_BYTES + (unsigned long long)CALL_THREADS_MOST * CALL_SLOT_BYTES)
#define CALL_FILE_BYTES                                                                            \
	(CALL_HISTS_BEGIN + (unsigned long long)CALL_THREADS_MOST * CALL_HISTS_BYTES)

struct call_header {
	__u64 magic; /* written last */
	__u32 pid;
	__u32 counted;	     /* ticks are the processor's counter, else nanoseconds */
	__u64 no_slot;	     /* calls of threads that have no slot */
	__u32 python;	     /* enum call_python */
	__u32 python_yields; /* to a profiler of the job's own, in a thread */
	__u32 python_late;   /* threads of C code that were met late, as far as is known */
	__u32 pad0;
	__u64 pad[3];
	__u32 stop;	   /* eacgm's, as is what follows: nothing more is to be recorded */
	__u32 stack_shift; /* halves so often the chance that a call's stack is taken */
};

/* Whether Python functions are told. */
enum call_python {
	CALL_PYTHON_NONE, /* nobody asks for it, or there is no interpreter (yet) */
	CALL_PYTHON_TOLD,
	CALL_PYTHON_FAILED, /* the interpreter has no place for one more who listens */
};

enum call_slot_state {
	CALL_SLOT_FREE, /* by eacgm, once all of it is read */
	CALL_SLOT_USED,
	CALL_SLOT_LEFT, /* its thread has ended */
};

/* A histogram: of a probe, or of what calls of it are named by (CALL_NAMED). */
struct call_hist {
	__u32 probe;
	__u32 pad;
	__u64 name;		 /* args[0], else 0 */
	struct hist_value value; /* its count is written last */
	__u64 pad2;
};
_Static_assert(sizeof(struct call_hist) == 576, "whole cache lines");
_Static_assert(CALL_HISTS_BYTES % 4096 == 0, "whole pages");

#define CALL_SETTINGS	    "settings"
#define CALL_SETTINGS_MAGIC 0x5354544553434145ULL
struct call_settings {
	__u64 magic;
	__u64 rate;  /* nanoseconds of the counter's tick, times 2^32 */
	__u32 rests; /* calls that begin now are not recorded */
	__u32 pad[11];
	__u64 thresholds_ns[MAX_PROBES]; /* as the kernel's (bpf/state.h) */
};

/* How an open call is to be kept: enum trace_mode, and whether it is recorded in every mode. */
#define CALL_KEEP_ALWAYS 0x80

struct call_open {
	__u64 sp; /* where its return address lies */
	__u64 start;
	__u32 probe;
	__u8 layer;
	__u8 flags;
	__u8 nargs;
	__u8 keep;   /* enum trace_mode, CALL_KEEP_ALWAYS */
	__u32 mark;  /* its stack was taken under this number of the thread's; 0: it was not */
	__u32 timed; /* ticks that we took before it began, where that was looked at; else 0 */
	__u64 args[MAX_ARGS];
};
_Static_assert(sizeof(struct call_open) == 96, "shared with traced processes");

#define CALL_PYTHON_OPEN 1024 /* the outermost; what is deeper the process alone knows */
struct call_python_open {
	__u64 start;
	__u64 frame; /* its address; of no use to others */
	__u32 code;  /* its number */
	__u32 timed; /* as of struct call_open */
};

#define CALL_PARKED_MOST 512 /* of a thread, where stacks are switched (CALL_SWITCHES) */

struct call_slot {
	__u32 state; /* enum call_slot_state */
	__u32 tid;
	__u64 head;	 /* bytes written so far */
	__u64 full;	 /* calls for which there was no room */
	__u64 deep;	 /* more than MAX_OPEN_CALLS open */
	__u64 elsewhere; /* on another stack than the thread's, or amid our own work */
	__u64 unmatched; /* returns of what is not open */
	__u64 no_return; /* left without returning: recorded with an upper bound */
	__u64 uncounted; /* calls for which there was no histogram */
	__u64 tail;	 /* eacgm's: bytes read so far */
	__u64 pad1[6];
	__u64 kept;  /* the thread's: calls that are in a histogram and in the ring, of which there
			are few */
	__u32 depth; /* calls open: what each call writes is in this line, */
	__u8 layer_open[LAYERS_MAX];
	__u32 marks;			       /* so many stacks were taken */
	__u32 hists;			       /* histograms that are in use */
	__u64 timed;			       /* calls of which it was looked how long we took, */
	__u64 timed_ticks;		       /* and how long that was in sum */
	struct call_open open[MAX_OPEN_CALLS]; /* and in one or two of these */
	__u32 python_depth;		       /* calls of Python functions that are open */
	__u32 nparked; /* calls that are open on stacks which the thread does not run on */
	struct call_python_open python[CALL_PYTHON_OPEN];
	struct call_open parked[CALL_PARKED_MOST];
	__u64 parked_at[CALL_PARKED_MOST]; /* ticks: until when each was the thread's, at least */
};
_Static_assert(__builtin_offsetof(struct call_slot, tail) == 64, "a cache line each");
_Static_assert(__builtin_offsetof(struct call_slot, depth) == 128, "likewise");
_Static_assert(__builtin_offsetof(struct call_slot, open) == 192, "likewise");
_Static_assert(sizeof(struct call_slot) <= CALL_SLOT_HEADER, "before the ring");

/* Words of 8 bytes; a record may go on at the ring's beginning. */
struct call_record {
	__u32 probe;
	__u8 flags;  /* call_flags */
	__u8 depth;  /* calls of the ring's kind around it */
	__u8 nargs;  /* so many words of arguments follow, */
	__u8 marked; /* and one with the mark of its stack, where this is 1 */
	__u64 start, end;
};
_Static_assert(sizeof(struct call_record) == 24, "shared with traced processes");
#define CALL_RECORD_MOST (sizeof(struct call_record) + 8 * MAX_ARGS + 8)

/* In the place of a probe's number. */
#define CALL_PYTHON                                                                                \
	MAX_PROBES /* a call of a Python function; its argument is the code's number               \
		    */
#define CALL_CODE (MAX_PROBES + 1) /* says what a code is; nargs words of text follow */

/* A CALL_CODE's; the numbers of a process's codes are from 1 on, none is used twice. One may come
 * after calls of it, of another thread. */
struct call_code {
	__u32 probe;
	__u8 pad[2];
	__u8 nargs;
	__u8 marked; /* 0 */
	__u32 code, line;
	__u32 name_bytes, file_bytes; /* of the text: one after the other, UTF-8 */
};
_Static_assert(sizeof(struct call_code) == sizeof(struct call_record), "a kind of it");
#define CALL_CODE_NAME 512
#define CALL_CODE_FILE 1024
_Static_assert(CALL_CODE_NAME + CALL_CODE_FILE <= 8 * 255, "nargs is a byte");
#define CALL_CODE_MOST (sizeof(struct call_code) + CALL_CODE_NAME + CALL_CODE_FILE)
