/* texts.h - texts that calls have as arguments: names of types and modules, and Python code. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/call_ring.h"

#define LOWEST 4096 /* no address is below */

/* What the call is to hold for the text at value, which is fetched so; it may be followed as the
 * probed function does. False: there is none. */
bool calls_text(const struct call_site *site, const struct arg_desc *a, uint64_t value,
		uint64_t *ret);

/* Room for what was told, of CALLS_TEXTS_BYTES: zeros at first, and again in forked children. */
#define CALLS_TEXTS_MOST  (1u << 14)
#define CALLS_TEXTS_BYTES (CALLS_TEXTS_MOST * sizeof(uint64_t))
extern uint64_t *calls_texts;
