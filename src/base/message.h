/* message.h - what a program and the processes that it forks to help it have in common: messages
 * with a descriptor, and that they outlive no more of it than their socket. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Sends or takes bytes, with a descriptor; -1 = none. Negative errno; -EPIPE: the other end is
 * gone, or it was not a whole message. */
int message_send(int sock, const void *data, size_t len, int fd);
int message_receive(int sock, void *data, size_t len, int *ret_fd);
/* The same of one that may be shorter: its length. 0: the other end is gone. */
ssize_t message_take(int sock, void *data, size_t len, int *ret_fd);

/* Just forked: keeps no descriptor but this one (whoever reads the program's output must see its
 * end), leaves its session, and is not ended by Ctrl-C. sock > 2. */
void detach_keeping(int sock);
