/* mcp.h - the Model Context Protocol (modelcontextprotocol.io, 2025-06-18) as far as a server of a
 * few tools needs it: one message of JSON-RPC 2.0 in, at most one out. Reads and writes nothing:
 * who has the lines gives them, and who has the agent asks it. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

struct mcp {
	const char *version;
	void *ctx;
	/* The agent's answer to a path, the caller's; *ret_status what it said. NULL with the
	 * sentence: it does not answer. POST's answer is text: a JSON string. */
	json_t *(*ask)(void *ctx, bool posts, const char *path, int *ret_status, struct err *e);
};

/* A line of input. The answer, the caller's; NULL: there is none (a notification). */
json_t *mcp_answer(const struct mcp *m, const char *line, size_t len);

/* Of a line that is too long to be read. */
json_t *mcp_too_long(void);
