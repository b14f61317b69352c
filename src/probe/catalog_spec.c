/* catalog_spec.c - one entry from the command line: --probe 'LIB:SYMBOL(ARGS) -> TYPE'.
 *
 * The form is specified in docs/catalog.md; the description after the symbol is read by
 * signature.c. */
#include <errno.h>
#include <stdio.h>

#include "probe/catalog_impl.h"

#define USDT_PREFIX "usdt:"

/* A sentence that shows the whole SPEC and where in it the error is. */
static int fail_at(const char *spec, size_t pos, int rc, struct err *e)
{
	return err_wrap(e, rc, "--probe '%.120s': character %zu", spec, pos + 1);
}

static char *copy_part(const char *s, size_t n)
{
	while (n && (s[n - 1] == ' ' || s[n - 1] == '\t'))
		n--;
	char *part = xcalloc(n + 1, 1);
	memcpy(part, s, n);
	return part;
}

/* Splits LIB from SYMBOL, both trimmed; *ret_rest is the place of the description. */
static int split(const char *spec, struct cat_entry *entry, size_t *ret_pos, const char **ret_rest,
		 struct err *e)
{
	const char *lib = spec;
	if (strncmp(spec, USDT_PREFIX, strlen(USDT_PREFIX)) == 0) {
		entry->usdt = true;
		entry->instant = true;
		lib += strlen(USDT_PREFIX);
	}
	const char *colon = lib + strcspn(lib, ":(");
	*ret_pos = (size_t)(colon - spec);
	if (*colon != ':')
		return err_set(e, EINVAL, "expected ':' between library and symbol, as in %s",
			       entry->usdt ? "'usdt:libfoo.so:provider:name'"
					   : "'libfoo.so:foo_*'");
	const char *symbol = colon + 1;
	size_t symbol_len = strcspn(symbol, "( \t");
	char *part = copy_part(lib, (size_t)(colon - lib));
	*ret_pos = (size_t)(lib - spec);
	int rc = cat_check_library(part, e);
	*vec_push(&entry->libraries) = part;
	if (rc)
		return rc;
	part = copy_part(symbol, symbol_len);
	*ret_pos = (size_t)(symbol - spec);
	rc = entry->usdt ? cat_check_usdt(part, e) : cat_check_symbol(part, e);
	*vec_push(&entry->symbols) = part;
	*ret_rest = symbol + symbol_len;
	return rc;
}

static int parse_spec(const char *spec, struct cat_entry *entry, struct err *e)
{
	size_t pos = 0;
	const char *rest = NULL;
	int rc = split(spec, entry, &pos, &rest, e);
	if (rc)
		return fail_at(spec, pos, rc, e);
	if (rest[strspn(rest, " \t")]) {
		rc = cat_signature_parse(entry, rest, &pos, e);
		if (rc)
			return fail_at(spec, (size_t)(rest - spec) + pos, rc, e);
	}
	for (unsigned i = 0; i < entry->nargs; i++)
		if (entry->args[i].fetch.fetch == FETCH_PYCODE ||
		    entry->args[i].fetch.fetch == FETCH_PYSTRING)
			entry->python = true;
	const char *key;
	rc = cat_check_entry(entry, &key, e);
	return rc ? fail_at(spec, (size_t)(rest - spec), rc, e) : 0;
}

int catalog_add_spec(struct catalog *c, const char *spec, struct err *e)
{
	if (strlen(spec) > CATALOG_MAX_TEXT)
		return err_set(e, EINVAL, "--probe: longer than %d characters", CATALOG_MAX_TEXT);
	if (!cat_text_clean(spec, strlen(spec)))
		return err_set(e, EINVAL, "--probe: holds a control character");
	if (catalog_find(c, spec))
		return err_set(e, EEXIST, "--probe '%.120s': given twice", spec);
	if (c->entries.len >= CATALOG_MAX_ENTRIES)
		return err_set(e, E2BIG, "--probe '%.120s': more than %d entries", spec,
			       CATALOG_MAX_ENTRIES);
	struct cat_entry entry = {0};
	int rc = parse_spec(spec, &entry, e);
	if (rc) {
		cat_entry_free(&entry);
		return rc;
	}
	entry.layer = LAYER_USER;
	entry.id = xstrdup(spec);
	entry.naming = CAT_NAME_SYMBOL;
	entry.expected = true;
	entry.origin = xstrdup("--probe");
	*vec_push(&c->entries) = entry;
	return 0;
}
