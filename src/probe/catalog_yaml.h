/* catalog_yaml.h - reading values out of a catalog file, each with its place; not for
 * others than the catalog_*.c that read YAML.
 *
 * Functions complain with file, line, column and key, and return a negative errno. */
#pragma once

#include <yaml.h>

#include "probe/catalog_impl.h"

struct yaml_reader {
	struct catalog *catalog; /* what was there before */
	struct catalog added;
	const char *origin;
	yaml_document_t *doc;
	struct err *e;
	int probe; /* number of the probe being read, -1 for the top of the file */
	/* defaults of the file */
	enum layer layer;
	struct cat_list libraries;
	bool python;
};

/* "FILE:LINE:COLUMN: probes[2].signature: what"; key "" is the probe or file itself. */
int yaml_fail_at(struct yaml_reader *r, yaml_mark_t m, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
#ifdef __clang_analyzer__ /* it does not look into variadic functions: never 0 */
#define yaml_fail(r, node, key, ...) (yaml_fail_at(r, (node)->start_mark, key, __VA_ARGS__), -1)
#else
#define yaml_fail(r, node, key, ...) yaml_fail_at(r, (node)->start_mark, key, __VA_ARGS__)
#endif

int yaml_get_text(struct yaml_reader *r, yaml_node_t *n, const char *key, const char **ret);
int yaml_get_bool(struct yaml_reader *r, yaml_node_t *n, const char *key, bool *ret);
int yaml_get_layer(struct yaml_reader *r, yaml_node_t *n, enum layer *ret);

/* The number of a word among the choices. */
int yaml_get_choice(struct yaml_reader *r, yaml_node_t *n, const char *key,
		    const char *const *choices, int count, int *ret);

/* A list of texts, each checked; one text alone is a list of one. */
int yaml_get_list(struct yaml_reader *r, yaml_node_t *n, const char *key,
		  int (*check)(const char *text, struct err *e), struct cat_list *ret);

/* A key of a mapping and what its value does. */
struct yaml_key {
	const char *name;
	int (*set)(struct yaml_reader *r, yaml_node_t *value, struct cat_entry *entry);
};
#define YAML_MAX_KEYS 32

/* Finds the value of each key of the table, NULL for absent ones; unknown and repeated
 * keys are errors. ret_values has YAML_MAX_KEYS elements, all NULL. */
int yaml_match_keys(struct yaml_reader *r, yaml_node_t *map, const struct yaml_key *keys, int count,
		    yaml_node_t **ret_values);

/* Sets the values in the order of the table, not of the file. */
int yaml_set_all(struct yaml_reader *r, const struct yaml_key *keys, int count,
		 yaml_node_t **values, struct cat_entry *entry);

/* Reads `enums:`: named values by type. */
int yaml_read_enums(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry);

/* Reads one item of `probes:`. What was read belongs to entry, also on failure. */
int yaml_read_probe(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry);
