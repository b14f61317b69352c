/* inside_write.h - puts probes into a process that is held while its libraries are mapped: nobody
 * runs their code then. Where the process has not loaded libeacgm_calls.so, or a function is not as
 * its file has it, nothing is written. Internal to src/probe. */
#pragma once

#include "probe/scan_impl.h"

struct insider;

/* shim: path of libeacgm_calls.so, which processes are to have loaded. */
int insider_open(struct insider **ret, const char *shim, const enum trace_mode *modes,
		 struct err *e);
void insider_close(struct insider *in);

/* From here on the program sees calls whose stacks are to be taken. */
int insider_take_stacks(struct insider *in, enum attach_method method, int program, struct err *e);
/* The same of texts that are told (CALL_TEXT). */
int insider_take_texts(struct insider *in, enum attach_method method, int program, struct err *e);

/* Probes the files of a scan that have places for it and are not probed in the process yet. Where
 * it cannot, a note says why. */
void insider_probe(struct tracer *t, const struct scan *s);

/* A program that is linked statically, before the process executes it: nobody holds it then, so the
 * kernel's probes are there before. */
void insider_probe_static(struct tracer *t, struct probed_file *f, pid_t pid);

/* The notes about processes that had run a library before they could be held: once it is known that
 * they were not held for it later. */
void insider_tell(struct tracer *t);

void insider_processes(const struct insider *in, void (*visit)(void *ctx, pid_t pid), void *ctx);

/* Functions that were probed so, and processes; and how long that took in sum. */
struct insider_stats {
	uint64_t places, processes, ns;
};
void insider_stats(const struct insider *in, struct insider_stats *ret);
