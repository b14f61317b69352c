/* agent_config.h - the file of `eacgm agent -c`: YAML that says what the command line can say.
 *
 * It is read into options of the command's table, so that what an option means, its bounds and what
 * it is when nobody tells are in one place, agent_options.c. Input is not trusted: its size and the
 * number of values are bounded; anchors, aliases, tags and several documents are refused. */
#pragma once

#include "cli/options.h"

#define AGENT_CONFIG_BYTES  (64 << 10)
#define AGENT_CONFIG_VALUES 512

struct agent_config_value {
	const struct opt_def *def;
	const char *key; /* as it is in the file: "freeze.before" */
	char *text;
	size_t line, column; /* from 1 */
};

struct agent_config {
	char *path;
	VEC(struct agent_config_value) values;
};

/* cmd: whose options they are. Each value is one that the option takes, by itself; on failure the
 * sentence is "FILE:LINE:COLUMN: KEY: what is wrong" and ret is empty. */
int agent_config_parse(struct agent_config *ret, const struct command *cmd, const char *text,
		       size_t len, const char *origin, struct err *e);
int agent_config_load(struct agent_config *ret, const struct command *cmd, const char *path,
		      struct err *e);
void agent_config_free(struct agent_config *c);

/* The options that were given, and those of the file that they leave: an option that was given is
 * not taken from the file, nor is one that cannot stand beside it (a target, a budget beside
 * --detect). Strings are those of both; args_free is due. */
void agent_config_merge(struct args *ret, const struct args *given, const struct agent_config *c);

/* The sentence tells what is wrong with an option: puts the place in front of it, where the option
 * came from the file. */
void agent_config_blame(const struct agent_config *c, const struct args *given, const char *name,
			struct err *e);
