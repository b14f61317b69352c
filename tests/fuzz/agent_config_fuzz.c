/* agent_config_fuzz.c - hostile files of an agent.
 *
 * Whatever is accepted is options of the agent that can be read; whatever is not leaves nothing,
 * and a sentence that begins with the file's name.
 *
 * links: cli base */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/agent_config.h"
#include "cli/agent_options.h"

extern const struct command cmd_agent;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct agent_config c;
	struct agent_options o;
	struct args a, given = {.command = &cmd_agent};
	struct err e = {""};
	if (agent_config_parse(&c, &cmd_agent, (const char *)data, size, "fuzz", &e)) {
		check(!c.values.len && !c.path && !strncmp(e.msg, "fuzz:", 5));
		return 0;
	}
	check(c.values.len <= AGENT_CONFIG_VALUES);
	for (size_t i = 0; i < c.values.len; i++) {
		check(c.values.data[i].def->name && c.values.data[i].line &&
		      c.values.data[i].column);
		check(c.values.data[i].def->value ? c.values.data[i].text[0] : 1);
	}
	agent_config_merge(&a, &given, &c);
	check(!agent_options_read(&o, &a, &e));
	check(o.where.address[0] && o.budget >= 0 && o.budget <= 1 && o.frozen.window_bytes);
	args_free(&a);
	agent_config_free(&c);
	return 0;
}
