/* plan_test.c - which places of a file the catalog asks for: symbols and their first instructions,
 * who keeps a place that two entries want, what is off and what was not found, USDT pairs.
 *
 * links: base symbolize probe parser */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "elf_builder.h"
#include "probe/plan.h"

#define PATH	    "/usr/lib/libfoo.so.1"
#define GLOBAL_FUNC (STB_GLOBAL << 4 | STT_FUNC)

enum { AT_PUSH = 0x200, AT_ENDBR = 0x210, AT_LEA = 0x220, AT_COLD = 0x230, AT_USDT = 0x240 };

static struct elf_builder elf;
static struct elf_file *file;
static struct catalog catalog;
static struct plan plan;
static struct file_plan out;

static void put_code(uint64_t at, const char *code, size_t len)
{
	memcpy(elf.file.data + at, code, len);
}

static void add_usdt(struct buf *notes, const char *name, uint64_t at)
{
	struct {
		uint64_t pc, base, semaphore;
		char strings[24];
	} probe = {.pc = ELF_BASE + at, .base = 0, .semaphore = 0};
	size_t len = strlen(name);
	memcpy(probe.strings, "foo", 4);
	memcpy(probe.strings + 4, name, len);
	elf_builder_note(notes, "stapsdt", 3, &probe, 24 + 4 + len + 2);
}

static void build_file(void)
{
	struct buf table = {0}, strings = {0}, notes = {0};
	elf_builder_init(&elf);
	put_code(AT_PUSH, "\x53\x5b\xc3", 3);		       /* push %rbx */
	put_code(AT_ENDBR, "\xf3\x0f\x1e\xfa\x53\x5b\xc3", 7); /* endbr64; push %rbx */
	put_code(AT_LEA, "\x48\x8d\x47\x01\xc3", 5);	       /* lea 1(%rdi),%rax */
	put_code(AT_COLD, "\x53\x5b\xc3", 3);
	put_code(AT_USDT, "\x90\x90", 2);
	buf_byte(&strings, 0);
	elf_builder_symbol(&table, &strings, "", 0, 0, 0);
	elf_builder_symbol(&table, &strings, "foo_push", ELF_BASE + AT_PUSH, 3, GLOBAL_FUNC);
	elf_builder_symbol(&table, &strings, "foo_same", ELF_BASE + AT_PUSH, 3, GLOBAL_FUNC);
	elf_builder_symbol(&table, &strings, "foo_endbr", ELF_BASE + AT_ENDBR, 7, GLOBAL_FUNC);
	elf_builder_symbol(&table, &strings, "foo_lea", ELF_BASE + AT_LEA, 5, GLOBAL_FUNC);
	elf_builder_symbol(&table, &strings, "foo_push.cold", ELF_BASE + AT_COLD, 3, GLOBAL_FUNC);
	uint32_t link =
		elf_builder_section(&elf, ".strtab", SHT_STRTAB, strings.data, strings.len, 0);
	elf_builder_section(&elf, ".symtab", SHT_SYMTAB, table.data, table.len, link);
	add_usdt(&notes, "begin", AT_USDT);
	add_usdt(&notes, "end", AT_USDT + 1);
	elf_builder_section(&elf, ".note.stapsdt", SHT_NOTE, notes.data, notes.len, 0);
	elf_builder_finish(&elf, ET_DYN);
	buf_free(&table);
	buf_free(&strings);
	buf_free(&notes);
}

static int begin(void **state)
{
	struct err e = {""};
	(void)state;
	build_file();
	if (elf_file_open_memory(&file, elf.file.data, elf.file.len, &e))
		fail_msg("%s", e.msg);
	plan = (struct plan){.catalog = &catalog, .layers = ~0u};
	return 0;
}

static int end(void **state)
{
	(void)state;
	file_plan_free(&out);
	plan_free(&plan);
	catalog_free(&catalog);
	elf_file_close(file);
	elf_builder_free(&elf);
	return 0;
}

#define HEAD "catalog: 1\nlayer: mylib\nlibraries: [\"libfoo.so*\"]\nprobes:\n"

