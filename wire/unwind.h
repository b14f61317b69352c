/* unwind.h - unwind tables as user space compiles them and BPF reads them, stacks as BPF
 * writes them, and nothing else. Same rules as event.h; x86-64 only.
 *
 * A table is an array of 32-bit words without pointers, so that it may lie anywhere: in a
 * file of the cache, or somewhere in the pool of words that the programs read. */
#pragma once

#include <linux/types.h>

/* ---- tables ---- */

#define UNWIND_PAGE_SHIFT 16 /* rows are found by pages of 64 KiB of the file's addresses */
#define UNWIND_RULE_WORDS 8
#define UNWIND_MAX_RULES  65535

/* DWARF's register numbers (System V AMD64 ABI, figure 3.36). */
enum unwind_register {
	UNWIND_RAX = 0,
	UNWIND_RDX = 1,
	UNWIND_RCX = 2,
	UNWIND_RBX = 3,
	UNWIND_RSI = 4,
	UNWIND_RDI = 5,
	UNWIND_RBP = 6,
	UNWIND_RSP = 7,
	UNWIND_R8 = 8, /* to R15 = 15 */
	UNWIND_R12 = 12,
	UNWIND_RIP = 16,
	UNWIND_REGISTERS = 17,
};

/* How the canonical frame address (CFA: the stack pointer before the call) is found. */
enum unwind_cfa {
	CFA_NONE,   /* there are no rules here, or none that can be written as below */
	CFA_END,    /* the outermost frame: its return address is undefined */
	CFA_REG,    /* reg + offset */
	CFA_DEREF,  /* *(reg + offset) + add */
	CFA_PLT,    /* rsp + offset + ((rip & 15) >= add ? 8 : 0): lazy binding's entries */
	CFA_SIGNAL, /* a signal handler returns here: a struct ucontext is at rsp + offset */
};

/* Registers that a called function has to give back, in this order in unwind_rule.saved. */
#define UNWIND_SAVED 6 /* rbx, rbp, r12, r13, r14, r15 */
#define UNWIND_SAME  1 /* the register is as in the caller; no real offset is odd */
#define UNWIND_LOST  3 /* its value cannot be known */

struct unwind_rule {
	__u8 cfa;  /* enum unwind_cfa */
	__u8 reg;  /* enum unwind_register */
	__u8 base; /* register that the saved ones marked in by_base are found by */
	__u8 by_base;
	__s32 offset;
	__s32 add;
	__s16 ra;		   /* the return address is at CFA + ra */
	__s16 saved[UNWIND_SAVED]; /* at CFA + this; bit in by_base set: at base + this */
	__u8 by_code;		   /* from the instructions: there is no call frame information */
	__u8 pad[5];
};

/* The first words of a table. Places are word numbers from the table's own beginning. */
#define UNWIND_TABLE_MAGIC   0x31544e55u /* "UNT1" */
#define UNWIND_TABLE_VERSION 2
struct unwind_table_head {
	__u32 magic;
	__u32 version;
	__u64 text_start; /* virtual address in the file; a multiple of the page */
	__u32 npages;
	__u32 nrows;
	__u32 nrules;
	__u32 pages_at; /* npages + 1 words: number of the page's first row */
	__u32 rows_at;	/* nrows words: address within the page, rule << 16; in rising order */
	__u32 rules_at; /* nrules struct unwind_rule; a multiple of UNWIND_RULE_WORDS */
	__u32 words;	/* of the whole table */
	__u32 crc;	/* CRC-32 of zlib of all words but this one */
};
#define UNWIND_HEAD_WORDS 12
/* Rule 0 is CFA_NONE. A page that has rows has one at its first address, so that no look-up
 * needs the page before. Every rule holds from its row to the next. */

/* ---- stacks ---- */

#define STACK_FRAMES 512 /* of all languages together; deeper ones are cut at the root */

/* A frame: an address in the kernel (bit 63), in a file (bit 61), in the process where it is in
 * no such file, or a Python frame. Addresses are such that they lie in the calling instruction, not
 * after it. */
