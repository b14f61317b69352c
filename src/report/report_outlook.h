/* report_outlook.h - early warnings as JSON: the same for report and watch. */
#pragma once

#include <jansson.h>

#include "incident/outlook.h"

/* The caller's. Keys are documented in docs/early-warning.md; what is not known is null. */
json_t *outlook_json(const struct outlook_warning *w);