static void make(const char *probes)
{
	struct err e = {""};
	char text[1024];
	snprintf(text, sizeof(text), HEAD "%s", probes);
	if (catalog_parse(&catalog, text, strlen(text), "t.yaml", &e))
		fail_msg("%s", e.msg);
	if (plan_file(&plan, file, PATH, &out, &e))
		fail_msg("%s", e.msg);
}

static const struct site *site_at(uint64_t offset)
{
	for (size_t i = 0; i < out.sites.len; i++)
		if (out.sites.data[i].offset == offset)
			return &out.sites.data[i];
	return NULL;
}

static const struct entry_result *result_of(const char *id)
{
	for (size_t i = 0; i < out.results.len; i++)
		if (!strcmp(out.results.data[i].entry->id, id))
			return &out.results.data[i];
	fail_msg("no result of %s", id);
	return NULL;
}

/* After endbr64, each address once, and nothing that is jumped to. */
static void places(void **state)
{
	(void)state;
	make("  - {id: a, symbols: foo_*}\n");
	assert_int_equal(out.sites.len, 3);
	assert_non_null(site_at(AT_PUSH));
	assert_non_null(site_at(AT_ENDBR + 4));
	assert_null(site_at(AT_COLD));
	assert_int_equal(site_at(AT_PUSH)->cost, INSN_EMULATED);
	assert_int_equal(site_at(AT_LEA)->cost, INSN_STEPPED);
	const struct site *s = site_at(AT_LEA);
	assert_int_equal(s->action, SITE_SPAN);
	assert_int_equal(s->layer, LAYER_NAMED);
	assert_int_equal(COOKIE_LAYER(s->cookie), LAYER_NAMED);
	assert_int_equal(COOKIE_PROBE(s->cookie), s->probe);
	assert_int_equal(COOKIE_ACTION(s->cookie), SITE_SPAN);
	assert_string_equal(plan.probes.data[s->probe].name, "foo_lea");
	assert_string_equal(plan.probes.data[s->probe].library, PATH);
	const struct entry_result *r = result_of("a");
	assert_int_equal(r->sites, 3);
	assert_int_equal(r->by_cost[INSN_EMULATED], 2);
	assert_int_equal(r->by_cost[INSN_STEPPED], 1);
}

/* What the user adds stands behind what was there, and wins. */
static void later_entries_keep_shared_places(void **state)
{
	(void)state;
	make("  - {id: a, symbols: foo_*, name: first}\n"
	     "  - {id: b, symbols: foo_push, name: second}\n");
	assert_int_equal(out.sites.len, 3);
	assert_string_equal(plan.probes.data[site_at(AT_PUSH)->probe].name, "second");
	assert_string_equal(plan.probes.data[site_at(AT_LEA)->probe].name, "first");
	assert_int_equal(result_of("a")->sites, 2);
	assert_int_equal(result_of("b")->sites, 1);
}

static void entries_in_the_place_of_others(void **state)
{
	(void)state;
	make("  - {id: a, symbols: foo_push}\n"
	     "  - {id: b, symbols: foo_lea, unless: a}\n"
	     "  - {id: c, symbols: foo_endbr, unless: b}\n" /* not needed counts as found */
	     "  - {id: d, symbols: nothing_*}\n"
	     "  - {id: e, symbols: foo_lea, unless: d}\n");
	assert_int_equal(out.sites.len, 2);
	assert_true(result_of("b")->not_needed && result_of("c")->not_needed);
	assert_string_equal(result_of("b")->reason, "not needed: a is there");
	assert_string_equal(result_of("d")->reason, "no symbol matches: nothing_*");
	assert_int_equal(result_of("e")->sites, 1);
}

#define OFF                                                                                        \
	"  - {id: a, symbols: foo_push, cost: high}\n"                                             \
	"  - {id: b, symbols: foo_lea, enabled: false}\n"

static void what_is_off(void **state)
{
	(void)state;
	make(OFF);
	assert_int_equal(out.sites.len, 0);
	assert_true(result_of("a")->off && result_of("b")->off);
	assert_non_null(strstr(result_of("a")->reason, "frequent"));
	assert_non_null(strstr(result_of("b")->reason, "--everything"));
	assert_false(plan_wants(&plan, PATH));
}

