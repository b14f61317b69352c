/* catalog_fuzz.c - hostile catalog files, --probe specs and descriptions.
 *
 * The first byte chooses: 's' a spec, 'd' a description, anything else a file.
 * Whatever is accepted must keep what catalog.h promises.
 *
 * links: base probe parser
 * needs: catalog_builtin */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "probe/catalog_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

static void check_entry(const struct catalog *c, const struct cat_entry *en)
{
	check(en->nargs + (en->factors[0] != NULL) <= MAX_ARGS && en->layer < LAYERS_MAX &&
	      *catalog_layer_name(c, en->layer));
	check(en->id && en->origin && en->symbols.len && en->libraries.len);
	for (unsigned i = 0; i < en->nargs; i++) {
		const struct arg_desc *d = &en->args[i].fetch;
		check(en->args[i].name && en->args[i].name[0]);
		check(d->nderef <= 3 && d->fetch <= FETCH_UID && d->source <= ARG_RETURN);
		check(d->fetch < FETCH_TEXT || (!d->at_return && d->source != ARG_RETURN));
		check(!d->nderef || (d->fetch != FETCH_XYZ && d->fetch != FETCH_COUNT));
		check(d->size == 1 || d->size == 2 || d->size == 4 || d->size == 8);
		check(d->source != ARG_REG || d->index < 6);
		check((d->source == ARG_RETURN) == (en->has_return && i + 1u == en->nargs));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct catalog c = {0};
	struct cat_entry en = {0};
	size_t pos;
	struct err e;
	if (size == 0)
		return 0;
	char *text = calloc(size, 1); /* without the first byte, with a NUL */
	check(text != NULL);
	memcpy(text, data + 1, size - 1);
	if (data[0] == 's')
		catalog_add_spec(&c, text, &e);
	else if (data[0] == 'd')
		cat_signature_parse(&en, text, &pos, &e);
	else
		catalog_parse(&c, (const char *)data, size, "fuzz", &e);
	for (size_t i = 0; i < c.entries.len; i++)
		check_entry(&c, &c.entries.data[i]);
	for (size_t i = 0; i < c.enums.len; i++)
		check(c.enums.data[i].type && c.enums.data[i].name && c.enums.data[i].name[0]);
	for (unsigned i = 0; i < en.nargs; i++) {
		free(en.args[i].name);
		free(en.args[i].enum_type);
	}
	catalog_free(&c);
	free(text);
	return 0;
}
