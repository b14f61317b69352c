/* mutate.h - changes bytes as a fuzzer would, the same for the same state. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/* Replaces to by a changed copy of one seed, now and then with a part of another. */
void mutate(struct buf *to, const struct buf *seed, const struct buf *other, uint64_t *random);