#define PYTHON_FRAME_BIT     (1ULL << 62)
#define PYTHON_FRAME(id, at) (PYTHON_FRAME_BIT | (__u64)(at) << 32 | (__u32)(id))
#define PYTHON_FRAME_ID(f)   ((__u32)(f))
#define PYTHON_FRAME_AT(f)   ((__u32)((f) >> 32) & 0x3fffffff) /* offset in the bytecode, bytes */
/* A place in a file whose table has a number: what the process maps later does not matter. */
#define FILE_FRAME_BIT	      (1ULL << 61)
#define FILE_FRAME_BITS	      47 /* of the file's virtual address */
#define FILE_FRAME(table, at) (FILE_FRAME_BIT | (__u64)(table) << FILE_FRAME_BITS | (at))
#define FILE_FRAME_TABLE(f)   ((__u32)((f) >> FILE_FRAME_BITS) & (UNWIND_TABLES_MAX - 1))
#define FILE_FRAME_AT(f)      ((f) & ((1ULL << FILE_FRAME_BITS) - 1))
/* Of a native frame: its caller was found by its instructions or the frame pointer, for want of
 * call frame information. */
#define GUESSED_FRAME_BIT (1ULL << 63)

/* Why a stack ends. */
enum stack_end {
	STACK_WHOLE,	    /* the outermost frame was reached */
	STACK_NO_MAPS,	    /* the process is not known yet */
	STACK_NO_MAPPING,   /* an address in no mapping that is known */
	STACK_NO_TABLE,	    /* its file's rules are not there yet, or the pool is full */
	STACK_NO_RULES,	    /* the file has no rules for the address */
	STACK_NO_REGISTER,  /* the rules need a register that was not kept */
	STACK_BAD_MEMORY,   /* the stack could not be read */
	STACK_BAD_FRAME,    /* the frame does not lie above the one that it called */
	STACK_TOO_DEEP,	    /* more than STACK_FRAMES */
	STACK_MAPS_CHANGED, /* the mappings were replaced while they were searched */
	STACK_NO_USER,	    /* the task has no user registers */
	STACK_ENDS,
};
#define STACK_END_NAMES                                                                            \
	{                                                                                          \
		"whole", "no_maps", "no_mapping", "no_table", "no_rules", "no_register",           \
			"bad_memory", "bad_frame", "too_deep", "maps_changed", "no_user"           \
	}

enum stack_where {
	STACK_AT_SWITCH = 1, /* the thread stops running: the leaf's frames are of what tells it */
	STACK_IN_PROBE = 2,  /* the kernel was entered for a probe of a return */
};

/* Why Python frames are missing in a stack that has frames of an interpreter. */
enum stack_python {
	PYTHON_NONE,	  /* no interpreter on the stack */
	PYTHON_WHOLE,	  /* as many as the interpreter's own frames ask for */
	PYTHON_NO_THREAD, /* the thread is in no list of the interpreter */
	PYTHON_BAD_MEMORY,
	PYTHON_TOO_FEW, /* the interpreter had fewer than its own frames tell of */
	PYTHON_ENDS,
};
#define STACK_PYTHON_NAMES                                                                         \
	{                                                                                          \
		"", "", "python_no_thread", "python_bad_memory", "python_too_few"                  \
	}

/* How frames of one build of CPython hang together; what code objects look like is in
 * struct py_layout. Sources: src/symbolize/cpython_frames.c. */
enum py_instruction {
	PY_LASTI_BYTES,	  /* int: offset in bytes (3.8, 3.9) */
	PY_LASTI_UNITS,	  /* int: offset in units of two bytes (3.10) */
	PY_INSTR_POINTER, /* pointer into the code object (3.11 and later) */
};
enum py_boundary {
	PY_ENTRY_ALWAYS, /* each frame has a run of the interpreter of its own (to 3.10) */
	PY_ENTRY_FLAG,	 /* a byte that is not 0 marks the first frame of a run (3.11) */
	PY_ENTRY_SHIM,	 /* a frame owned by C stands before the first one (3.12 and later) */
};
struct py_frames {
	__u32 interpreters_head; /* in _PyRuntime: PyInterpreterState * */
	__u32 interpreter_next;
	__u32 interpreter_threads; /* PyThreadState *: head of the list */
	__u16 thread_next;
	__u16 thread_pthread; /* unsigned long: pthread_self() */
	__u16 thread_frame;   /* frame, or struct with the frame where thread_indirect */
	__u16 indirect_frame; /* in that struct */
	__u16 frame_previous;
	__u16 frame_instruction;
	__u16 frame_boundary;	 /* the byte that PY_ENTRY_FLAG and _SHIM look at */
	__u16 code_instructions; /* PY_INSTR_POINTER: where they begin in the code object */
	__u8 thread_indirect;
	__u8 instruction; /* enum py_instruction */
	__u8 boundary;	  /* enum py_boundary */
	__u8 shim_owner;  /* PY_ENTRY_SHIM: this value or a greater one */
	__u16 frame_code; /* the code object; its low bits are tags where code_tagged */
	__u8 code_tagged;
	/* The struct of thread_indirect lies on the stack, in the frame of the run that made it
	 * (PY_ENTRY_FLAG): where in it the one of the run before is. */
	__u8 indirect_previous;
	/* Free-threaded 3.14, else 0: frames may run a thread's own copy of the bytecode, and
	 * the instructions begin at (*(code + code_copies))[1 + *(int *)(frame + frame_copy)]. */
	__u16 code_copies;
	__u16 frame_copy;
};

