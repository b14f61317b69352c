/* options.h - commands and their options: one table per command, from which the
 * parser, --help, the man page and the shell completion are all made.
 *
 * The table is the only place that knows an option. Asking for an option that the table
 * of the command does not hold ends the program: it is a mistake in the code. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

#define EXIT_USAGE 2

enum opt_flags {
	OPT_REPEAT = 1,		/* may be given more than once */
	OPT_OPTIONAL_VALUE = 2, /* --name or --name=VALUE, never --name VALUE */
	OPT_FILE = 4,		/* the value is a file's path (completion) */
	OPT_LIST = 8, /* the value is several, with commas: choices are those known here */
};

struct opt_def {
	char letter;	     /* 'o' for -o, 0 for none */
	const char *name;    /* "output" for --output; NULL ends a table */
	const char *value;   /* how help shows the value: "FILE"; NULL for a flag */
	const char *help;    /* a sentence or two, no line breaks */
	const char *choices; /* "total|self|calls": the only values allowed; NULL for any */
	unsigned flags;	     /* enum opt_flags */
};

struct cmd_example {
	const char *line; /* "eacgm report run.eacgm"; NULL ends a list */
	const char *what; /* what it does */
};

struct args;

struct command {
	const char *name;
	const char *synopsis;		/* what follows the name: "FILE [OPTION...]" */
	const char *summary;		/* one line, no full stop */
	const char *const *description; /* paragraphs, ended by NULL */
	const struct opt_def *options;
	const struct cmd_example *examples;
	int min_args;			  /* words that are no options */
	int max_args;			  /* -1 for any number */
	bool takes_rest;		  /* -- CMD ARG... */
	int (*run)(const struct args *a); /* returns the exit status */
};

/* A parsed command line; strings are those of argv. */
struct args {
	const struct command *command;
	VEC(struct {
		const struct opt_def *def;
		const char *value;
	})
	options;
	VEC(const char *) words;
	char **rest; /* after --, ended by NULL; NULL when there was no -- */
	size_t rest_len;
};

/* Parses the words after the command's name. 0; 1 when help is asked for; -EINVAL with
 * a sentence. Whatever it returns, args_free is due. */
int args_parse(struct args *a, const struct command *cmd, int argc, char **argv, struct err *e);
void args_free(struct args *a);

/* The option's last value ("" for a flag that was given), NULL when it was not given. */
const char *args_get(const struct args *a, const char *name);
bool args_has(const struct args *a, const char *name);
/* The first of n names that was given, or NULL. */
const char *args_first(const struct args *a, const char *const *names, size_t n);

/* How often it was given, and the i-th value. */
size_t args_count(const struct args *a, const char *name);
const char *args_nth(const struct args *a, const char *name, size_t i);

/* Whether two of the same command have the same values of an option. */
bool args_same(const struct args *a, const struct args *b, const char *name);

/* The value as a number of min..max; *ret stays as it is when the option was not given. */
int args_u64(const struct args *a, const char *name, uint64_t min, uint64_t max, uint64_t *ret,
	     struct err *e);

/* The same of a number with a fraction: "0.5", "1e-9". */
int args_real(const struct args *a, const char *name, double min, double max, double *ret,
	      struct err *e);

/* A time in nanoseconds, up to 1e9 s: digits, maybe a fraction, and maybe a unit: ns, us, ms, s, m
 * (minutes), h; seconds without. false: text is none, and *ret stays. */
#define TIME_TEXT_MOST_NS 1000000000000000000ULL
bool time_of_text(const char *text, uint64_t *ret_ns);

/* The option's value as such a time of min..max; *ret stays as it is when it was not given. */
int args_time(const struct args *a, const char *name, uint64_t min_ns, uint64_t max_ns,
	      uint64_t *ret_ns, struct err *e);

/* Prints "eacgm CMD: sentence (see 'eacgm CMD --help')"; returns EXIT_USAGE. */
int usage_error(const struct command *cmd, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Prints "eacgm CMD: sentence"; returns 1. */
int command_failed(const struct command *cmd, const struct err *e);

/* Whether it is one of n names. */
bool name_is_among(const char *name, const char *const *names, size_t n);

/* The one of n names that was most likely meant by the word, NULL when none is close. */
const char *closest_name(const char *word, const char *const *names, size_t n);
