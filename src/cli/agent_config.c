/* agent_config.c - reads it, event by event: the file has two levels, rules have one more, and the
 * first thing that is not expected ends the reading. */
#include "cli/agent_config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "cli/agent_options.h"
#include "cli/agent_rules.h"

#define VALUE_BYTES 2048 /* of one value */

enum shape {
	GROUP, /* has keys of its own */
	ONE,   /* one value */
	MANY,  /* a list, or one value */
	PAIRS, /* names with values: an option takes "NAME=VALUE" */
	YES,   /* true: the option is given */
	NO,    /* false: the option is given */
	RULES, /* a list of groups: an option for each, of its parts */
	PART,  /* of such a group: "KEY=VALUE" */
	PARTS, /* likewise, a list or one value */
};

/* "freeze.before" is the key "before" of the group "freeze". */
static const struct known {
	const char *key;
	enum shape shape;
	const char *option;
} known[] = {
	{"listen", ONE, "listen"},
	{"tls", GROUP, NULL},
	{"tls.cert", ONE, "tls-cert"},
	{"tls.key", ONE, "tls-key"},
	{"token_file", ONE, "token-file"},
	{"target", GROUP, "all"}, /* 'target: all' */
	{"target.pid", MANY, "pid"},
	{"target.cgroup", ONE, "cgroup"},
	{"target.all", YES, "all"},
	{"layers", MANY, "layers"},
	{"probes", MANY, "probe"},
	{"catalogs", MANY, "catalog"},
	{"everything", YES, "everything"},
	{"rules", RULES, "rule"},
	{"rules.match", GROUP, NULL},
	{"rules.match.command", PART, NULL},
	{"rules.match.cgroup", PART, NULL},
	{"rules.match.user", PART, NULL},
	{"rules.trace", PART, NULL},
	{"rules.layers", PARTS, NULL},
	{"budget", ONE, "budget"},
	{"own_budget", ONE, "own-budget"},
	{"detect", YES, "detect"},
	{"alarms_per_hour", ONE, "alarms-per-hour"},
	{"least_effect", ONE, "least-effect"},
	{"freeze", GROUP, NULL},
	{"freeze.folder", ONE, "freeze"},
	{"freeze.before", ONE, "freeze-before"},
	{"freeze.after", ONE, "freeze-after"},
	{"freeze.memory_mb", ONE, "freeze-memory"},
	{"freeze.files", ONE, "freeze-files"},
	{"freeze.max_bytes", ONE, "freeze-bytes"},
	{"freeze.max_age", ONE, "freeze-age"},
	{"peers", GROUP, NULL},
	{"peers.urls", MANY, "peer"},
	{"peers.ca", ONE, "peer-ca"},
	{"peers.token_file", ONE, "peer-token-file"},
	{"otlp", GROUP, NULL},
	{"otlp.url", ONE, "otlp"},
	{"otlp.interval", ONE, "otlp-interval"},
	{"otlp.headers", MANY, "otlp-header"},
	{"otlp.ca", ONE, "otlp-ca"},
	{"otlp.profiles", YES, "otlp-profiles"},
	{"pprof", GROUP, NULL},
	{"pprof.url", ONE, "pprof-push"},
	{"pprof.headers", MANY, "pprof-header"},
	{"pprof.ca", ONE, "pprof-ca"},
	{"parca", GROUP, NULL},
	{"parca.url", ONE, "parca-push"},
	{"parca.headers", MANY, "parca-header"},
	{"parca.ca", ONE, "parca-ca"},
	{"profile_interval", ONE, "profile-interval"},
	{"store", GROUP, NULL},
	{"store.file", ONE, "store"},
	{"store.keep_days", ONE, "store-keep"},
	{"store.max_bytes", ONE, "store-bytes"},
	{"kubernetes", GROUP, NULL},
	{"kubernetes.kubelet_socket", ONE, "kubelet-socket"},
	{"kubernetes.runtime_socket", ONE, "runtime-socket"},
	{"hpc_job_mapping_dir", ONE, "hpc-job-mapping-dir"},
	{"labels", PAIRS, "label"},
	{"label_env", MANY, "label-env"},
	{"dcgm", NO, "no-dcgm"},
	{"duration", ONE, "duration"},
};
#define KNOWN (sizeof(known) / sizeof(known[0]))

