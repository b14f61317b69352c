/* catalog_yaml.c - reads catalog files: YAML text into entries (the keys of a probe are in
 * catalog_keys.c).
 *
 * The format is specified in docs/catalog.md. Every complaint names file, line, column
 * and key. Input is not trusted: size, entries, list and string lengths and depth are
 * bounded, aliases are refused (they can make a small file expand without end), and so
 * are tags, several documents and control characters.
 *
 * libyaml gives a position for every node of a loaded document, but resolves aliases
 * while it loads; the text is therefore scanned once as events before it is loaded. */
#include <errno.h>
#include <stdio.h>

#include "probe/catalog_yaml.h"

#define FORMAT_VERSION 1
#define MAX_DEPTH      6 /* of nested lists and mappings; the format needs 4 */

static yaml_mark_t mark_of_offset(const char *text, size_t len, size_t offset)
{
	yaml_mark_t m = {0};
	for (size_t i = 0; i < len && i < offset; i++) {
		m.column++;
		if (text[i] == '\n') {
			m.line++;
			m.column = 0;
		}
	}
	return m;
}

static int fail_syntax(struct yaml_reader *r, const yaml_parser_t *p, const char *text, size_t len)
{
	yaml_mark_t m = p->problem_mark;
	if (p->error == YAML_READER_ERROR)
		m = mark_of_offset(text, len, p->problem_offset);
	const char *problem = p->problem ? p->problem : "not YAML";
	if (p->context)
		return yaml_fail_at(r, m, "", "not YAML: %s %s", p->context, problem);
	return yaml_fail_at(r, m, "", "not YAML: %s", problem);
}

/* What is wrong with an event, or NULL. */
static const char *event_problem(const yaml_event_t *ev, int *depth, int *documents)
{
	switch (ev->type) {
	case YAML_ALIAS_EVENT:
		return "aliases (*name) are not supported";
	case YAML_DOCUMENT_START_EVENT:
		return ++*documents > 1 ? "more than one document in the file" : NULL;
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
		if (ev->type == YAML_SEQUENCE_START_EVENT ? ev->data.sequence_start.tag != NULL
							  : ev->data.mapping_start.tag != NULL)
			return "tags (!name) are not supported";
		return ++*depth > MAX_DEPTH ? "lists and mappings nested too deeply" : NULL;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		--*depth;
		return NULL;
	case YAML_SCALAR_EVENT:
		return ev->data.scalar.tag ? "tags (!name) are not supported" : NULL;
	default:
		return NULL;
	}
}

static void parser_start(yaml_parser_t *p, const char *text, size_t len)
{
	/* Fails for want of memory only. */
	if (!yaml_parser_initialize(p))
		abort();
	yaml_parser_set_encoding(p, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(p, (const unsigned char *)text, len);
}

static int scan_events(struct yaml_reader *r, const char *text, size_t len)
{
	yaml_parser_t p;
	int depth = 0, documents = 0, rc = 0;
	bool end = false;
	parser_start(&p, text, len);
	while (rc == 0 && !end) {
		yaml_event_t ev;
		if (!yaml_parser_parse(&p, &ev)) {
			rc = fail_syntax(r, &p, text, len);
			break;
		}
		const char *problem = event_problem(&ev, &depth, &documents);
		if (problem)
			rc = yaml_fail_at(r, ev.start_mark, "", "%s", problem);
		end = ev.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&ev);
	}
	yaml_parser_delete(&p);
	return rc;
}

static yaml_node_t *node_at(const struct yaml_reader *r, int index)
{
	return yaml_document_get_node(r->doc, index);
}

static int set_version(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	(void)entry;
	const char *s = NULL;
	int rc = yaml_get_text(r, n, "catalog", &s);
	if (rc)
		return rc;
	if (strcmp(s, "1") != 0)
		return yaml_fail(r, n, "catalog", "format '%.20s' is not known here (known: %d)", s,
				 FORMAT_VERSION);
	return 0;
}

static int set_file_layer(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	(void)entry;
	return yaml_get_layer(r, n, &r->layer);
}

static int set_file_libraries(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	(void)entry;
	return yaml_get_list(r, n, "libraries", cat_check_library, &r->libraries);
}

