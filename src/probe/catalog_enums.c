/* catalog_enums.c - the key `enums` of a catalog file: names for the values of return codes
 * and data types.
 *
 *   enums:
 *     CUresult: {0: CUDA_SUCCESS, 1: CUDA_ERROR_INVALID_VALUE}
 *     ncclDataType_t: {7: [ncclFloat32, 4]}      # name and size in bytes
 *
 * Does not check that a signature names a type that exists: its values are then numbers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/catalog_yaml.h"

#define MAX_VALUE_BYTES 4096

static bool is_identifier(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
	return !s[n] && n && n <= 64 && (s[0] < '0' || s[0] > '9');
}

static int get_identifier(struct yaml_reader *r, yaml_node_t *n, const char **ret)
{
	int rc = yaml_get_text(r, n, "enums", ret);
	if (!rc && !is_identifier(*ret))
		return yaml_fail(r, n, "enums", "'%.40s' is not a name", *ret);
	return rc;
}

static int get_number(struct yaml_reader *r, yaml_node_t *n, int64_t least, int64_t most,
		      int64_t *ret)
{
	const char *s = NULL;
	int rc = yaml_get_text(r, n, "enums", &s);
	if (rc)
		return rc;
	char *end;
	errno = 0;
	long long v = strtoll(s, &end, 0);
	if (*end || end == s || errno || v < least || v > most)
		return yaml_fail(r, n, "enums", "'%.40s' is not a number from %lld to %lld", s,
				 (long long)least, (long long)most);
	*ret = v;
	return 0;
}

/* NAME, or [NAME, BYTES] */
static int read_value(struct yaml_reader *r, yaml_node_t *n, struct cat_enum *ret)
{
	const char *name = NULL;
	int64_t bytes = 0;
	yaml_node_t *name_node = n;
	int rc = 0;
	if (n->type == YAML_SEQUENCE_NODE) {
		yaml_node_item_t *item = n->data.sequence.items.start;
		if (n->data.sequence.items.top - item != 2)
			return yaml_fail(r, n, "enums", "expected a name, or [name, bytes]");
		name_node = yaml_document_get_node(r->doc, item[0]);
		rc = get_number(r, yaml_document_get_node(r->doc, item[1]), 1, MAX_VALUE_BYTES,
				&bytes);
	}
	if (!rc)
		rc = get_identifier(r, name_node, &name);
	if (rc)
		return rc;
	ret->name = xstrdup(name);
	ret->bytes = (uint32_t)bytes;
	return 0;
}

static const struct cat_enum *find_value(const struct yaml_reader *r, const char *type,
					 int64_t value)
{
	for (size_t i = 0; i < r->added.enums.len; i++)
		if (r->added.enums.data[i].value == value &&
		    !strcmp(r->added.enums.data[i].type, type))
			return &r->added.enums.data[i];
	return NULL;
}

static int read_type(struct yaml_reader *r, const char *type, yaml_node_t *n)
{
	if (n->type != YAML_MAPPING_NODE)
		return yaml_fail(r, n, "enums", "expected values and names ({0: NAME, ...})");
	yaml_node_pair_t *pair = n->data.mapping.pairs.start;
	for (; pair < n->data.mapping.pairs.top; pair++) {
		struct cat_enum v = {0};
		yaml_node_t *key = yaml_document_get_node(r->doc, pair->key);
		int rc = get_number(r, key, INT64_MIN, INT64_MAX, &v.value);
		const struct cat_enum *other = rc ? NULL : find_value(r, type, v.value);
		if (other)
			return yaml_fail(r, key, "enums", "%lld is '%s' already",
					 (long long)v.value, other->name);
		if (!rc)
			rc = read_value(r, yaml_document_get_node(r->doc, pair->value), &v);
		if (rc)
			return rc;
		if (r->catalog->enums.len + r->added.enums.len >= CATALOG_MAX_ENUMS) {
			free(v.name);
			return yaml_fail(r, key, "enums", "more than %d named values",
					 CATALOG_MAX_ENUMS);
		}
		v.type = xstrdup(type);
		*vec_push(&r->added.enums) = v;
	}
	return 0;
}

int yaml_read_enums(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	(void)entry;
	if (n->type != YAML_MAPPING_NODE)
		return yaml_fail(r, n, "enums", "expected types and their values");
	yaml_node_pair_t *pair = n->data.mapping.pairs.start;
	for (; pair < n->data.mapping.pairs.top; pair++) {
		const char *type = NULL;
		int rc = get_identifier(r, yaml_document_get_node(r->doc, pair->key), &type);
		if (!rc)
			rc = read_type(r, type, yaml_document_get_node(r->doc, pair->value));
		if (rc)
			return rc;
	}
	return 0;
}
