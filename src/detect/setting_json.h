/* setting_json.h - what a run was made on as JSON. */
#pragma once

#include <jansson.h>

#include "base/error.h"
#include "detect/setting.h"

/* The caller's: an object of lists of values by name. */
json_t *setting_json(const struct setting *s);
/* o NULL: an empty one. -EINVAL with the sentence. */
int setting_parse(struct setting *ret, const json_t *o, struct err *e);
