/* definers.h - whether a file defines a function, asked of a process without rights. Internal to
 * src/probe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/* The question is the symbol, the answer one byte: 1 where the file defines it. A parser_fn. */
int definers_answer(void *ctx, int fd, const uint8_t *question, size_t len, struct buf *ret,
		    struct err *e);