/* ---- what the unwinder looks up, beside the words ---- */

/* The pool: segments of words, in an array of maps. A word's number is its segment, the
 * element in it and the place in that: 14, 8 and 10 bits. */
#define UNWIND_WORDS	      1024 /* in one element of a segment */
#define UNWIND_SEGMENT_WORDS  (1u << 18)
#define UNWIND_SEGMENTS_MAX   256 /* 256 MiB */
#define UNWIND_TABLES_MAX     16384
#define UNWIND_PROCESSES_MAX  65536
#define UNWIND_BLOCKS_MAX     65536
#define UNWIND_BLOCK_MAPPINGS 32
#define PY_FRAMES_MAX	      16

struct unwind_words {
	__u32 w[UNWIND_WORDS];
};

/* Where a table's parts are in the pool; npages 0: not there yet, or with nrules: the file has
 * none. Of each page there are two words at pages_at: where its rows are, and how many. */
struct unwind_table_ref {
	__u64 text_start;
	__u32 npages;
	__u32 pages_at;
	__u32 rules_at;
	__u32 nrules;
};
#define UNWIND_PAGE_WORDS  2
#define UNWIND_PAGE_ABSENT 0xffffffffu /* for where: rows come once they are asked for */

#define MAPPING_NO_RULES 0xffffffffu /* table: there is none, frame pointers are tried */
struct unwind_mapping {
	__u64 start;
	__u64 end;
	__u64 bias;  /* address in the process - virtual address in the file */
	__u32 table; /* or the above */
	__u32 pad;
};
/* Executable mappings in rising order, in blocks; a process's change as one, by a new
 * generation. */
struct unwind_block_key {
	__u32 owner; /* tgid of the process that they were read from */
	__u32 generation;
	__u32 block;
	__u32 pad;
};
struct unwind_block {
	struct unwind_mapping m[UNWIND_BLOCK_MAPPINGS];
};

/* A file that the kernel's own list of mappings leads to, by its device and inode (struct
 * known_file; zeros: the vDSO): its table, and what of it is loaded where. */
#define UNWIND_LOADED_MAX 8
struct unwind_loaded {
	__u64 file_offset;
	__u64 size;
	__u64 address; /* virtual address in the file */
};
struct unwind_inode {
	__u32 table;
	__u32 changed_nsec; /* ctime: a file that was written since has other rules */
	__s64 changed_sec;
	struct unwind_loaded loaded[UNWIND_LOADED_MAX];
};

#define PY_EVAL_RANGES 4
struct unwind_process {
	__u32 owner;
	__u32 generation;
	__u32 mappings;
	__u32 python;		       /* 1: the rest is about its interpreter */
	__u64 py_runtime;	       /* address of _PyRuntime */
	__u64 eval[PY_EVAL_RANGES][2]; /* the interpreter's loop: start, end; unused ones 0 */
	__u32 py_frames;	       /* index of its struct py_frames */
	__u32 py_layout;	       /* and of its struct py_layout */
};

#ifndef __cplusplus
_Static_assert(sizeof(struct unwind_mapping) == 32, "unwind_mapping");
_Static_assert(sizeof(struct unwind_rule) == 4 * UNWIND_RULE_WORDS, "unwind_rule");
_Static_assert(sizeof(struct unwind_table_head) == 4 * UNWIND_HEAD_WORDS, "unwind_table_head");
_Static_assert(sizeof(struct py_frames) == 40, "py_frames");
#endif
