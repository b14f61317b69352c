/* flame_svg_impl.h - the parts of the SVG flame graph: which frames are drawn, and the page
 * around them. Private to flame_svg*.c. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/calltree.h"

/* One drawn frame. Rows are in preorder, siblings by name; values below 0 count as 0. */
struct svg_row {
	uint32_t depth;	 /* of the root: 0 */
	uint32_t frame;	 /* number in calltree.frames, SVG_SMALLER for merged siblings */
	uint32_t merged; /* how many siblings were too narrow, of SVG_SMALLER */
	int64_t total[2], self[2];
};
#define SVG_SMALLER UINT32_MAX

struct svg_rows {
	VEC(struct svg_row) rows;
	uint32_t depth; /* levels, the root's included */
};

/* The rows of a tree whose totals are set. Siblings that are narrower than 1/steps of the root
 * become one row, or none where that would be narrower too; their parents keep their totals.
 * steps is lowered until there are at most max rows of single frames. */
void svg_rows_make(struct svg_rows *r, const struct calltree *t, uint32_t steps, size_t max);
void svg_rows_free(struct svg_rows *r);

/* Style and script, in flame_svg_page.css and .js. */
extern const char flame_svg_style[], flame_svg_script[];
