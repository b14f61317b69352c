/* catch.h - holds a thread of a process where it enters a function, without a signal or a
 * breakpoint register: the kernel's end of bpf/catch.h. One catch at a time; one thread, which
 * need not be the tracer's, but not within tracer_close. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "probe/tracer.h"

struct catch;

/* Hooks n places (file offsets, at most 8) of the file that path opens. -ENOTSUP on kernels
 * without sleepable uprobes. */
int catch_open(struct catch **ret, struct tracer *t, const char *path, const uint64_t *offsets,
	       size_t n, struct err *e);

/* From here on the next thread of the process that comes by is held. */
void catch_arm(struct catch *c, pid_t pid);

/* The thread that is held and since when (CLOCK_MONOTONIC); 0 while none came. It goes on by
 * itself after 50 ms. */
pid_t catch_poll(const struct catch *c, uint64_t *ret_since_ns);

void catch_let_go(struct catch *c);

void catch_close(struct catch *c);
