/* http_auth.h - the token that a server asks for: "Authorization: Bearer TOKEN" (RFC 6750). */
#pragma once

#include <stdbool.h>

#include "base/error.h"

#define HTTP_TOKEN_LEAST 16
#define HTTP_TOKEN_MOST	 1024

/* The first line of a file, malloc'ed: 16 to 1,024 letters, digits and what RFC 6750 lets a token
 * have besides. */
int http_token_read(char **ret, const char *path, struct err *e);

/* Whether a header says the token; NULL: it is not there. Takes the same time wherever the two
 * differ, and however long what was said is but for reading it. */
bool http_token_fits(const char *token, const char *authorization);
