/* cmd_mcp.c - `eacgm mcp`: what an agent of this host knows, as tools for an assistant that speaks
 * the Model Context Protocol over standard input and output, a message a line. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/agent_options.h"
#include "cli/mcp.h"
#include "cli/options.h"
#include "serve/http_ask.h"
#include "serve/http_auth.h"

#ifndef EACGM_VERSION
#define EACGM_VERSION "unknown"
#endif

#define LINE_BYTES (1u << 20)

/* Who is asked. */
struct asked {
	struct agent_address at;
	char *token; /* NULL: none is said */
};

static json_t *ask_agent(void *ctx, bool posts, const char *path, int *ret_status, struct err *e)
{
	const struct asked *of = ctx;
	const struct agent_address *at = &of->at;
	struct http_reply reply;
	if (http_ask(&reply, at->address, at->port, of->token, posts, path, e)) {
		err_wrap(e, -ECONNREFUSED, "start 'sudo eacgm agent'");
		return NULL;
	}
	const char *text = (const char *)reply.body.data;
	size_t len = reply.body.len;
	*ret_status = reply.status;
	json_t *ret = json_loadb(text, len, 0, NULL);
	while (!ret && len && text[len - 1] == '\n')
		len--;
	if (!ret)
		ret = json_stringn(text, len); /* what is no JSON is a sentence */
	if (!ret)
		err_set(e, EPROTO, "what answers at %s port %u is no agent", at->address, at->port);
	buf_free(&reply.body);
	return ret;
}

/* A line without its end; false at the end of input. What is longer than there is room for is read
 * to its end, and is of length SIZE_MAX. */
static bool read_line(FILE *in, char *line, size_t *ret_len)
{
	size_t len = 0;
	int c = getc(in);
	if (c == EOF)
		return false;
	for (; c != EOF && c != '\n'; c = getc(in)) {
		if (len < LINE_BYTES)
			line[len] = (char)c;
		len += len <= LINE_BYTES;
	}
	*ret_len = len <= LINE_BYTES ? len : SIZE_MAX;
	return true;
}

static int write_message(const json_t *message, struct err *e)
{
	int rc = json_dumpf(message, stdout, JSON_COMPACT | JSON_REAL_PRECISION(7));
	if (rc || putchar('\n') == EOF || fflush(stdout))
		return err_set(e, EIO, "cannot write to the standard output");
	return 0;
}

static int serve(const struct mcp *m, char *line, struct err *e)
{
	size_t len;
	int rc = 0;
	while (!rc && read_line(stdin, line, &len)) {
		if (!len)
			continue;
		json_t *answer = len == SIZE_MAX ? mcp_too_long() : mcp_answer(m, line, len);
		if (answer)
			rc = write_message(answer, e);
		json_decref(answer);
	}
	return rc;
}

static int run(const struct args *a)
{
	struct asked of = {.token = NULL};
	struct err e = {0};
	if (agent_address_read(&of.at, a, "connect", &e))
		return usage_error(a->command, "%s", e.msg);
	if (!agent_address_is_loopback(&of.at))
		return usage_error(a->command, "--connect: '%s' is no loopback address",
				   of.at.address);
	if (args_has(a, "token-file") && http_token_read(&of.token, args_get(a, "token-file"), &e))
		return command_failed(a->command, &e);
	const struct mcp m = {.version = EACGM_VERSION, .ctx = &of, .ask = ask_agent};
	signal(SIGPIPE, SIG_IGN);
	char *line = xcalloc(1, LINE_BYTES);
	int rc = serve(&m, line, &e);
	free(line);
	free(of.token);
	return rc ? command_failed(a->command, &e) : 0;
}

static const char *const description[] = {
	"Speaks the Model Context Protocol over standard input and output, for an assistant that "
	"starts it, and asks the agent of this host ('eacgm agent') for what it answers. Tools: "
	"list_jobs, incidents, evidence, freeze_trace. All but the last one only read; that one "
	"has the agent write the trace of the last seconds, as POST /freeze does: as root, or "
	"where "
	"the agent has a token.",
	"Needs no privileges else. It ends when its input does.",
	NULL,
};

static const struct opt_def options[] = {
	{0, "connect", "ADDRESS:PORT",
	 "Where the agent serves: a loopback address, 127.0.0.1:9477 unless told.", NULL, 0},
	{0, "token-file", "FILE",
	 "Say the token that is in this file: that of the agent's --token-file.", NULL, OPT_FILE},
	{0},
};

static const struct cmd_example examples[] = {
	{"eacgm mcp", "For an assistant's list of servers: this command, without arguments."},
	{"echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}' | eacgm mcp",
	 "Which tools there are."},
	{0},
};

const struct command cmd_mcp = {
	.name = "mcp",
	.synopsis = "[--connect ADDRESS:PORT] [--token-file FILE]",
	.summary = "what the agent knows, as tools for assistants",
	.description = description,
	.options = options,
	.examples = examples,
	.min_args = 0,
	.max_args = 0,
	.run = run,
};
