/* unwind_fuzz.c - hostile call frame information, and hostile unwind tables.
 *
 * The first byte chooses what the rest is: 'h' an .eh_frame section, 'd' a .debug_frame section
 * (its functions may lie in TEXT_LEN bytes from ELF_BASE + 1024 on), 't' a table, whose checksum
 * is made right so that the fuzzer gets past it, 'c' code that has no rules; anything else: a whole
 * ELF file. A table that
 * is compiled has to pass the check, and in one that passes every look-up has to stay inside.
 *
 * links: base symbolize */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "../unit/elf_builder.h"
#include "../unit/unwind_find.h"
#include "symbolize/unwind_impl.h"

#define TEXT_LEN 0x30000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

static void find_at(const struct unwind_table *t, uint64_t address)
{
	const struct unwind_table_head *h = (const struct unwind_table_head *)t->words;
	const uint32_t *rule = (const uint32_t *)unwind_table_find(t, address);

	check(rule >= t->words + h->rules_at &&
	      rule < t->words + h->rules_at + (size_t)h->nrules * UNWIND_RULE_WORDS);
	check((rule - (t->words + h->rules_at)) % UNWIND_RULE_WORDS == 0);
}

static void find_everywhere(const struct unwind_table *t)
{
	const struct unwind_table_head *h = (const struct unwind_table_head *)t->words;
	uint32_t pages = h->npages < 16 ? h->npages : 16;

	find_at(t, 0);
	find_at(t, UINT64_MAX);
	find_at(t, h->text_start - 1);
	find_at(t, h->text_start + ((uint64_t)h->npages << UNWIND_PAGE_SHIFT));
	for (uint32_t page = 0; page < pages; page++) {
		uint64_t start = h->text_start + ((uint64_t)page << UNWIND_PAGE_SHIFT);

		for (uint64_t low = 0; low < 0x10000; low += 0x3ff)
			find_at(t, start + low);
		find_at(t, start + 0xffff);
	}
}

static void compile(const struct elf_file *f, size_t size)
{
	struct unwind_table_stats stats;
	struct unwind_table t;
	const struct unwind_table_head *h;
	struct err e;

	if (unwind_table_build(f, &t, &stats, &e) < 0) {
		check(e.msg[0] != '\0');
		return;
	}
	check(unwind_table_check(t.words, t.len, &e) == 0);
	h = (const struct unwind_table_head *)t.words;
	/* each byte of a program makes a row at most, each function two, and each page one */
	check(h->nrows <= 2 * size + 2 * (uint64_t)h->npages + 2);
	check(h->nrules <= 2 * size + 2);
	find_everywhere(&t);
	unwind_table_free(&t);
}

static void compile_section(const char *name, const uint8_t *data, size_t size)
{
	static const uint8_t text[TEXT_LEN];
	struct elf_builder b;
	struct elf_file *f;
	struct err e;

	elf_builder_init(&b);
	elf_builder_section(&b, ".text", SHT_PROGBITS, text, sizeof(text), 0);
	elf_builder_section(&b, name, SHT_PROGBITS, data, size, 0);
	elf_builder_finish(&b, ET_DYN);
	check(elf_file_open_memory(&f, b.file.data, b.file.len, &e) == 0);
	compile(f, size);
	elf_file_close(f);
	elf_builder_free(&b);
}

static void compile_file(const uint8_t *data, size_t size)
{
	struct elf_file *f;
	struct err e;

	if (elf_file_open_memory(&f, data, size, &e) < 0)
		return;
	compile(f, size);
	elf_file_close(f);
}

static void check_table(const uint8_t *data, size_t size)
{
	struct unwind_table t = {.len = size / 4};
	struct unwind_table_head h;
	struct err e;

	t.words = xcalloc(t.len, 4);
	memcpy(t.words, data, t.len * 4);
	if (t.len >= UNWIND_HEAD_WORDS) {
		memcpy(&h, t.words, sizeof(h));
		h.words = t.len;
		h.crc = crc32_z(0, (const uint8_t *)&h, sizeof(h) - sizeof(h.crc));
		h.crc = crc32_z(h.crc, (const uint8_t *)(t.words + UNWIND_HEAD_WORDS),
				(t.len - UNWIND_HEAD_WORDS) * 4);
		memcpy(t.words, &h, sizeof(h));
	}
	if (unwind_table_check(t.words, t.len, &e) == 0)
		find_everywhere(&t);
	free(t.words);
}

/* Rows come in order, and are rules that BPF may go by. */
static void check_row(void *ctx, uint64_t address, const struct unwind_rule *rule)
{
	uint64_t *next = ctx;

	check(address >= *next);
	check(!rule || (rule->cfa != CFA_NONE && rule->cfa <= CFA_SIGNAL &&
			rule->reg < UNWIND_REGISTERS && rule->by_code));
	*next = address + 1;
}

static void follow_code(const uint8_t *data, size_t size)
{
	uint64_t next = ELF_BASE;

	unwind_code_run(data, size, ELF_BASE, check_row, &next);
	check(next <= ELF_BASE + size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	switch (data[0]) {
	case 'h':
		compile_section(".eh_frame", data + 1, size - 1);
		break;
	case 'd':
		compile_section(".debug_frame", data + 1, size - 1);
		break;
	case 't':
		check_table(data + 1, size - 1);
		break;
	case 'c':
		follow_code(data + 1, size - 1);
		break;
	default:
		compile_file(data, size);
	}
	return 0;
}
