/* attach.h - puts programs on sites: session links, multi links, or one link each,
 * whichever the kernel has, found by trying. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "probe/plan.h"

enum attach_method {
	ATTACH_AUTO,
	ATTACH_SESSION, /* one link for entry and return (6.13) */
	ATTACH_MULTI,	/* one link per direction (6.6) */
	ATTACH_SINGLE,	/* one perf event per site and direction (5.15) */
};
const char *attach_method_name(enum attach_method m);

/* Loaded programs to attach, by role; fds. */
struct attach_programs {
	int span_session;
	int span_enter;
	int span_leave;
	int moment;
	int pair_begin;
	int pair_end;
};

/* The links of one group of sites. Zero-initialised = nothing attached. */
struct attach_links {
	VEC(int) fds; /* in the order in which they are to be closed */
};

/* Attaches all sites (of one file, any actions) to the file that path opens. On failure
 * nothing stays attached; the sentence leaves the file's own name to the caller, who knows it. */
int attach_sites(struct attach_links *ret, enum attach_method method,
		 const struct attach_programs *progs, const char *path, const struct site *sites,
		 size_t n, struct err *e);

/* A place for a helper hook: one program, entry only. */
struct hook_site {
	uint64_t offset;
	uint64_t cookie;
};

/* Attaches a sleepable program at n places of a file; adds the links' fds to ret. A multi
 * link where there is one: perf events take a lock that others hold while they wait for
 * held tasks. */
int attach_hooks(struct attach_links *ret, enum attach_method method, int prog_fd, const char *path,
		 const struct hook_site *sites, size_t n, struct err *e);

/* A program that does nothing, for spans or for single moments by that method; its fd, or a
 * negative errno. */
int attach_load_empty(enum attach_method method, bool spans);

/* Whether a method works on this kernel, by trying it. */
int attach_try_method(enum attach_method m, struct err *e);

/* The best method that works on this kernel; ATTACH_AUTO and a sentence when none does. */
enum attach_method attach_try_methods(struct err *e);

void attach_detach(struct attach_links *l);
