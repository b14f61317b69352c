/* inside_running.h - probes inside of processes that run: put in while all threads of the process
 * are held, and taken off the same way. Internal to src/probe; tracer.h has the doors. */
#pragma once

#include "probe/scan_impl.h"

/* A child has its parent's code; one that runs another program has none of it. */
void inside_forked(struct tracer *t, pid_t parent, pid_t child);
void inside_forget(struct tracer *t, pid_t pid);

/* Whether the kernel's probes are needed of what is told inside: as long as a process that is
 * traced has such functions and no probes inside. They are attached, or taken off, by that. */
void inside_settle(struct tracer *t);
