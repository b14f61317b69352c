/* catalog_values.c - texts, choices, lists and keys of a catalog file, with their places.
 *
 * Knows nothing of what the keys mean. Lengths are bounded here: the text is not trusted. */
#include <errno.h>
#include <stdio.h>

#include "probe/catalog_yaml.h"

/* "FILE:LINE:COLUMN: probes[2].signature: what"; key "" is the probe or file itself. */
int yaml_fail_at(struct yaml_reader *r, yaml_mark_t m, const char *key, const char *fmt, ...)
{
	char what[400], where[96] = "";
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (r->probe >= 0)
		snprintf(where, sizeof(where), "probes[%d]%s%.48s: ", r->probe, *key ? "." : "",
			 key);
	else if (*key)
		snprintf(where, sizeof(where), "%.48s: ", key);
	err_set(r->e, EINVAL, "%s:%zu:%zu: %s%s", r->origin, m.line + 1, m.column + 1, where, what);
	return -EINVAL;
}

static yaml_node_t *node_at(const struct yaml_reader *r, int index)
{
	return yaml_document_get_node(r->doc, index);
}

int yaml_get_text(struct yaml_reader *r, yaml_node_t *n, const char *key, const char **ret)
{
	if (n->type != YAML_SCALAR_NODE)
		return yaml_fail(r, n, key, "expected text, found a %s",
				 n->type == YAML_SEQUENCE_NODE ? "list" : "mapping");
	char *s = (char *)n->data.scalar.value;
	size_t len = n->data.scalar.length;
	/* Block scalars ('>') end in a newline that nobody means. */
	if (n->data.scalar.style == YAML_FOLDED_SCALAR_STYLE && len && s[len - 1] == '\n')
		s[n->data.scalar.length = --len] = '\0';
	if (!cat_text_clean(s, len))
		return yaml_fail(r, n, key, "holds a control character");
	if (len == 0)
		return yaml_fail(r, n, key, "empty");
	if (len > CATALOG_MAX_TEXT)
		return yaml_fail(r, n, key, "longer than %d bytes", CATALOG_MAX_TEXT);
	*ret = s;
	return 0;
}

/* The number of a word among the choices. */
int yaml_get_choice(struct yaml_reader *r, yaml_node_t *n, const char *key,
		    const char *const *choices, int count, int *ret)
{
	const char *s = NULL;
	int rc = yaml_get_text(r, n, key, &s);
	if (rc)
		return rc;
	char known[200] = "";
	for (int i = 0; i < count; i++) {
		if (strcmp(s, choices[i]) == 0) {
			*ret = i;
			return 0;
		}
		cat_add_word(known, sizeof(known), choices[i]);
	}
	return yaml_fail(r, n, key, "unknown value '%.40s' (known: %s)", s, known);
}

int yaml_get_bool(struct yaml_reader *r, yaml_node_t *n, const char *key, bool *ret)
{
	static const char *const choices[] = {"false", "true"};
	int v = 0;
	int rc = yaml_get_choice(r, n, key, choices, 2, &v);
	if (rc == 0)
		*ret = v;
	return rc;
}

typedef int (*text_check)(const char *text, struct err *e);

static int add_item(struct yaml_reader *r, yaml_node_t *n, const char *key, text_check check,
		    struct cat_list *ret)
{
	const char *s = NULL;
	int rc = yaml_get_text(r, n, key, &s);
	if (rc)
		return rc;
	struct err e;
	if (check && check(s, &e))
		return yaml_fail(r, n, key, "%s", e.msg);
	cat_list_add(ret, s, strlen(s));
	return 0;
}

/* A list of texts; one text alone is a list of one. */
int yaml_get_list(struct yaml_reader *r, yaml_node_t *n, const char *key, text_check check,
		  struct cat_list *ret)
{
	if (n->type != YAML_SEQUENCE_NODE)
		return add_item(r, n, key, check, ret);
	yaml_node_item_t *item = n->data.sequence.items.start;
	yaml_node_item_t *end = n->data.sequence.items.top;
	if (item == end)
		return yaml_fail(r, n, key, "empty list");
	if (end - item > CATALOG_MAX_LIST)
		return yaml_fail(r, n, key, "more than %d items", CATALOG_MAX_LIST);
	for (; item < end; item++) {
		int rc = add_item(r, node_at(r, *item), key, check, ret);
		if (rc)
			return rc;
	}
	return 0;
}

/* A layer that neither the table nor a file before this one names: its number. */
static int add_layer(struct yaml_reader *r, yaml_node_t *n, const char *name)
{
	struct cat_list *layers = &r->catalog->layers;
	if (!layer_name_is_valid(name))
		return yaml_fail(r, n, "layer",
				 "'%.40s' is not a name of at most %d of a-z 0-9 _ - that begins "
				 "with a letter",
				 name, LAYER_NAME_BYTES - 1);
	if (layer_of_name(name) < LAYER_NAMED)
		return yaml_fail(r, n, "layer", "'%s' is not a layer of calls", name);
	if (LAYER_NAMED + layers->len >= LAYERS_MAX)
		return yaml_fail(r, n, "layer", "more than %d layers", LAYERS_MAX);
	cat_list_add(layers, name, strlen(name));
	return LAYER_NAMED + (int)layers->len - 1;
}

int yaml_get_layer(struct yaml_reader *r, yaml_node_t *n, enum layer *ret)
{
	const char *s = NULL;
	int rc = yaml_get_text(r, n, "layer", &s);
	if (rc)
		return rc;
	int layer = catalog_layer(r->catalog, s);
	if (layer < 0)
		layer = add_layer(r, n, s);
	if (layer < 0)
		return layer;
	*ret = (enum layer)layer;
	return 0;
}

static int find_key(struct yaml_reader *r, const struct yaml_key *keys, int count, yaml_node_t *n)
{
	const char *s = NULL;
	int rc = yaml_get_text(r, n, "", &s);
	if (rc)
		return rc;
	char known[256] = "";
	for (int i = 0; i < count; i++) {
		if (strcmp(s, keys[i].name) == 0)
			return i;
		cat_add_word(known, sizeof(known), keys[i].name);
	}
	return yaml_fail(r, n, s, "unknown key (known: %s)", known);
}

/* Finds the value of each key of the table; absent ones are NULL. */
int yaml_match_keys(struct yaml_reader *r, yaml_node_t *map, const struct yaml_key *keys, int count,
		    yaml_node_t **ret_values)
{
	if (map->type != YAML_MAPPING_NODE)
		return yaml_fail(r, map, "", "expected keys and values (key: value)");
	yaml_node_pair_t *pair = map->data.mapping.pairs.start;
	for (; pair < map->data.mapping.pairs.top; pair++) {
		yaml_node_t *key = node_at(r, pair->key);
		int i = find_key(r, keys, count, key);
		if (i < 0)
			return i;
		if (ret_values[i])
			return yaml_fail(r, key, keys[i].name, "given twice (first in line %zu)",
					 ret_values[i]->start_mark.line + 1);
		ret_values[i] = node_at(r, pair->value);
	}
	return 0;
}

int yaml_set_all(struct yaml_reader *r, const struct yaml_key *keys, int count,
		 yaml_node_t **values, struct cat_entry *entry)
{
	for (int i = 0; i < count; i++) {
		int rc = values[i] ? keys[i].set(r, values[i], entry) : 0;
		if (rc)
			return rc;
	}
	return 0;
}
