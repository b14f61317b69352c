/* catalog_keys.c - the keys of one probe in a catalog file.
 *
 * Each key is one line of the table at the end and one function; docs/catalog.md lists
 * them for people. */
#include <errno.h>
#include <stdio.h>

#include "probe/catalog_yaml.h"

#define MAX_ID 64

static bool id_valid(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_.-");
	return s[n] == '\0' && n <= MAX_ID && s[0] >= 'a' && s[0] <= 'z';
}

static const struct cat_entry *find_id(const struct yaml_reader *r, const char *id)
{
	const struct cat_entry *found = catalog_find(&r->added, id);
	return found ? found : catalog_find(r->catalog, id);
}

static int set_id(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	const char *s = NULL;
	int rc = yaml_get_text(r, n, "id", &s);
	if (rc)
		return rc;
	if (!id_valid(s))
		return yaml_fail(r, n, "id",
				 "'%.40s' is not a name of at most %d of a-z 0-9 _ . - that begins "
				 "with a letter",
				 s, MAX_ID);
	const struct cat_entry *other = find_id(r, s);
	if (other)
		return yaml_fail(r, n, "id", "'%s' is taken by an entry of %.100s", s,
				 other->origin);
	entry->id = xstrdup(s);
	return 0;
}

static int set_libraries(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	return yaml_get_list(r, n, "libraries", cat_check_library, &entry->libraries);
}

static int set_symbols(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	return yaml_get_list(r, n, "symbols", cat_check_symbol, &entry->symbols);
}

static int set_usdt(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	if (entry->symbols.len)
		return yaml_fail(r, n, "usdt", "an entry has symbols or usdt, not both");
	entry->usdt = true;
	return yaml_get_list(r, n, "usdt", cat_check_usdt, &entry->symbols);
}

static int set_usdt_end(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	return yaml_get_list(r, n, "usdt_end", cat_check_usdt, &entry->end_symbols);
}

static int set_exclude(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	return yaml_get_list(r, n, "exclude", entry->usdt ? cat_check_usdt : cat_check_symbol,
			     &entry->exclude);
}

static int set_layer(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	return yaml_get_layer(r, n, &entry->layer);
}

static int set_python(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	return yaml_get_bool(r, n, "python", &entry->python);
}

static int set_instant(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	return yaml_get_bool(r, n, "instant", &entry->instant);
}

static int set_signature(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	const char *s = NULL;
	int rc = yaml_get_text(r, n, "signature", &s);
	if (rc)
		return rc;
	struct err e;
	size_t pos = 0;
	if (cat_signature_parse(entry, s, &pos, &e) == 0)
		return 0;
	/* The column of what is wrong, where the text stands in the file as it is. */
	yaml_mark_t m = n->start_mark;
	size_t quotes = n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? 0 : 2;
	if (n->end_mark.index - m.index != n->data.scalar.length + quotes)
		return yaml_fail(r, n, "signature", "character %zu: %s", pos + 1, e.msg);
	m.column += pos + quotes / 2;
	return yaml_fail_at(r, m, "signature", "%s", e.msg);
}

static struct cat_arg *find_arg(struct cat_entry *entry, const char *name)
{
	for (unsigned i = 0; i < entry->nargs; i++)
		if (strcmp(entry->args[i].name, name) == 0)
			return &entry->args[i];
	return NULL;
}

static int set_named_by(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	const char *s = NULL;
	int rc = yaml_get_text(r, n, "named_by", &s);
	if (rc)
		return rc;
	for (unsigned i = 0; i < entry->nargs; i++)
		if (entry->args[i].is_name)
			return yaml_fail(r, n, "named_by", "the signature says 'name:' already");
	struct cat_arg *arg = find_arg(entry, s);
	if (!arg)
		return yaml_fail(r, n, "named_by", "the signature has no argument '%.40s'", s);
	if (!cat_arg_can_name(arg))
		return yaml_fail(r, n, "named_by", "a call is named by a string, pycode or object");
	arg->is_name = true;
	return 0;
}

static int set_naming(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	static const char *const choices[] = {"symbol", "torch_operator"};
	static const enum cat_naming meaning[] = {CAT_NAME_SYMBOL, CAT_NAME_TORCH_OP};
	int v = 0;
	int rc = yaml_get_choice(r, n, "naming", choices, 2, &v);
	if (rc == 0)
		entry->naming = meaning[v];
	return rc;
}

