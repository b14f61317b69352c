/* notify.h - tells systemd how a service is, by the protocol of sd_notify(3): datagrams to the
 * socket that $NOTIFY_SOCKET names. Where nobody asked for it nothing happens. Never waits: what
 * the manager does not take at once is dropped, and no answer is asked for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct notify {
	int fd;		      /* -1: nobody asked */
	uint64_t watchdog_ns; /* between signs of life, half of what is asked for; 0: none are */
	uint64_t told_ns;     /* the last sign of life; of the thread that gives them */
};

/* From $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID. An address that cannot be used is as if it
 * were not there. */
void notify_open(struct notify *n);
void notify_close(struct notify *n);

/* "READY=1", with "STATUS=..." where status is not empty. From any thread. */
void notify_state(const struct notify *n, const char *state, const char *status);

/* Gives the manager a socket that listens, in place of the one before, to keep it open until the
 * service is started again (sd_notify(3), FDSTORE=1). */
void notify_keep_socket(const struct notify *n, int fd);
/* What the manager kept, or opened for the service (sd_listen_fds(3)): the first of these sockets,
 * or -1. Once. */
int notify_kept_socket(void);

/* WATCHDOG=1 if it is due: to be called while all is well, from one thread. */
void notify_alive(struct notify *n, uint64_t now_ns);
