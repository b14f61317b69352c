/* pieces.h - stretches of time. */
#pragma once

#include <stdint.h>

#include "base/buffer.h"

struct piece {
	uint64_t start_ns, end_ns;
};
typedef VEC(struct piece) pieces;
