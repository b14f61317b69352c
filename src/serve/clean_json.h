/* clean_json.h - text of processes and hosts as JSON's strings, without controls. */
#pragma once

#include <jansson.h>
#include <string.h>

#include "base/utf8.h"

/* Each control is '?'; what is no UTF-8, as utf8_append has it. The caller's. */
static inline json_t *clean_json(const char *text)
{
	struct buf clean = {0};
	utf8_append_clean(&clean, text, strlen(text), '?');
	json_t *ret = json_stringn((const char *)clean.data, clean.len);
	buf_free(&clean);
	return ret;
}
