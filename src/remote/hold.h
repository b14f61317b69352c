/* hold.h - stops all threads of a process for a moment, so that its code can be changed while
 * nobody runs it.
 *
 * By ptrace(2), seized: no signal is sent, and none is lost. A wait in the kernel goes on as it
 * was; one that Linux ends with EINTR when its thread is stopped (signal(7): epoll_wait and some
 * others) is begun again, with its timeout in full.
 *
 * A process that executes another program while its threads are being seized waits until who traces
 * the ended ones has taken note of that, and has the one who seizes wait for it: another thread
 * calls hold_reap meanwhile, again and again.
 *
 * x86-64 only. One thread of the caller's from the beginning to the end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct hold;

/* Stops every thread. -EPERM: it is traced by another; -EAGAIN: a thread did not stop in time (it
 * waits in the kernel and takes no signals); -ESRCH: the process has ended. Nothing is held then.
 * -ETIMEDOUT: one did not stop for a second more either, and stands when it does, until the calling
 * thread ends. */
int hold_process(struct hold **ret, pid_t pid, uint64_t most_ns, struct err *e);

struct hold_thread {
	pid_t tid;
	uint64_t ip, sp; /* in user mode */
};
size_t hold_threads(const struct hold *h, const struct hold_thread **ret);

/* Takes note of threads that have ended while another thread of ours holds the process. */
void hold_reap(pid_t pid);

/* Lets them go on, in the order in which they were told to stop, and frees. The longest that one of
 * them stood, from when it was told to stop until it was let go. */
uint64_t hold_let_go(struct hold *h);
