/* unwinder.h - gives the BPF unwinder what it looks up: rules of files, mappings and
 * interpreters of processes. Internal to src/probe.
 *
 * Files are compiled and processes published by a thread of its own: a stack of a process or
 * a file that is not ready yet is cut there, and says so. Every function may be called from
 * any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "symbolize/proc_maps.h"
#include "wire/event.h"

struct unwind_pool;

/* The BPF maps of bpf/stack.h and bpf/python.h: one's words, the others' descriptors; not owned. */
struct unwinder_maps {
	struct unwind_pool *pool; /* its thread's, until unwinder_stop */
	int tables;
	int processes;
	int blocks;
	int py_frames;
	int py_layouts;
	int inodes;
};

/* Who is told of each file whose rules get a number, before a stack can name it: by the unwinder's
 * thread. fd: the callee's, -1 for the vDSO, or where there was none left. */
struct unwinder_listener {
	void (*table)(void *ctx, uint32_t table, const struct proc_map *m, const char *build_id,
		      int fd);
	void *ctx;
};

struct unwinder_stats {
	uint64_t files;	       /* whose rules came */
	uint64_t given_back;   /* of these: that nobody had mapped for long */
	uint64_t processes;    /* that are published, forked children with them */
	uint64_t cached;       /* of these: found in the cache on disk */
	uint64_t shared;       /* likewise: they have those of a file that is the same */
	uint64_t without;      /* files that have no rules */
	uint64_t refused;      /* that could not be read, or did not fit */
	uint64_t words_bytes;  /* of rules in the kernel */
	uint64_t pages;	       /* of tables, whose rows came when they were asked for */
	uint64_t build_ns;     /* reading and compiling them took so long */
	uint64_t facts_read;   /* files whose head was read */
	uint64_t facts_cached; /* files of which an earlier session had read it */
};

struct unwinder;

struct parser_host;

/* small: rules of files that nobody has mapped for long go, and come again when they are mapped; of
 * large files the rules of those pages are there that stacks were walked through. A walk that comes
 * to another ends there, and asks for it. */
int unwinder_start(struct unwinder **ret, const struct unwinder_maps *maps,
		   const struct unwinder_listener *listener, struct parser_host *host, bool small,
		   struct err *e);
void unwinder_stop(struct unwinder *u);

/* The process has new mappings: they are published soon. maps are those of its code (see
 * proc_code_read), which are taken over. */
void unwinder_look(struct unwinder *u, pid_t pid, proc_maps_t *maps);
/* A walk needs rules that are not there: they come soon, and with them those of who called. */
void unwinder_want(struct unwinder *u, const struct rec_rules *r);
/* A child that was forked has its parent's mappings, and BPF has published them for it. False when
 * it has not: the parent was not published yet, or the child has executed another program. */
bool unwinder_forked(struct unwinder *u, pid_t child);
/* It has ended, or executes another program: what it had mapped is void. */
void unwinder_forget(struct unwinder *u, pid_t pid);

/* Waits until the rules of all that a process has mapped are there, or, with pid 0, of all
 * processes; false when that takes longer than timeout_ms. */
bool unwinder_settle(struct unwinder *u, pid_t pid, unsigned timeout_ms);
/* Readable once all is there, after unwinder_settle said that it is not; read(2) of eight bytes
 * clears it. */
int unwinder_fd(const struct unwinder *u);

void unwinder_stats(struct unwinder *u, struct unwinder_stats *ret);
