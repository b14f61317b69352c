/* parser.h - questions about bytes that others have written, answered by a process that may do
 * nothing else.
 *
 * A worker has no capabilities, no files but those that it is given with a question, and no system
 * calls but those that reading and answering take. One that dies, or takes too long, costs the
 * answer to that question: it is replaced with the next. Answers are bytes of this program's own
 * making in a process that may have been taken over: who reads them checks them as strictly. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

struct parser_host;
struct parser;

/* Answers a question in the worker: 0 and the bytes, or negative errno and the sentence. fd is -1
 * where none came; it is closed afterwards. */
typedef int (*parser_fn)(void *ctx, int fd, const uint8_t *question, size_t len, struct buf *ret,
			 struct err *e);

/* The operations, numbered by their place; copied at the fork with all that ctx leads to. Each
 * worker has its own copy of that from then on, which it may write to. */
struct parser_op {
	parser_fn answer;
	void *ctx;
};
struct parser_ops {
	const struct parser_op *list;
	size_t n;
};

/* Where a client's operations are. */
struct parser_service {
	struct parser_host *host;
	unsigned first_op;
};

/* Forks the host; to be called while the program has one thread. Its workers end with it, and it
 * ends with this process, however that ends. */
int parser_host_start(struct parser_host **ret, const struct parser_ops *ops, struct err *e);
void parser_host_stop(struct parser_host *h);
/* What the host, and a worker, go by: to be told to people. */
struct sandbox;
const struct sandbox *parser_host_sandbox(void);
const struct sandbox *parser_worker_sandbox(void);

/* The processor time that all answers so far have taken. */
uint64_t parser_cpu_ns(const struct parser_host *h);

/* A line to workers, for one thread. The first is forked with the first question. urgent: somebody
 * is held until it has answered, so it gets its turn soon on a busy host. */
struct parser *parser_new(struct parser_host *h, bool urgent);
void parser_free(struct parser *p);

/* Asks and waits. timeout_ms is of the worker's own running; five times as long is waited at most,
 * for the host may be busy. -ETIMEDOUT and -EPIPE: the worker took too long, or died. */
int parser_ask(struct parser *p, unsigned op, int fd, const void *question, size_t len,
	       unsigned timeout_ms, struct buf *ret, struct err *e);

/* The same in two steps: the descriptor of parser_fd is readable when there is something to
 * receive; it changes with the worker. -EAGAIN: no answer yet, and the time is not over. */
int parser_send(struct parser *p, unsigned op, int fd, const void *question, size_t len,
		unsigned timeout_ms, struct err *e);
int parser_fd(const struct parser *p); /* -1: nothing is asked */
int parser_receive(struct parser *p, struct buf *ret, struct err *e);

/* The next question goes to a new worker: the one so far may not be trusted any more. */
void parser_renew(struct parser *p);
