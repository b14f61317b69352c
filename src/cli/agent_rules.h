/* agent_rules.h - rules by job of an agent (session/job_rules.h), from --rule: parts with ';'
 * between them, "command=python3 *serve*;trace=false". Parts are command, cgroup, user (a name or a
 * number), trace (true, false) and layers, with commas. */
#pragma once

#include "cli/options.h"
#include "probe/catalog.h"
#include "session/job_rules.h"

/* Whether a rule may have that part: -EINVAL with a sentence that names neither. */
int agent_rule_check_part(const char *key, const char *value, struct err *e);

/* Whether the options' rules are some, whatever layers there are. */
int agent_rules_check(const struct args *a, struct err *e);

/* ret: of job_rules_init. layers: those that are traced, a bit for each; a rule can name no other.
 */
int agent_rules_read(struct job_rules *ret, const struct args *a, const struct catalog *c,
		     uint32_t layers, struct err *e);