static int set_file_python(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	(void)entry;
	return yaml_get_bool(r, n, "python", &r->python);
}

static int set_probes(struct yaml_reader *r, yaml_node_t *n, struct cat_entry *entry)
{
	(void)entry;
	if (n->type != YAML_SEQUENCE_NODE)
		return yaml_fail(r, n, "probes", "expected a list (- id: ...)");
	yaml_node_item_t *item = n->data.sequence.items.start;
	size_t count = (size_t)(n->data.sequence.items.top - item);
	if (count == 0)
		return yaml_fail(r, n, "probes", "empty list");
	if (r->catalog->entries.len + count > CATALOG_MAX_ENTRIES)
		return yaml_fail(r, n, "probes", "more than %d entries in the catalog",
				 CATALOG_MAX_ENTRIES);
	for (size_t i = 0; i < count; i++) {
		struct cat_entry probe = {0};
		r->probe = (int)i;
		int rc = yaml_read_probe(r, node_at(r, item[i]), &probe);
		if (rc) {
			cat_entry_free(&probe);
			return rc;
		}
		*vec_push(&r->added.entries) = probe;
	}
	r->probe = -1;
	return 0;
}

static const struct yaml_key file_keys[] = {
	{"catalog", set_version},    {"layer", set_file_layer},	 {"libraries", set_file_libraries},
	{"python", set_file_python}, {"enums", yaml_read_enums}, {"probes", set_probes},
};
#define FILE_KEYS ((int)(sizeof(file_keys) / sizeof(file_keys[0])))
_Static_assert(FILE_KEYS <= YAML_MAX_KEYS, "YAML_MAX_KEYS");

static int read_document(struct yaml_reader *r)
{
	yaml_node_t *root = yaml_document_get_root_node(r->doc);
	yaml_mark_t start = {0};
	if (!root)
		return yaml_fail_at(r, start, "", "empty: a catalog begins with 'catalog: 1'");
	yaml_node_t *values[YAML_MAX_KEYS] = {0};
	int rc = yaml_match_keys(r, root, file_keys, FILE_KEYS, values);
	if (rc)
		return rc;
	if (!values[0])
		return yaml_fail(r, root, "catalog", "missing: a catalog begins with 'catalog: 1'");
	rc = set_version(r, values[0], NULL);
	if (rc)
		return rc;
	if (!values[FILE_KEYS - 1])
		return yaml_fail(r, root, "probes", "missing");
	return yaml_set_all(r, file_keys, FILE_KEYS, values, NULL);
}

static int load_document(struct yaml_reader *r, const char *text, size_t len)
{
	yaml_parser_t p;
	yaml_document_t doc;
	parser_start(&p, text, len);
	int rc;
	if (!yaml_parser_load(&p, &doc)) {
		rc = fail_syntax(r, &p, text, len);
	} else {
		r->doc = &doc;
		rc = read_document(r);
		r->doc = NULL;
		yaml_document_delete(&doc);
	}
	yaml_parser_delete(&p);
	return rc;
}

static void move_entries(struct catalog *to, struct catalog *from)
{
	for (size_t i = 0; i < from->entries.len; i++)
		*vec_push(&to->entries) = from->entries.data[i];
	vec_free(&from->entries);
	for (size_t i = 0; i < from->enums.len; i++)
		*vec_push(&to->enums) = from->enums.data[i];
	vec_free(&from->enums);
}

int catalog_parse(struct catalog *c, const char *text, size_t len, const char *origin,
		  struct err *e)
{
	if (len > CATALOG_MAX_BYTES)
		return err_set(e, EFBIG, "%s: larger than %d bytes", origin, CATALOG_MAX_BYTES);
	struct yaml_reader r = {
		.catalog = c, .origin = origin, .e = e, .probe = -1, .layer = LAYER_USER};
	struct cat_mark before = cat_mark(c);
	int rc = scan_events(&r, text, len);
	if (rc == 0)
		rc = load_document(&r, text, len);
	if (rc == 0)
		move_entries(c, &r.added);
	else
		cat_truncate(c, before);
	catalog_free(&r.added);
	for (size_t i = 0; i < r.libraries.len; i++)
		free(r.libraries.data[i]);
	vec_free(&r.libraries);
	return rc;
}
