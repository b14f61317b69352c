/* remote.h - makes a running process load a library and start a thread in it.
 *
 * A thread of the process is stopped where the caller says that it may be, its instruction
 * pointer is set to a stub, and it goes on: it starts a thread, and returns to where it was. The
 * new thread opens the library, and calls its entry. All slow work is done before the stop.
 *
 * The stub lies where a mapping of code ends before its last page does, its words where one of
 * data does; neither belongs to anybody. The one change that matters to the process is a single
 * PTRACE_SETREGS: killed before, bytes that nobody runs are left behind; killed after, the
 * library is loaded all the same.
 *
 * x86-64 and glibc only. One thread of the caller's: ptrace(2) belongs to a thread. Knows nothing
 * of what the library is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* ---- where functions are ---- */

struct remote_place {
	uint64_t address;     /* in the process */
	uint64_t file_offset; /* of the library's file */
};

/* The functions of a mapped library ("libcuda.so": what its file's name begins with) that have
 * one of n names; those that it lacks are left out. ret has room for n. *file is the library's open
 * file that they were read from, the caller's to close: a probe belongs on that file and no other.
 * Where it is not -1 already, that file is read. Their number, 0 when the library is not mapped; or
 * negative errno. */
int remote_find(pid_t pid, const char *library, const char *const *names, size_t n,
		struct remote_place *ret, int *file, struct err *e);

/* The words of 8 bytes at the objects of a mapped library that have one of n names, as they are
 * now; those that it lacks are left out. ret has room for n. Their number, 0 when the library is
 * not mapped; or negative errno. */
int remote_read(pid_t pid, const char *library, const char *const *names, size_t n, uint64_t *ret,
		struct err *e);

/* ---- loading ---- */

struct remote;

struct remote_request {
	pid_t pid;
	const char *library;  /* path, as the process sees it */
	const char *entry;    /* its function: see remote_entry_fn */
	const char *argument; /* for the entry */
};

/* Runs in the new thread, with all signals blocked. It copies the argument, then sets *entered to
 * REMOTE_ENTERED; from then on both belong to nobody. It may end by a jump to dlclose(handle). */
typedef void *remote_entry_fn(const char *argument, void *handle, uint64_t *entered);
enum { REMOTE_ENTERED = 1 };

/* Finds the addresses and writes the stub. Nothing is stopped. -ENOTSUP with a sentence: not
 * glibc, or no room. */
int remote_prepare(struct remote **ret, const struct remote_request *request, struct err *e);

struct remote_stop {
	pid_t tid;
	const struct remote_place *places; /* the thread is to be at one of them */
	size_t nplaces;
	/* Called when the thread will stop as soon as it runs in user mode. */
	void (*let_go)(void *ctx);
	void *ctx;
};

/* Stops the thread, redirects it and lets it go on. Nothing is changed where it fails: -EAGAIN
 * when the thread was not at a place, -EPERM when it is traced by another, -ESRCH when it has
 * ended; -ETIMEDOUT when it does not stop: it goes on when the caller's thread ends. */
int remote_redirect(struct remote *r, const struct remote_stop *stop, struct err *e);

/* Waits until the entry runs. -ENOEXEC with the loader's word when the
 * library does not load. */
int remote_finish(struct remote *r, unsigned timeout_ms, struct err *e);

/* Takes the stub away where nothing can run it any more, and frees. */
void remote_close(struct remote *r);
