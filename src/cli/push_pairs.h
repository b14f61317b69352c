/* push_pairs.h - names with values: headers of what is pushed, attributes of who pushes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "cli/options.h"

#define PUSH_PAIRS 64

/* Copies, each ended by a NUL. */
struct pairs {
	char *names[PUSH_PAIRS], *values[PUSH_PAIRS];
	size_t len;
};

/* One "name=value" of n bytes; percent: %41 is A. what: whose it is, for the sentence. */
int pairs_add(struct pairs *ret, const char *text, size_t n, bool percent, const char *what,
	      struct err *e);
/* "name=value,name=value", percent-encoded; NULL: nothing. */
int pairs_add_list(struct pairs *ret, const char *text, const char *what, struct err *e);
/* The values of an option, which are to be headers. */
int pairs_add_headers(struct pairs *ret, const struct args *a, const char *option, struct err *e);
/* Whether all can be headers that eacgm does not set itself. */
int pairs_check_headers(const struct pairs *p, const char *what, struct err *e);
void pairs_free(struct pairs *p);
