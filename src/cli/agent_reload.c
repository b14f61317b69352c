/* agent_reload.c - compares what was told of each option of the command's table. */
#include "cli/agent_reload.h"

#include <string.h>

#define LEN(x) (sizeof(x) / sizeof((x)[0]))

static const char *const listeners[] = {"listen", "tls-cert", "tls-key", "token-file"};
/* What probes, samples and the detector do not depend on. */
static const char *const others[] = {
	"budget",	"own-budget", "freeze-before", "freeze-after", "freeze-files",
	"freeze-bytes", "freeze-age", "store-keep",    "no-dcgm",      "store-bytes",
};
static const char *const budgets[] = {"budget", "own-budget"};
/* Of the receiver of OTLP. Nobody takes it over where profiles go to it as well, nor a URL where
 * there was none, or is none any more. */
static const char *const receiver[] = {"otlp", "otlp-interval", "otlp-header", "otlp-ca"};

static bool has_budget(const struct args *a)
{
	return args_has(a, "budget") || args_has(a, "own-budget");
}

static bool is_taken(const struct args *was, const struct args *now, const char *name)
{
	/* beside a detector there is none unless one is told, and one that comes or goes decides by
	 * what it judges */
	if (name_is_among(name, budgets, LEN(budgets)) && args_has(now, "detect"))
		return has_budget(was) && has_budget(now);
	if (name_is_among(name, receiver, LEN(receiver)))
		return !args_has(now, "otlp-profiles") &&
		       (strcmp(name, "otlp") != 0 || (args_has(was, name) && args_has(now, name)));
	return name_is_among(name, listeners, LEN(listeners)) ||
	       name_is_among(name, others, LEN(others));
}

void agent_changes_make(struct agent_changes *ret, const struct args *was, const struct args *now,
			bool catalogs_differ)
{
	*ret = (struct agent_changes){.listens = args_has(now, "tls-cert") ||
						 args_has(now, "token-file")};
	for (const struct opt_def *o = was->command->options; o->name; o++) {
		if (args_same(was, now, o->name) &&
		    !(catalogs_differ && !strcmp(o->name, "catalog")))
			continue;
		struct buf *to = is_taken(was, now, o->name) ? &ret->taken : &ret->anew;
		buf_printf(to, "%s--%s", to->len ? ", " : "", o->name);
		ret->listens |= name_is_among(o->name, listeners, LEN(listeners));
	}
	buf_byte(&ret->taken, 0);
	buf_byte(&ret->anew, 0);
}

void agent_changes_free(struct agent_changes *c)
{
	buf_free(&c->taken);
	buf_free(&c->anew);
}
