/* http_peer.h - whose the other end of a TCP connection within this host is. The kernel says so
 * (sock_diag(7)); nothing that the other end sends matters. Not for peers on other hosts. */
#pragma once

#include <stdbool.h>

/* Whether the socket at the other end is held open by somebody, and was made by root or by the user
 * that this process runs as. fd: a connected socket of TCP. False where the kernel does not say:
 * also of one that was closed there, which has no owner any more. */
bool http_peer_is_ours(int fd);
