/* agent_rules.c - reads them part by part; layers last, since a catalog may name some. */
#include "cli/agent_rules.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#define OPTION	     "rule"
#define RULE_BYTES   384	 /* a sentence about it has to hold it */
#define PASSWD_BYTES (64u << 10) /* of one user in the user database */

/* A rule as it is read, and which of its parts were there. */
struct rule_read {
	struct job_rule rule;
	char *layers; /* NULL: not given */
	bool traces, told_trace;
};

/* ---- parts ---- */

static int read_glob(char ret[JOB_RULE_GLOB_BYTES], const char *value, struct err *e)
{
	size_t len = strlen(value);
	if (len >= JOB_RULE_GLOB_BYTES)
		return err_set(e, EINVAL, "longer than %d bytes", JOB_RULE_GLOB_BYTES - 1);
	memcpy(ret, value, len + 1);
	return 0;
}

static int read_command(struct rule_read *r, const char *value, struct err *e)
{
	return read_glob(r->rule.command, value, e);
}

static int read_cgroup(struct rule_read *r, const char *value, struct err *e)
{
	if (value[0] != '/' && value[0] != '*')
		return err_set(e, EINVAL,
			       "'%.80s' is no path as in /proc/PID/cgroup: it begins with / or *",
			       value);
	return read_glob(r->rule.cgroup, value, e);
}

/* Once, for all processes: a user database may be far away. */
static int read_user(struct rule_read *r, const char *value, struct err *e)
{
	struct passwd pw, *found = NULL;
	char *end, text[PASSWD_BYTES];
	errno = 0;
	unsigned long n = strtoul(value, &end, 10);
	r->rule.by_user = true;
	r->rule.user = (uid_t)n;
	if (value[0] >= '0' && value[0] <= '9' && !*end && !errno && n < (uid_t)-1)
		return 0;
	if (getpwnam_r(value, &pw, text, sizeof(text), &found) || !found)
		return err_set(e, EINVAL, "there is no user '%.80s' on this host", value);
	r->rule.user = found->pw_uid;
	return 0;
}

static int read_trace(struct rule_read *r, const char *value, struct err *e)
{
	r->told_trace = true;
	r->traces = !strcmp(value, "true");
	return r->traces || !strcmp(value, "false")
		       ? 0
		       : err_set(e, EINVAL, "takes true or false, not '%.80s'", value);
}

static int read_layers(struct rule_read *r, const char *value, struct err *e)
{
	(void)e;
	r->layers = xstrdup(value);
	return 0;
}

static const struct {
	const char *key;
	int (*read)(struct rule_read *r, const char *value, struct err *e);
} parts[] = {
	{"command", read_command}, {"cgroup", read_cgroup}, {"user", read_user},
	{"trace", read_trace},	   {"layers", read_layers},
};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

/* ret_place: of the key. */
static int read_part(struct rule_read *r, const char *key, const char *value, size_t *ret_place,
		     struct err *e)
{
	size_t i = 0;
	while (i < PARTS && strcmp(parts[i].key, key) != 0)
		i++;
	*ret_place = i;
	if (i == PARTS)
		return err_set(e, EINVAL, "unknown (known: command, cgroup, user, trace, layers)");
	if (!*value)
		return err_set(e, EINVAL, "empty");
	if (strchr(value, ';'))
		return err_set(e, EINVAL, "holds a ';': of globs, '?' stands for it");
	return parts[i].read(r, value, e);
}

int agent_rule_check_part(const char *key, const char *value, struct err *e)
{
	struct rule_read r = {.layers = NULL};
	size_t place;
	int rc = read_part(&r, key, value, &place, e);
	free(r.layers);
	return rc;
}

/* ---- a rule ---- */

static int check_whole(const struct rule_read *r, struct err *e)
{
	if (!r->rule.command[0] && !r->rule.cgroup[0] && !r->rule.by_user)
		return err_set(e, EINVAL,
			       "says of no job: give at least one of command, cgroup and user");
	if (!r->told_trace && !r->layers)
		return err_set(e, EINVAL, "says nothing: give trace or layers");
	if (r->layers && r->told_trace && !r->traces)
		return err_set(e, EINVAL, "has layers of what is not traced");
	return 0;
}

/* ret->layers is the caller's, also on failure. */
static int read_rule(struct rule_read *ret, const char *text, struct err *e)
{
	char *copy = xstrdup(text), *save = NULL;
	bool given[PARTS] = {false};
	int rc = strlen(text) > RULE_BYTES
			 ? err_set(e, EINVAL, "longer than %d bytes in all", RULE_BYTES)
			 : 0;
	*ret = (struct rule_read){.traces = true};
	for (char *key = rc ? NULL : strtok_r(copy, ";", &save); key && !rc;
	     key = strtok_r(NULL, ";", &save)) {
		char *value = strchr(key, '=');
		size_t place = PARTS;
		if (!value) {
			rc = err_set(e, EINVAL, "'%.80s' is no KEY=VALUE", key);
			break;
		}
		*value++ = 0;
		for (size_t i = 0; i < PARTS && !rc; i++)
			if (given[i] && !strcmp(parts[i].key, key))
				rc = err_set(e, EINVAL, "%s: given twice", key);
		if (!rc && read_part(ret, key, value, &place, e))
			rc = err_wrap(e, -EINVAL, "%.80s", key);
		if (!rc)
			given[place] = true;
	}
	free(copy);
	return rc ? rc : check_whole(ret, e);
}

/* A rule's own, each of which has to be traced. */
static int take_layers(struct job_rule *ret, char *names, const struct catalog *c, uint32_t layers,
		       struct err *e)
{
	char *save = NULL;
	uint32_t taken = 0;
	for (char *name = strtok_r(names, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		int layer = catalog_layer(c, name);
		if (layer < 0)
			return err_set(e, EINVAL, "there is no layer '%.80s'", name);
		if (!(layers & 1u << layer))
			return err_set(e, EINVAL, "the layer '%.80s' is traced of no job", name);
		taken |= 1u << layer;
	}
	ret->left_out = ~taken;
	return taken ? 0 : err_set(e, EINVAL, "names no layer");
}

/* c NULL: of layers nothing is asked. */
static int read_rules(struct job_rules *ret, const struct args *a, const struct catalog *c,
		      uint32_t layers, struct err *e)
{
	size_t n = args_count(a, OPTION);
	int rc = n > JOB_RULES_MOST ? err_set(e, EINVAL, "more than %d rules", JOB_RULES_MOST) : 0;
	for (size_t i = 0; i < n && !rc; i++) {
		const char *text = args_nth(a, OPTION, i);
		struct rule_read r;
		rc = read_rule(&r, text, e);
		if (!rc && c && r.layers)
			rc = take_layers(&r.rule, r.layers, c, layers, e);
		if (!rc && !r.traces)
			r.rule.left_out = JOB_LEFT_ALONE;
		free(r.layers);
		if (rc)
			return err_wrap(e, rc, "--" OPTION ": '%.*s'", RULE_BYTES, text);
		ret->list[ret->len++] = r.rule;
	}
	return rc ? err_wrap(e, rc, "--" OPTION) : 0;
}

int agent_rules_check(const struct args *a, struct err *e)
{
	struct job_rules *r = xcalloc(1, sizeof(*r));
	int rc = read_rules(r, a, NULL, 0, e);
	free(r);
	return rc;
}

int agent_rules_read(struct job_rules *ret, const struct args *a, const struct catalog *c,
		     uint32_t layers, struct err *e)
{
	return read_rules(ret, a, c, layers, e);
}
