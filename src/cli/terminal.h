/* terminal.h - what can be shown where: width, colour, progress. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/* Columns of the terminal behind f, 60 to 200. Where there is none what COLUMNS says, or 140. */
unsigned terminal_width(FILE *f);

/* Whether to colour: f is a terminal, NO_COLOR is not set, TERM is not "dumb". */
bool terminal_colour(FILE *f);

/* Prints an object, which is the callee's from here on, and a line break on the standard output;
 * flags: jansson's, beside indentation. 0, or -EIO with the sentence. */
int terminal_json(json_t *o, size_t flags, struct err *e);

/* A line on standard error that shows how far long work has come: from one second on,
 * and only on a terminal. Zero-initialise, set what, step, then end. */
struct progress {
	const char *what; /* "exporting" */
	uint64_t started_ns;
	uint64_t shown_ns;
	bool silent; /* not a terminal */
};
void progress_begin(struct progress *p, const char *what);
void progress_step(struct progress *p, uint64_t done, uint64_t total);
void progress_end(struct progress *p);
