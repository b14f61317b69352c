/* file_facts.h - what the tracer has to know of a mapped file: its build id, where exceptions and
 * the dynamic linker are hooked, which places the catalog asks to probe.
 *
 * The file is read in a process of its own (src/parser): these are the two ends of that question.
 * What comes back is checked as a stranger's. Internal to src/probe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "probe/attach.h"
#include "probe/plan.h"

/* The hooks of a file, by the program that runs there. */
enum hook_kind { HOOK_UNWIND_BEGINS, HOOK_UNWIND_ENDS, HOOK_LOADER, HOOK_KINDS };
#define HOOKS_MOST 8 /* of a kind */

struct file_hooks {
	struct hook_site sites[HOOKS_MOST];
	uint32_t n;
};

struct file_facts {
	char build_id[129];
	char interpreter[256]; /* its dynamic linker; "" = none */
	bool hides_unwinder;   /* throws C++ exceptions with an unwinder that nobody can find */
	struct file_hooks hooks[HOOK_KINDS];
	struct file_plan plan; /* probes are numbered as in the session's plan */
};

/* In the worker: ctx is the session's const struct plan, of which the catalog and what is asked for
 * are used; the question is the path as the process sees it. A parser_fn. */
int file_facts_answer(void *ctx, int fd, const uint8_t *question, size_t len, struct buf *ret,
		      struct err *e);

/* In the tracer: takes an answer in, new probes and layouts are appended to the plan; path as
 * asked. -EPROTO: it is no answer, and nothing of it is used. -E2BIG: MAX_PROBES is reached. */
int file_facts_take(struct file_facts *ret, struct plan *plan, const char *path,
		    const uint8_t *answer, size_t len, struct err *e);
void file_facts_free(struct file_facts *f);
