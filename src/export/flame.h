/* flame.h - what a format of call trees is: one struct, one file, one line in
 * flame_formats.c.
 *
 * A format writes to a stream that it is given. It does not open, name or rename files, and
 * leaves checking for write errors to its caller. */
#pragma once

#include <stdio.h>

#include "base/calltree.h"
#include "base/error.h"

struct flame_format {
	const char *name;      /* "svg" */
	const char *extension; /* of files, without the dot */
	/* Writes a tree whose totals are set (calltree_sum). 0, or negative errno with the
	 * sentence where the tree cannot be written in this format. */
	int (*write)(FILE *out, const struct calltree *t, struct err *e);
};

extern const struct flame_format flame_svg;	   /* flame_svg.c */
extern const struct flame_format flame_folded;	   /* flame_folded.c */
extern const struct flame_format flame_pprof;	   /* flame_pprof.c */
extern const struct flame_format flame_speedscope; /* flame_speedscope.c */

/* The format of a name, NULL when there is none. */
const struct flame_format *flame_format(const char *name);