static int set_name(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	const char *s = NULL;
	int rc = yaml_get_text(r, n, "name", &s);
	if (rc)
		return rc;
	for (const char *p = strchr(s, '{'); p; p = strchr(p + 1, '{'))
		if (strncmp(p, "{symbol}", strlen("{symbol}")) != 0 &&
		    strncmp(p, "{name}", strlen("{name}")) != 0)
			return yaml_fail(r, n, "name",
					 "only {symbol} and {name} can stand in braces");
	entry->naming = CAT_NAME_LITERAL;
	entry->name = xstrdup(s);
	return 0;
}

/* What the analyses know of; docs/catalog.md says what arguments each wants. */
static const char *const roles[] = {
	"launch",
	"graph_launch",
	"graph_instantiate",
	"graph_exec_destroy",
	"graph_kernel_node",
	"graph_copy_node",
	"graph_set_node",
	"graph_child_node",
	"graph_clone",
	"graph_create",
	"graph_destroy",
	"graph_node",
	"device_current",
	"capture_begin",
	"capture_end",
	"event_record",
	"event_wait",
	"copy",
	"copy_htod",
	"copy_dtoh",
	"copy_dtod",
	"copy_htoh",
	"copy_ptop",
	"set",
	"alloc",
	"alloc_managed",
	"alloc_caller",
	"free",
	"torch_alloc",
	"torch_free",
	"vmm_create",
	"vmm_map",
	"vmm_unmap",
	"vmm_release",
	"host_alloc",
	"host_free",
	"host_register",
	"host_unregister",
	"sync",
	"context_current",
	"context_push",
	"context_pop",
	"context_retain",
	"kernel_name",
	"kernel_alias",
	"collective",
	"p2p",
	"nccl_group",
	"comm_init",
	"comm_split",
	"comm_destroy",
	"matmul",
	"convolution",
	"convolution_backward",
	"attention",
	"attention_backward",
	"gemm",
	"autograd_node",
	"backward",
};
#define ROLE_COUNT ((int)(sizeof(roles) / sizeof(roles[0])))

static int set_role(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	const char *s = NULL;
	int v = 0, rc = yaml_get_text(r, n, "role", &s);
	if (rc)
		return rc;
	while (v < ROLE_COUNT && strcmp(roles[v], s))
		v++;
	if (v == ROLE_COUNT)
		return yaml_fail(r, n, "role", "'%.40s' is no role (docs/catalog.md lists them)",
				 s);
	entry->role = xstrdup(roles[v]);
	/* calls of one role are numbered together */
	for (unsigned i = 0; i < entry->nargs; i++)
		if (entry->args[i].fetch.fetch == FETCH_COUNT)
			entry->args[i].fetch.layout = (uint8_t)(v + 1);
	return 0;
}

static bool is_number(const char *s)
{
	return s[0] && s[strspn(s, "0123456789")] == '\0' && strlen(s) < 10;
}

static int check_factor(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry,
			const char *word)
{
	const struct cat_arg *arg = find_arg(entry, word);
	if (!arg && !is_number(word))
		return yaml_fail(r, n, "bytes", "the signature has no argument '%.40s'", word);
	if (arg && arg->arg_type != CAT_TYPE_U64 && arg->arg_type != CAT_TYPE_I64 &&
	    arg->arg_type != CAT_TYPE_BYTES)
		return yaml_fail(r, n, "bytes", "'%.40s' is not a number", word);
	return 0;
}

/* bytes: [count, datatype], bytes: [width, height, 4] */
static int set_bytes(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	struct cat_list words = {0};
	int rc = yaml_get_list(r, n, "bytes", NULL, &words);
	if (!rc && (words.len < 2 || words.len > CAT_FACTORS))
		rc = yaml_fail(r, n, "bytes",
			       "expected two or three factors: their product counts");
	for (size_t i = 0; i < words.len && !rc; i++)
		rc = check_factor(r, n, entry, words.data[i]);
	if (!rc && entry->nargs == MAX_ARGS)
		rc = yaml_fail(r, n, "bytes", "no room: the signature has %d values already",
			       MAX_ARGS);
	if (!rc && find_arg(entry, "bytes"))
		rc = yaml_fail(r, n, "bytes", "the signature has an argument 'bytes'");
	for (size_t i = 0; i < words.len; i++) {
		if (!rc)
			entry->factors[i] = words.data[i];
		else
			free(words.data[i]);
	}
	vec_free(&words);
	return rc;
}

static int set_unless(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	const char *s = NULL;
	int rc = yaml_get_text(r, n, "unless", &s);
	if (rc)
		return rc;
	if (!find_id(r, s) || strcmp(s, entry->id) == 0)
		return yaml_fail(r, n, "unless", "there is no entry '%.64s' above this one", s);
	entry->unless = xstrdup(s);
	return 0;
}

