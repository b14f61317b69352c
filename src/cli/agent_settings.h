/* agent_settings.h - what an agent was started with, as JSON. What is a secret is not in it. */
#pragma once

#include <jansson.h>

#include "cli/options.h"

/* All options of the command, with the values that were told; those of a file are among a's. file:
 * that of --config, or NULL. The caller's. */
json_t *agent_settings_json(const struct args *a, const char *file);
