/* json_out.h - writes JSON that is safe to look at: what a terminal obeys (base/utf8.h) is escaped
 * in strings, as \u009b, where jansson's own functions leave it as it is. Whoever reads it gets the
 * same strings. */
#pragma once

#include <jansson.h>
#include <stdio.h>

/* As json_dumpf: 0, or -1 where v cannot be written, or the stream has failed. */
int json_out_file(const json_t *v, FILE *out, size_t flags);

/* As json_dumps: malloc'ed, or NULL. */
char *json_out_text(const json_t *v, size_t flags);
