/* grpc_call.h - one question of gRPC to a server on this host: a unary call over a unix socket, on
 * a connection of its own, HTTP/2 by libnghttp2 (RFC 9113; grpc/grpc: doc/PROTOCOL-HTTP2.md). No
 * TLS, no names, no compression, no streams. Knows nothing of what messages hold.
 *
 * The server is not trusted: how long all of it takes, how many bytes come and how large headers
 * are is bounded, whatever it sends and however slowly. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

#define GRPC_UNIMPLEMENTED 12 /* the server has no such service: grpc/grpc doc/statuscodes.md */

struct grpc_question {
	const char *socket; /* its path */
	const char *method; /* "/v1.PodResourcesLister/List" */
	const uint8_t *message;
	size_t len;
	uint64_t most_ns;  /* from the connection to the end of the answer */
	size_t most_bytes; /* of the answer's message */
	int stop_fd;	   /* gives up when it can be read, -1: none */
};

/* Appends the answer's message to ret. 0, or negative errno with a sentence that begins with what
 * went wrong and does not name the socket: -ETIMEDOUT, -ECANCELED, -EMSGSIZE, -EPROTO: no gRPC,
 * -EREMOTEIO: the server refused, by a status of gRPC; else that of connecting. ret_status: that
 * status, -1 where there was none. */
int grpc_call(struct buf *ret, int *ret_status, const struct grpc_question *q, struct err *e);
