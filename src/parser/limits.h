/* limits.h - what a worker may use, and the heads of messages. Internal to this folder. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define PARSER_MEMORY_BYTES   (4ULL << 30) /* addresses: libraries of PyTorch have 2 GB */
#define PARSER_CPU_S	      600	   /* of a worker's whole life */
#define PARSER_PATIENCE	      5 /* times a question's own time, for the host may be busy */
#define PARSER_ANSWER_BYTES   (256ULL << 20) /* more is no answer */
#define PARSER_QUESTION_BYTES (1u << 20)

struct parser_question {
	uint32_t op;
	uint32_t len;
	uint32_t timeout_ms; /* the worker ends itself after it */
	uint32_t has_fd;
};

struct parser_answer {
	int32_t rc;
	uint32_t len;
	uint64_t cpu_ns; /* what the answer took */
	char message[256];
};

struct parser_ops;

/* worker.c: the rest of a worker's life. */
_Noreturn void worker_run(const struct parser_ops *ops, int sock, pid_t host);
