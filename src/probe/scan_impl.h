/* scan_impl.h - what the files that look at processes share: scan.c, scan_files.c, scan_start.c. */
#pragma once

#include "base/map64.h"
#include "probe/tracer_impl.h"

struct scan {
	pid_t pid;
	uint64_t sequence;		 /* of the hold; 0 = it is not held */
	uint64_t until_ns;		 /* for its stacks */
	proc_maps_t maps;		 /* of code; empty once it is told */
	proc_maps_t kept;		 /* the same from then on, for the insider */
	uint64_t seen_ns;		 /* when these were read; CLOCK_REALTIME */
	VEC(struct probed_file *) files; /* used, one for each mapping of a file */
	VEC(size_t) map_of;		 /* their mappings */
	int fresh;			 /* files that were new */
	bool hooked, told, done;
	bool written;	    /* probes inside the process were seen to */
	bool was_there;	    /* it had mapped what it has before anything was probed */
	bool copies_stacks; /* it has mapped what puts other stacks in the place of its own */
	bool outdated;	    /* a newer scan of the process has told what it has */
};

/* A process that is to be looked at later. */
struct later {
	pid_t pid;
	uint64_t at_ns;
};

struct scans {
	VEC(struct scan *) list;
	VEC(struct later) later;
	struct map64 spent_ns; /* pid -> in this second, for its mappings and its children's */
	struct map64 payer;    /* pid -> whose child it is, until it executes another program */
	struct map64 cost_ns;  /* pid -> of the last reading of them */
	struct map64 asked;    /* pids that a program asked for, until they execute another one */
	uint64_t second_ns;
	uint64_t pressed_ns; /* since when; 0 = not */
	bool under_way;	     /* scans_go_on runs */
	bool ticks;
	uint64_t again_until_ns; /* records may come without waking us */
	int timer;
};

/* scan.c: how many of its files are new; or an error. */
int scan_begin(struct tracer *t, pid_t pid, uint64_t sequence, struct err *e);

/* scan_files.c: the files that the process has mapped, each opened once; new ones are read. */
void scan_list_files(struct tracer *t, struct scan *s);
/* Takes a process that return probes would harm out of tracing. */
void scan_exclude_unsafe(struct tracer *t, struct scan *s);
/* Whether a library of that path puts other stacks in the place of a thread's own. */
bool scan_copies_stacks(const char *path);
/* A file that hides its unwinder is not probed, with a note where something of it is wanted. */
void scan_refuse_hidden(struct tracer *t, struct probed_file *f);
/* A file that nobody is known to have mapped, hooked before, is probed. */
void scan_probe_expected(struct tracer *t, struct probed_file *f);
/* From here on nobody who maps the file is held for it (bpf/mappings.h). Where a process is judged
 * by it, each one is. */
void scan_tell_known(struct tracer *t, struct probed_file *f);