struct reader {
	yaml_parser_t parser;
	struct agent_config *config;
	const struct command *cmd;
	const char *origin;
	struct err *e;
	size_t first_line[KNOWN]; /* where a key was given, 0: it was not */
	struct buf rule;	  /* what the one at hand has so far */
};

/* ---- what is wrong ---- */

static int fail(struct reader *r, yaml_mark_t m, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static int fail(struct reader *r, yaml_mark_t m, const char *key, const char *fmt, ...)
{
	char what[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	err_set(r->e, EINVAL, "%s:%zu:%zu: %s%s%s", r->origin, m.line + 1, m.column + 1, key,
		*key ? ": " : "", what);
	return -EINVAL;
}

static int fail_syntax(struct reader *r)
{
	const yaml_parser_t *p = &r->parser;
	/* what is no UTF-8 has an offset alone */
	yaml_mark_t m = p->error == YAML_READER_ERROR ? p->mark : p->problem_mark;
	return fail(r, m, "", "not YAML: %s%s%s", p->context ? p->context : "",
		    p->context ? " " : "", p->problem ? p->problem : "cannot be read");
}

/* ---- events ---- */

static const char *problem_of(const yaml_event_t *ev)
{
	const yaml_char_t *anchor = NULL, *tag = NULL;
	if (ev->type == YAML_ALIAS_EVENT)
		return "aliases (*name) are not supported";
	if (ev->type == YAML_SCALAR_EVENT) {
		anchor = ev->data.scalar.anchor;
		tag = ev->data.scalar.tag;
	} else if (ev->type == YAML_SEQUENCE_START_EVENT) {
		anchor = ev->data.sequence_start.anchor;
		tag = ev->data.sequence_start.tag;
	} else if (ev->type == YAML_MAPPING_START_EVENT) {
		anchor = ev->data.mapping_start.anchor;
		tag = ev->data.mapping_start.tag;
	}
	return anchor ? "anchors (&name) are not supported"
	       : tag  ? "tags (!name) are not supported"
		      : NULL;
}

/* On success the event is the caller's. */
static int next(struct reader *r, yaml_event_t *ret)
{
	if (!yaml_parser_parse(&r->parser, ret))
		return fail_syntax(r);
	const char *problem = problem_of(ret);
	int rc = problem ? fail(r, ret->start_mark, "", "%s", problem) : 0;
	if (rc)
		yaml_event_delete(ret);
	return rc;
}

static const char *kind_of(const yaml_event_t *ev)
{
	return ev->type == YAML_SCALAR_EVENT	       ? "text"
	       : ev->type == YAML_SEQUENCE_START_EVENT ? "a list"
						       : "keys and values";
}

/* A copy of the text, NULL with a sentence. */
static char *text_of(struct reader *r, const yaml_event_t *ev, const char *key)
{
	if (ev->type != YAML_SCALAR_EVENT) {
		fail(r, ev->start_mark, key, "expected a value, found %s", kind_of(ev));
		return NULL;
	}
	const char *s = (const char *)ev->data.scalar.value;
	size_t len = ev->data.scalar.length;
	int rc = 0;
	for (size_t i = 0; i < len && !rc; i++)
		if ((unsigned char)s[i] < ' ' || s[i] == 0x7f)
			rc = fail(r, ev->start_mark, key, "holds a control character");
	if (!rc && !len)
		rc = fail(r, ev->start_mark, key, "empty");
	if (!rc && len > VALUE_BYTES)
		rc = fail(r, ev->start_mark, key, "longer than %d bytes", VALUE_BYTES);
	return rc ? NULL : xstrdup(s);
}

/* ---- values ---- */

static const struct opt_def *option_of(const struct command *cmd, const char *name)
{
	const struct opt_def *o = cmd->options;
	while (o->name && strcmp(o->name, name) != 0)
		o++;
	return o;
}

/* Takes text. */
static void add(struct reader *r, const struct known *k, yaml_mark_t m, char *text)
{
	*vec_push(&r->config->values) = (struct agent_config_value){
		option_of(r->cmd, k->option), k->key, text, m.line + 1, m.column + 1};
}

/* "option '--listen' takes" and "--listen: " are "takes" and "" here. */
static const char *without_option(const char *sentence, const char *name)
{
	char *beginnings[] = {xasprintf("option '--%s' ", name), xasprintf("--%s: ", name)};
	for (size_t i = 0; i < 2; i++) {
		size_t n = strlen(beginnings[i]);
		if (!strncmp(sentence, beginnings[i], n)) {
			sentence += n;
			break;
		}
	}
	free(beginnings[0]);
	free(beginnings[1]);
	return sentence;
}

/* Whether the option takes the value that was added last, as its only one. */
static int check_last(struct reader *r, yaml_mark_t m)
{
	const struct agent_config_value *v = &r->config->values.data[r->config->values.len - 1];
	struct args alone = {.command = r->cmd};
	struct err e = {0};
	typeof(alone.options.data) option = vec_push(&alone.options);
	option->def = v->def;
	option->value = v->text;
	int rc = agent_options_check(&alone, v->def->name, &e);
	args_free(&alone);
	return rc ? fail(r, m, v->key, "%s", without_option(e.msg, v->def->name)) : 0;
}

/* False with a sentence. */
static bool has_room(struct reader *r, const struct known *k, yaml_mark_t m)
{
	return r->config->values.len < AGENT_CONFIG_VALUES ||
	       !fail(r, m, k->key, "more than %d values in the file", AGENT_CONFIG_VALUES);
}

static int add_text(struct reader *r, const struct known *k, const yaml_event_t *ev)
{
	if (!has_room(r, k, ev->start_mark))
		return -EINVAL;
	char *text = text_of(r, ev, k->key);
	if (!text)
		return -EINVAL;
	add(r, k, ev->start_mark, text);
	return check_last(r, ev->start_mark);
}

static int add_list(struct reader *r, const struct known *k, const yaml_event_t *start)
{
	size_t n = 0;
	yaml_event_t ev;
	int rc;
	while (!(rc = next(r, &ev))) {
		bool end = ev.type == YAML_SEQUENCE_END_EVENT;
		if (!end)
			rc = add_text(r, k, &ev);
		yaml_event_delete(&ev);
		if (rc || end)
			break;
		n++;
	}
	return rc ? rc : n == 0 ? fail(r, start->start_mark, k->key, "empty list") : 0;
}

static int add_flag(struct reader *r, const struct known *k, const yaml_event_t *ev)
{
	char *text = text_of(r, ev, k->key);
	if (!text)
		return -EINVAL;
	bool yes = !strcmp(text, "true");
	int rc = yes || !strcmp(text, "false")
			 ? 0
			 : fail(r, ev->start_mark, k->key, "takes true or false, not '%s'", text);
	free(text);
	if (!rc && yes == (k->shape == YES))
		add(r, k, ev->start_mark, xstrdup(""));
	return rc;
}

/* The text of a name and its value; NULL with a sentence. */
static char *pair_of(struct reader *r, const struct known *k, const yaml_event_t *name,
		     const yaml_event_t *value)
{
	char *n = text_of(r, name, k->key), *v = n ? text_of(r, value, k->key) : NULL, *ret = NULL;
	if (v && strchr(n, '='))
		fail(r, name->start_mark, k->key, "'%.80s' is no name", n);
	else if (v)
		ret = xasprintf("%s=%s", n, v);
	free(n);
	free(v);
	return ret;
}

static int add_pair(struct reader *r, const struct known *k, const yaml_event_t *name)
{
	yaml_event_t value;
	if (!has_room(r, k, name->start_mark))
		return -EINVAL;
	int rc = next(r, &value);
	if (rc)
		return rc;
	char *text = pair_of(r, k, name, &value);
	yaml_event_delete(&value);
	if (!text)
		return -EINVAL;
	add(r, k, name->start_mark, text);
	return check_last(r, name->start_mark);
}

static int add_pairs(struct reader *r, const struct known *k, const yaml_event_t *start)
{
	if (start->type != YAML_MAPPING_START_EVENT)
		return fail(r, start->start_mark, k->key, "expected names and values, found %s",
			    kind_of(start));
	yaml_event_t name;
	int rc;
	while (!(rc = next(r, &name))) {
		bool end = name.type == YAML_MAPPING_END_EVENT;
		if (!end)
			rc = add_pair(r, k, &name);
		yaml_event_delete(&name);
		if (rc || end)
			break;
	}
	return rc;
}

/* ---- keys ---- */

static int read_keys(struct reader *r, const char *group);

/* 'target: all', the one group that may be a word. */
static int add_group(struct reader *r, const struct known *k, const yaml_event_t *ev)
{
	if (ev->type == YAML_MAPPING_START_EVENT)
		return read_keys(r, k->key);
	if (!k->option || ev->type != YAML_SCALAR_EVENT)
		return fail(r, ev->start_mark, k->key, "expected keys and values, found %s",
			    kind_of(ev));
	if (strcmp((const char *)ev->data.scalar.value, k->option) != 0)
		return fail(r, ev->start_mark, k->key,
			    "expected 'all', or one of the keys pid and cgroup");
	add(r, k, ev->start_mark, xstrdup(""));
	return 0;
}

/* ---- rules ---- */

/* Takes text. */
static int put_part(struct reader *r, const struct known *k, yaml_mark_t m, char *text)
{
	const char *key = strrchr(k->key, '.') + 1;
	struct err e = {0};
	int rc = agent_rule_check_part(key, text, &e);
	if (rc)
		fail(r, m, k->key, "%s", e.msg);
	else
		buf_printf(&r->rule, "%s%s=%s", r->rule.len ? ";" : "", key, text);
	free(text);
	return rc;
}

static int add_part(struct reader *r, const struct known *k, const yaml_event_t *ev)
{
	char *text = text_of(r, ev, k->key);
	return text ? put_part(r, k, ev->start_mark, text) : -EINVAL;
}

/* One part of all of the list. */
static int add_parts(struct reader *r, const struct known *k, const yaml_event_t *start)
{
	struct buf all = {0};
	yaml_event_t ev;
	int rc;
	if (start->type != YAML_SEQUENCE_START_EVENT)
		return add_part(r, k, start);
	while (!(rc = next(r, &ev)) && ev.type != YAML_SEQUENCE_END_EVENT) {
		char *text = text_of(r, &ev, k->key);
		yaml_event_delete(&ev);
		if (text)
			buf_printf(&all, "%s%s", all.len ? "," : "", text);
		free(text);
		rc = text ? 0 : -EINVAL;
		if (rc)
			break;
	}
	if (!rc)
		yaml_event_delete(&ev);
	if (!rc && !all.len)
		rc = fail(r, start->start_mark, k->key, "empty list");
	if (!rc)
		rc = put_part(r, k, start->start_mark,
			      xasprintf("%.*s", (int)all.len, (const char *)all.data));
	buf_free(&all);
	return rc;
}

static int add_rule(struct reader *r, const struct known *k, const yaml_event_t *start, size_t n)
{
	if (start->type != YAML_MAPPING_START_EVENT)
		return fail(r, start->start_mark, k->key, "expected keys and values, found %s",
			    kind_of(start));
	if (n == JOB_RULES_MOST)
		return fail(r, start->start_mark, k->key, "more than %d rules", JOB_RULES_MOST);
	if (!has_room(r, k, start->start_mark))
		return -EINVAL;
	for (size_t i = 0; i < KNOWN; i++)
		if (!strncmp(known[i].key, "rules.", 6))
			r->first_line[i] = 0;
	r->rule.len = 0;
	int rc = read_keys(r, k->key);
	if (rc)
		return rc;
	add(r, k, start->start_mark,
	    xasprintf("%.*s", (int)r->rule.len, r->rule.len ? (const char *)r->rule.data : ""));
	return check_last(r, start->start_mark);
}

static int add_rules(struct reader *r, const struct known *k, const yaml_event_t *start)
{
	size_t n = 0;
	yaml_event_t ev;
	int rc;
	if (start->type != YAML_SEQUENCE_START_EVENT)
		return fail(r, start->start_mark, k->key, "expected a list, found %s",
			    kind_of(start));
	while (!(rc = next(r, &ev))) {
		bool end = ev.type == YAML_SEQUENCE_END_EVENT;
		if (!end)
			rc = add_rule(r, k, &ev, n);
		yaml_event_delete(&ev);
		if (rc || end)
			break;
		n++;
	}
	return rc ? rc : n == 0 ? fail(r, start->start_mark, k->key, "empty list") : 0;
}

static int add_value(struct reader *r, const struct known *k, const yaml_event_t *ev)
{
	if (k->shape == RULES)
		return add_rules(r, k, ev);
	if (k->shape == PART)
		return add_part(r, k, ev);
	if (k->shape == PARTS)
		return add_parts(r, k, ev);
	if (k->shape == GROUP)
		return add_group(r, k, ev);
	if (k->shape == PAIRS)
		return add_pairs(r, k, ev);
	if (k->shape == YES || k->shape == NO)
		return add_flag(r, k, ev);
	if (k->shape == MANY && ev->type == YAML_SEQUENCE_START_EVENT)
		return add_list(r, k, ev);
	return add_text(r, k, ev);
}

/* The name of a key within its group, NULL: it is of another. */
static const char *name_in(const struct known *k, const char *group)
{
	size_t n = strlen(group);
	if (n && (strncmp(k->key, group, n) != 0 || k->key[n] != '.'))
		return NULL;
	const char *name = k->key + n + (n > 0);
	return strchr(name, '.') ? NULL : name;
}

static void fail_unknown(struct reader *r, yaml_mark_t m, const char *group, const char *name)
{
	const char *names[KNOWN];
	struct buf list = {0};
	size_t n = 0;
	for (size_t i = 0; i < KNOWN; i++) {
		const char *other = name_in(&known[i], group);
		if (!other)
			continue;
		names[n++] = other;
		buf_printf(&list, "%s%s", list.len ? ", " : "", other);
	}
	char *key = xasprintf("%s%s%.48s", group, *group ? "." : "", name);
	const char *meant = closest_name(name, names, n);
	if (meant)
		fail(r, m, key, "unknown key, did you mean '%s'?", meant);
	else
		fail(r, m, key, "unknown key (known: %.*s)", (int)list.len,
		     (const char *)list.data);
	buf_free(&list);
	free(key);
}

/* The key of an event, which must be known, and not given before; NULL with a sentence. */
static const struct known *known_of(struct reader *r, const yaml_event_t *ev, const char *group)
{
	char *name = text_of(r, ev, group);
	if (!name)
		return NULL;
	size_t i = 0;
	while (i < KNOWN &&
	       (!name_in(&known[i], group) || strcmp(name_in(&known[i], group), name) != 0))
		i++;
	if (i == KNOWN)
		fail_unknown(r, ev->start_mark, group, name);
	free(name);
	if (i == KNOWN)
		return NULL;
	if (r->first_line[i]) {
		fail(r, ev->start_mark, known[i].key, "given twice (first in line %zu)",
		     r->first_line[i]);
		return NULL;
	}
	r->first_line[i] = ev->start_mark.line + 1;
	return &known[i];
}

/* Keys and values to the end of their mapping, whose start was read. */
static int read_keys(struct reader *r, const char *group)
{
	yaml_event_t key, value;
	int rc;
	while (!(rc = next(r, &key))) {
		bool end = key.type == YAML_MAPPING_END_EVENT;
		const struct known *k = end ? NULL : known_of(r, &key, group);
		yaml_event_delete(&key);
		if (!k)
			return end ? 0 : -EINVAL;
		rc = next(r, &value);
		if (rc)
			return rc;
		rc = add_value(r, k, &value);
		yaml_event_delete(&value);
		if (rc)
			return rc;
	}
	return rc;
}

/* ---- the file ---- */

/* One mapping in one document, or nothing at all. */
static int read_stream(struct reader *r)
{
	bool any = false, end = false;
	int rc = 0;
	while (!rc && !end) {
		yaml_event_t ev;
		rc = next(r, &ev);
		if (rc)
			return rc;
		end = ev.type == YAML_STREAM_END_EVENT;
		if (ev.type == YAML_DOCUMENT_START_EVENT && any)
			rc = fail(r, ev.start_mark, "", "more than one document in the file");
		else if (ev.type == YAML_MAPPING_START_EVENT)
			rc = read_keys(r, "");
		else if (ev.type == YAML_SCALAR_EVENT && !ev.data.scalar.length)
			; /* a document of comments */
		else if (ev.type == YAML_SCALAR_EVENT || ev.type == YAML_SEQUENCE_START_EVENT)
			rc = fail(r, ev.start_mark, "", "expected keys and values, found %s",
				  kind_of(&ev));
		any |= ev.type == YAML_DOCUMENT_START_EVENT;
		yaml_event_delete(&ev);
	}
	return rc;
}

/* A target is one of three. */
static const char *const apart[][3] = {{"pid", "cgroup", "all"}};
#define APART (sizeof(apart) / sizeof(apart[0]))

static bool is_of(const char *const set[3], const char *name)
{
	return !strcmp(set[0], name) || !strcmp(set[1], name) || !strcmp(set[2], name);
}

static int check_set(struct reader *r, const char *const set[3])
{
	const struct agent_config_value *first = NULL;
	for (size_t i = 0; i < r->config->values.len; i++) {
		const struct agent_config_value *v = &r->config->values.data[i];
		if (!is_of(set, v->def->name))
			continue;
		if (first && first->def != v->def)
			return fail(r, (yaml_mark_t){0, v->line - 1, v->column - 1}, v->key,
				    "cannot stand beside %s in line %zu", first->key, first->line);
		first = first ? first : v;
	}
	return 0;
}

/* A list that an option takes in one value: "a,b". It is kept with the first of them. */
static void join(struct agent_config *c, const struct opt_def *def)
{
	struct agent_config_value *first = NULL;
	size_t kept = 0;
	for (size_t i = 0; i < c->values.len; i++) {
		struct agent_config_value v = c->values.data[i];
		if (first && v.def == def) {
			char *both = xasprintf("%s,%s", first->text, v.text);
			free(first->text);
			free(v.text);
			first->text = both;
			continue;
		}
		c->values.data[kept] = v;
		if (v.def == def)
			first = &c->values.data[kept];
		kept++;
	}
	c->values.len = kept;
}

int agent_config_parse(struct agent_config *ret, const struct command *cmd, const char *text,
		       size_t len, const char *origin, struct err *e)
{
	*ret = (struct agent_config){0};
	if (len > AGENT_CONFIG_BYTES)
		return err_set(e, EFBIG, "%s: larger than %d bytes", origin, AGENT_CONFIG_BYTES);
	struct reader r = {.config = ret, .cmd = cmd, .origin = origin, .e = e};
	ret->path = xstrdup(origin);
	if (!yaml_parser_initialize(&r.parser)) /* for want of memory only */
		abort();
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
	int rc = read_stream(&r);
	for (size_t i = 0; i < APART && !rc; i++)
		rc = check_set(&r, apart[i]);
	if (!rc)
		join(ret, option_of(cmd, "layers"));
	yaml_parser_delete(&r.parser);
	buf_free(&r.rule);
	if (rc)
		agent_config_free(ret);
	return rc;
}

int agent_config_load(struct agent_config *ret, const struct command *cmd, const char *path,
		      struct err *e)
{
	*ret = (struct agent_config){0};
	FILE *f = fopen(path, "re");
	if (!f)
		return err_set(e, errno, "%s: %s", path, strerror(errno));
	char *text = xcalloc(1, AGENT_CONFIG_BYTES + 1); /* one more, so that too much is seen */
	size_t n = fread(text, 1, AGENT_CONFIG_BYTES + 1, f);
	int rc = ferror(f) ? err_set(e, EIO, "%s: cannot be read", path)
			   : agent_config_parse(ret, cmd, text, n, path, e);
	free(text);
	fclose(f);
	return rc;
}

void agent_config_free(struct agent_config *c)
{
	for (size_t i = 0; i < c->values.len; i++)
		free(c->values.data[i].text);
	vec_free(&c->values);
	free(c->path);
	*c = (struct agent_config){0};
}

/* ---- beside a command line ---- */

static bool is_displaced(const struct args *given, const char *name)
{
	for (size_t i = 0; i < APART; i++)
		if (is_of(apart[i], name) && args_first(given, apart[i], 3))
			return true;
	return args_has(given, name);
}

void agent_config_merge(struct args *ret, const struct args *given, const struct agent_config *c)
{
	*ret = (struct args){.command = given->command};
	for (size_t i = 0; i < given->options.len; i++) {
		typeof(ret->options.data) option = vec_push(&ret->options);
		option->def = given->options.data[i].def;
		option->value = given->options.data[i].value;
	}
	for (size_t i = 0; i < c->values.len; i++) {
		if (is_displaced(given, c->values.data[i].def->name))
			continue;
		typeof(ret->options.data) option = vec_push(&ret->options);
		option->def = c->values.data[i].def;
		option->value = c->values.data[i].text;
	}
}

void agent_config_blame(const struct agent_config *c, const struct args *given, const char *name,
			struct err *e)
{
	if (is_displaced(given, name))
		return;
	for (size_t i = 0; i < c->values.len; i++) {
		const struct agent_config_value *v = &c->values.data[i];
		if (strcmp(v->def->name, name) != 0 ||
		    ((v->def->flags & OPT_REPEAT) && !strstr(e->msg, v->text)))
			continue;
		struct err was = *e;
		err_set(e, EINVAL, "%s:%zu:%zu: %s: %s", c->path, v->line, v->column, v->key,
			without_option(was.msg, name));
		return;
	}
}