static void what_is_asked_for(void **state)
{
	(void)state;
	plan.frequent = true;
	make(OFF);
	assert_int_equal(out.sites.len, 1);
	assert_false(result_of("a")->off);
	assert_true(result_of("b")->off);
	assert_true(plan_wants(&plan, PATH));
	assert_false(plan_wants(&plan, "/usr/lib/libbar.so"));
	plan.all_entries = true;
	file_plan_free(&out);
	assert_int_equal(plan_file(&plan, file, PATH, &out, NULL), 0);
	assert_int_equal(out.sites.len, 2);
	/* of other layers nothing is looked for */
	plan.layers = 1u << LAYER_TORCH;
	file_plan_free(&out);
	assert_int_equal(plan_file(&plan, file, PATH, &out, NULL), 0);
	assert_int_equal(out.results.len, 0);
	assert_false(plan_wants(&plan, PATH));
}

/* The argument that names a call is the first of its record. */
static void arguments(void **state)
{
	(void)state;
	plan.stacks = true;
	make("  - {id: a, symbols: foo_push, signature: \"(u64 a, str what) -> int!negative\","
	     " named_by: what, stack: 1/4}\n");
	const struct probe_info *info = &plan.probes.data[0];
	assert_int_equal(info->name_arg, 0);
	assert_int_equal(info->arg_order[0], 1);
	assert_int_equal(info->arg_order[1], 0);
	assert_int_equal(info->desc.nargs, 3);
	assert_int_equal(info->desc.args[0].fetch, FETCH_CSTRING);
	assert_int_equal(info->desc.args[2].source, ARG_RETURN);
	assert_int_equal(info->desc.error_rule, ERROR_NEGATIVE);
	assert_int_equal(info->desc.stack_chance, UINT32_MAX / 4);
	uint64_t cookie = site_at(AT_PUSH)->cookie;
	assert_int_equal(COOKIE_NARGS(cookie), 3);
	assert_int_equal(COOKIE_FLAGS(cookie), CALL_NAMED);
	assert_true(COOKIE_STACK(cookie));
}

#define ASKS                                                                                       \
	"  - {id: a, symbols: foo_push, role: alloc_caller,"                                       \
	" signature: \"(out ptr* pointer, ptr caller@caller) -> int\"}\n"                          \
	"  - {id: b, symbols: foo_lea, signature: \"(ptr caller@caller)\"}\n"

static const struct probe_info *probe_at(uint64_t offset)
{
	return &plan.probes.data[site_at(offset)->probe];
}

static void who_asks_for_memory(void **state)
{
	(void)state;
	plan.callers = true;
	make(ASKS);
	const struct probe_desc *d = &probe_at(AT_PUSH)->desc;
	assert_int_equal(d->keep, 1);
	assert_int_equal(d->nargs, 3);
	assert_int_equal(d->args[1].index, ARG_CALLER);
}

/* Then they are calls like others. What a user's probe says is read anyway. */
static void nobody_wants_who_asks(void **state)
{
	(void)state;
	make(ASKS);
	const struct probe_desc *d = &probe_at(AT_PUSH)->desc;
	assert_int_equal(d->keep, 0);
	assert_int_equal(d->nargs, 2);
	assert_int_equal(d->args[1].source, ARG_RETURN);
	assert_int_equal(probe_at(AT_LEA)->desc.nargs, 1);
	assert_int_equal(probe_at(AT_LEA)->desc.args[0].index, ARG_CALLER);
}

static void usdt(void **state)
{
	(void)state;
	make("  - {id: a, usdt: \"foo:begin\", usdt_end: \"foo:end\"}\n"
	     "  - {id: b, usdt: \"foo:none\"}\n");
	assert_int_equal(out.sites.len, 2);
	assert_int_equal(plan.probes.len, 1); /* a pair is one probe */
	assert_int_equal(site_at(AT_USDT)->action, SITE_BEGIN);
	assert_int_equal(site_at(AT_USDT + 1)->action, SITE_END);
	assert_string_equal(result_of("b")->reason, "built without these USDT probes: foo:none");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(places),
		CASE(later_entries_keep_shared_places),
		CASE(what_is_off),
		CASE(entries_in_the_place_of_others),
		CASE(arguments),
		CASE(what_is_asked_for),
		CASE(usdt),
		CASE(who_asks_for_memory),
		CASE(nobody_wants_who_asks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