static int set_cost(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	static const char *const choices[] = {"low", "medium", "high"};
	int v = 0;
	int rc = yaml_get_choice(r, n, "cost", choices, 3, &v);
	if (rc == 0)
		entry->cost = (enum cat_cost)v;
	return rc;
}

/* "always", or one call in so many: "1/64" */
static int set_stack(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	const char *s = NULL;
	int end = 0, rc = yaml_get_text(r, n, "stack", &s);
	if (rc)
		return rc;
	entry->stack_every = 1;
	if (!strcmp(s, "always"))
		return 0;
	if (sscanf(s, "1/%7u%n", &entry->stack_every, &end) != 1 || s[end] || !entry->stack_every)
		return yaml_fail(r, n, "stack", "'%.40s' is neither 'always' nor 1/N", s);
	return 0;
}

static int set_enabled(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	bool v = true;
	int rc = yaml_get_bool(r, n, "enabled", &v);
	if (rc == 0)
		entry->off_by_default = !v;
	return rc;
}

static int set_expected(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	return yaml_get_bool(r, n, "expected", &entry->expected);
}

static int set_verified(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	return yaml_get_list(r, n, "verified", NULL, &entry->verified);
}

static int set_about(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	const char *s = NULL;
	int rc = yaml_get_text(r, n, "about", &s);
	if (rc == 0)
		entry->about = xstrdup(s);
	return rc;
}

/* In the order in which they are set: a key comes after those it refers to. */
static const struct yaml_key probe_keys[] = {
	{"id", set_id},
	{"symbols", set_symbols},
	{"usdt", set_usdt},
	{"usdt_end", set_usdt_end},
	{"exclude", set_exclude},
	{"libraries", set_libraries},
	{"layer", set_layer},
	{"python", set_python},
	{"instant", set_instant},
	{"signature", set_signature},
	{"named_by", set_named_by},
	{"naming", set_naming},
	{"name", set_name},
	{"role", set_role},
	{"bytes", set_bytes},
	{"unless", set_unless},
	{"cost", set_cost},
	{"stack", set_stack},
	{"enabled", set_enabled},
	{"expected", set_expected},
	{"verified", set_verified},
	{"about", set_about},
};
#define PROBE_KEYS ((int)(sizeof(probe_keys) / sizeof(probe_keys[0])))
_Static_assert(PROBE_KEYS <= YAML_MAX_KEYS, "YAML_MAX_KEYS");

static yaml_node_t *value_of(yaml_node_t *const *values, const char *key)
{
	for (int i = 0; i < PROBE_KEYS; i++)
		if (strcmp(probe_keys[i].name, key) == 0)
			return values[i];
	return NULL;
}

static void apply_defaults(const struct yaml_reader *r, yaml_node_t *const *values,
			   struct cat_entry *entry)
{
	if (entry->libraries.len == 0)
		for (size_t i = 0; i < r->libraries.len; i++)
			cat_list_add(&entry->libraries, r->libraries.data[i],
				     strlen(r->libraries.data[i]));
	/* One USDT probe alone is a moment: it has no return. */
	if (entry->usdt && entry->end_symbols.len == 0 && !value_of(values, "instant"))
		entry->instant = true;
	entry->origin = xstrdup(r->origin);
}

int yaml_read_probe(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	yaml_node_t *values[YAML_MAX_KEYS] = {0};
	int rc = yaml_match_keys(r, n, probe_keys, PROBE_KEYS, values);
	if (rc)
		return rc;
	if (!value_of(values, "id"))
		return yaml_fail(r, n, "id", "missing");
	if (value_of(values, "naming") && value_of(values, "name"))
		return yaml_fail(r, value_of(values, "naming"), "naming",
				 "an entry has naming or name");
	entry->layer = r->layer;
	entry->python = r->python;
	entry->naming = CAT_NAME_SYMBOL;
	rc = yaml_set_all(r, probe_keys, PROBE_KEYS, values, entry);
	if (rc)
		return rc;
	apply_defaults(r, values, entry);
	if (entry->usdt && entry->end_symbols.len == 0 && !entry->instant)
		return yaml_fail(r, value_of(values, "instant"), "instant",
				 "a USDT probe without usdt_end is an instant");
	struct err e;
	const char *key = "";
	if (cat_check_entry(entry, &key, &e) == 0)
		return 0;
	yaml_node_t *blamed = value_of(values, key);
	return yaml_fail(r, blamed ? blamed : n, key, "%s", e.msg);
}
