/* file_facts_fuzz.c - hostile answers about a file, as a reader of files that was taken over would
 * give them.
 *
 * What is taken in reads no more of a call's arguments than the catalog says, and its numbers are
 * in range; of an answer that is refused nothing stays.
 *
 * links: base symbolize probe parser */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "probe/file_facts.h"
#include "probe/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] = "catalog: 1\nlayer: python\n"
			   "libraries: [\"python3*\"]\n"
			   "probes:\n"
			   "  - id: py.main\n"
			   "    symbols: [\"Py_BytesMain\", \"Py_Exit*\"]\n"
			   "    signature: (u64 a, str name, ptr b) -> int\n"
			   "  - id: py.eval\n"
			   "    python: true\n"
			   "    symbols: [\"_PyEval_EvalFrameDefault\"]\n"
			   "    signature: (_, pycode frame)\n";

static void check(int holds)
{
	if (!holds)
		abort();
}

static void check_probe(const struct plan *p, const struct probe_info *info)
{
	const struct cat_entry *en = info->entry;
	check(en >= p->catalog->entries.data && info->desc.nargs <= en->nargs);
	check(info->name && info->symbol && info->library);
	check(info->name_arg < info->desc.nargs);
	for (uint8_t i = 0; i < info->desc.nargs; i++) {
		const struct arg_desc *a = &info->desc.args[i];
		const struct arg_desc *asked = &en->args[info->arg_order[i]].fetch;
		check(a->fetch == asked->fetch && a->source == asked->source &&
		      a->nderef == asked->nderef && a->size == asked->size);
		check(a->source != ARG_REG || a->index < 6);
		check(a->fetch != FETCH_PYCODE || a->layout < p->layouts.len);
	}
}

static void check_facts(const struct plan *p, const struct file_facts *f)
{
	check(strlen(f->build_id) < sizeof(f->build_id));
	check(strlen(f->interpreter) < sizeof(f->interpreter));
	for (int i = 0; i < HOOK_KINDS; i++)
		check(f->hooks[i].n <= HOOKS_MOST);
	for (size_t i = 0; i < p->probes.len; i++)
		check_probe(p, &p->probes.data[i]);
	for (size_t i = 0; i < f->plan.sites.len; i++)
		check(f->plan.sites.data[i].probe < p->probes.len);
	for (size_t i = 0; i < f->plan.results.len; i++)
		check(strlen(f->plan.results.data[i].reason) <
		      sizeof(f->plan.results.data[i].reason));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct catalog catalog = {0};
	struct plan plan = {.catalog = &catalog, .layers = ~0u};
	struct file_facts facts;
	struct err e;
	check(catalog_parse(&catalog, text, strlen(text), "fuzz", &e) == 0);
	if (!file_facts_take(&facts, &plan, "/bin/python3.11", data, size, &e)) {
		check_facts(&plan, &facts);
		file_facts_free(&facts);
	} else {
		check(!plan.probes.len && !plan.layouts.len);
	}
	plan_free(&plan);
	catalog_free(&catalog);
	return 0;
}
