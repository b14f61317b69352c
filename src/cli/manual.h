/* manual.h - what is written from the option tables: help, man pages, completion. */
#pragma once

#include <stdio.h>

#include "cli/options.h"

/* What the program says about itself. */
struct program {
	const char *summary;
	const char *const *description; /* paragraphs, ended by NULL */
	const struct command *const *commands;
	size_t commands_len;
	const char *version;
};

/* --help of a command, wrapped to width columns. */
void help_command(FILE *out, const struct command *cmd, unsigned width);

/* The list of commands. */
void help_program(FILE *out, const struct program *p, unsigned width);

/* Man pages in the man(7) macros: eacgm-CMD.1 and eacgm.1. */
void man_command(FILE *out, const struct command *cmd, const struct program *p);
void man_program(FILE *out, const struct program *p);

/* A bash completion file. */
void completion_bash(FILE *out, const struct program *p);
