/* unwind_table_test.c - unwind tables: of sections made by hand, and of this system's libraries
 * against what libdw reads there.
 *
 * libdw is the independent reader: its answer for an address is a DWARF expression per register.
 * Both answers are worked out on made-up registers and a made-up memory, and have to name the
 * same places. More files: UNWIND_FILES=PATH:PATH.
 *
 * links: base symbolize libdw */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "symbolize/eh_frame.h"
#include "symbolize/unwind_table.h"
#include "unwind_find.h"
#include "elf_builder.h"

#ifdef HAVE_LIBDW
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#endif

static struct unwind_table_head head_of(const struct unwind_table *t)
{
	struct unwind_table_head h;

	memcpy(&h, t->words, sizeof(h));
	return h;
}

/* ---- by hand ---- */

#define TEXT_LEN 0x40000
#define TEXT	 (ELF_BASE + 1024) /* where the builder puts the first section */

/* A section of call frame information under construction; functions are given by their place
 * in the text. */
struct made {
	struct buf eh;
	struct buf debug;
	size_t cie_at;
	bool in_debug;
	const char *code; /* at code_at of the text */
	size_t code_at, code_len;
	struct elf_builder elf;
	struct elf_file *file;
	struct unwind_table table;
	struct unwind_table_stats stats;
};

static struct buf *section_of(struct made *m)
{
	return m->in_debug ? &m->debug : &m->eh;
}

static void put(struct buf *b, uint64_t v, size_t n)
{
	buf_add(b, &v, n);
}

static void put_length(struct buf *b, size_t at)
{
	uint32_t len;

	while ((b->len - at) % 8)
		buf_byte(b, 0); /* DW_CFA_nop */
	len = b->len - at - 4;
	memcpy(b->data + at, &len, 4);
}

/* rsp + 8, return address at CFA - 8: the ABI's state at a function's first instruction. */
#define ON_ENTRY "\x0c\x07\x08\x90\x01"
#define CODE(s)	 s, sizeof(s) - 1

static void cie(struct made *m, const char *letters, const char *data, size_t data_len,
		const char *program, size_t len)
{
	struct buf *b = section_of(m);

	m->cie_at = b->len;
	put(b, 0, 4);
	put(b, m->in_debug ? 0xffffffff : 0, 4);
	buf_byte(b, 1);
	buf_add(b, letters, strlen(letters) + 1);
	buf_add(b, "\x01\x78\x10", 3); /* factors 1 and -8, return address in column 16 */
	if (letters[0] == 'z') {
		buf_byte(b, data_len);
		buf_add(b, data, data_len);
	}
	buf_add(b, program, len);
	put_length(b, m->cie_at);
}

static void plain_cie(struct made *m)
{
	cie(m, "", NULL, 0, CODE(ON_ENTRY));
}

/* For CIEs without an encoding of pointers and without 'z'. */
static void fde(struct made *m, uint64_t start, uint64_t function_len, const char *program,
		size_t len)
{
	struct buf *b = section_of(m);
	size_t at = b->len;

	put(b, 0, 4);
	put(b, m->in_debug ? m->cie_at : at + 4 - m->cie_at, 4);
	put(b, TEXT + start, 8);
	put(b, function_len, 8);
	buf_add(b, program, len);
	put_length(b, at);
}

static int build(struct made *m)
{
	void *text = xcalloc(1, TEXT_LEN);
	struct err e;
	int rc;

	if (m->code)
		memcpy((uint8_t *)text + m->code_at, m->code, m->code_len);
	elf_builder_init(&m->elf);
	elf_builder_section(&m->elf, ".text", SHT_PROGBITS, text, TEXT_LEN, 0);
	free(text);
	elf_builder_section(&m->elf, ".eh_frame", SHT_PROGBITS, m->eh.data, m->eh.len, 0);
	elf_builder_section(&m->elf, ".debug_frame", SHT_PROGBITS, m->debug.data, m->debug.len, 0);
	elf_builder_finish(&m->elf, ET_DYN);
	assert_int_equal(elf_file_open_memory(&m->file, m->elf.file.data, m->elf.file.len, &e), 0);
	rc = unwind_table_build(m->file, &m->table, &m->stats, &e);
	if (rc == 0)
		assert_int_equal(unwind_table_check(m->table.words, m->table.len, &e), 0);
	return rc;
}

static void end(struct made *m)
{
	unwind_table_free(&m->table);
	elf_file_close(m->file);
	elf_builder_free(&m->elf);
	buf_free(&m->eh);
	buf_free(&m->debug);
}

static const struct unwind_rule *at(const struct made *m, uint64_t place)
{
	return unwind_table_find(&m->table, TEXT + place);
}

static void assert_rule(const struct made *m, uint64_t place, enum unwind_cfa cfa,
			enum unwind_register reg, int offset)
{
	const struct unwind_rule *r = at(m, place);

	assert_int_equal(r->cfa, cfa);
	assert_int_equal(r->reg, reg);
	assert_int_equal(r->offset, offset);
}

static void test_prologue(void **state)
{
	struct made m = {0};

	(void)state;
	plain_cie(&m);
	/* push %rbp; mov %rsp,%rbp; ... pop %rbp; ret, and a part behind the ret */
	fde(&m, 0x100, 0x40,
	    CODE("\x41\x0e\x10\x86\x02" /* +1: offset 16, rbp at CFA - 16 */
		 "\x43\x0d\x06"		/* +3: by rbp */
		 "\x70\x0a\x0c\x07\x08" /* +0x30: remember; rsp + 8 */
		 "\xc6"			/* rbp as at entry */
		 "\x42\x0b"));		/* +2: restore */
	assert_int_equal(build(&m), 0);
	assert_int_equal(m.stats.fdes, 1);
	assert_int_equal(m.stats.unsupported + m.stats.damaged, 0);
	assert_rule(&m, 0xff, CFA_NONE, 0, 0);
	assert_rule(&m, 0x100, CFA_REG, UNWIND_RSP, 8);
	assert_int_equal(at(&m, 0x100)->ra, -8);
	assert_int_equal(at(&m, 0x100)->saved[1], UNWIND_SAME);
	assert_rule(&m, 0x101, CFA_REG, UNWIND_RSP, 16);
	assert_int_equal(at(&m, 0x101)->saved[1], -16);
	assert_int_equal(at(&m, 0x101)->saved[0], UNWIND_SAME);
	assert_rule(&m, 0x104, CFA_REG, UNWIND_RBP, 16);
	assert_rule(&m, 0x133, CFA_REG, UNWIND_RBP, 16);
	assert_rule(&m, 0x134, CFA_REG, UNWIND_RSP, 8);
	assert_int_equal(at(&m, 0x134)->saved[1], UNWIND_SAME);
	assert_rule(&m, 0x136, CFA_REG, UNWIND_RBP, 16);
	assert_int_equal(at(&m, 0x136)->saved[1], -16);
	assert_rule(&m, 0x13f, CFA_REG, UNWIND_RBP, 16);
	assert_rule(&m, 0x140, CFA_NONE, 0, 0);
	assert_rule(&m, TEXT_LEN * 16, CFA_NONE, 0, 0);
	assert_rule(&m, -(uint64_t)TEXT, CFA_NONE, 0, 0);
	end(&m);
}

struct example {
	const char *what;
	const char *program;
	size_t len;
	struct unwind_rule rule; /* of the function's first address */
};

#define ALL_SAME                                                                                   \
	{                                                                                          \
		1, 1, 1, 1, 1, 1                                                                   \
	}
#define REG_RULE(r, o) .cfa = CFA_REG, .reg = (r), .offset = (o), .ra = -8

static const struct example examples[] = {
	{"nothing more", CODE(""), {REG_RULE(7, 8), .saved = ALL_SAME}},
	{"def_cfa_sf", CODE("\x12\x06\x7e"), {REG_RULE(6, 16), .saved = ALL_SAME}},
	{"def_cfa_offset_sf", CODE("\x13\x7c"), {REG_RULE(7, 32), .saved = ALL_SAME}},
	{"def_cfa_register", CODE("\x0d\x0a"), {REG_RULE(10, 8), .saved = ALL_SAME}},
	{"offset_extended", CODE("\x05\x03\x03"), {REG_RULE(7, 8), .saved = {-24, 1, 1, 1, 1, 1}}},
	{"offset_extended_sf",
	 CODE("\x11\x0c\x7e"),
	 {REG_RULE(7, 8), .saved = {1, 1, 16, 1, 1, 1}}},
	{"negative_offset_extended",
	 CODE("\x2f\x0f\x02"),
	 {REG_RULE(7, 8), .saved = {1, 1, 1, 1, 1, 16}}},
	{"restore_extended", CODE("\x83\x02\x06\x03"), {REG_RULE(7, 8), .saved = ALL_SAME}},
	{"undefined", CODE("\x07\x0d"), {REG_RULE(7, 8), .saved = {1, 1, 1, 3, 1, 1}}},
	{"same_value", CODE("\x83\x02\x08\x03"), {REG_RULE(7, 8), .saved = ALL_SAME}},
	{"register", CODE("\x09\x0e\x02"), {REG_RULE(7, 8), .saved = {1, 1, 1, 1, 3, 1}}},
	{"val_offset", CODE("\x14\x06\x02"), {REG_RULE(7, 8), .saved = {1, 3, 1, 1, 1, 1}}},
	{"val_offset of rsp", CODE("\x14\x07\x00"), {REG_RULE(7, 8), .saved = ALL_SAME}},
	{"val_offset_sf of rsp elsewhere", CODE("\x15\x07\x01"), {0}},
	{"val_expression",
	 CODE("\x16\x0f\x02\x77\x08"),
	 {REG_RULE(7, 8), .saved = {1, 1, 1, 1, 1, 3}}},
	{"GNU_args_size", CODE("\x2e\x90\x01\x0e\x10"), {REG_RULE(7, 16), .saved = ALL_SAME}},
	{"a register that nobody asks for", CODE("\x88\x05"), {REG_RULE(7, 8), .saved = ALL_SAME}},
	{"a greatest offset",
	 CODE("\x0e\xff\xff\xff\xff\x07"),
	 {REG_RULE(7, 0x7fffffff), .saved = ALL_SAME}},
	{"a greater offset", CODE("\x0e\x80\x80\x80\x80\x08"), {0}},
	{"saved too far away", CODE("\x86\x81\x20"), {REG_RULE(7, 8), .saved = {1, 3, 1, 1, 1, 1}}},
	{"saved as far as can be",
	 CODE("\x86\x80\x20"),
	 {REG_RULE(7, 8), .saved = {1, -32768, 1, 1, 1, 1}}},
	{"a return address too far away", CODE("\x90\x81\x20"), {0}},
	{"the outermost frame", CODE("\x07\x10"), {.cfa = CFA_END}},
	{"a return address in a register", CODE("\x09\x10\x01"), {0}},
	{"a return address that is the same", CODE("\x08\x10"), {0}},
	{"a realigned stack: CFA and rbp by rbp, r15 too",
	 CODE("\x0f\x03\x76\x78\x06\x10\x06\x02\x76\x00\x10\x0f\x02\x76\x70"),
	 {.cfa = CFA_DEREF,
	  .reg = 6,
	  .offset = -8,
	  .ra = -8,
	  .base = 6,
	  .by_base = 0x22,
	  .saved = {1, 0, 1, 1, 1, -16}}},
	{"saved by two registers: the second is lost",
	 CODE("\x10\x03\x02\x76\x10\x10\x0f\x02\x7a\x08"),
	 {REG_RULE(7, 8), .base = 6, .by_base = 1, .saved = {16, 1, 1, 1, 1, 3}}},
	{"saved by the CFA's register",
	 CODE("\x10\x03\x02\x77\x10"),
	 {REG_RULE(7, 8), .saved = {8, 1, 1, 1, 1, 1}}},
	{"saved where a pointer points",
	 CODE("\x10\x03\x03\x76\x10\x06"),
	 {REG_RULE(7, 8), .saved = {3, 1, 1, 1, 1, 1}}},
	{"a pointer on the stack, and more",
	 CODE("\x0f\x06\x77\xc0\x00\x06\x23\x08"),
	 {.cfa = CFA_DEREF, .reg = 7, .offset = 64, .add = 8, .ra = -8, .saved = ALL_SAME}},
	{"an expression without a pointer",
	 CODE("\x0f\x04\x77\x08\x23\x08"),
	 {REG_RULE(7, 16), .saved = ALL_SAME}},
	{"bregx", CODE("\x0f\x03\x92\x0a\x10"), {REG_RULE(10, 16), .saved = ALL_SAME}},
	{"a product", CODE("\x0f\x07\x77\x00\x79\x00\x38\x1e\x22"), {0}},
	{"two pointers", CODE("\x0f\x04\x77\x08\x06\x06"), {0}},
	{"an empty expression", CODE("\x0f\x00"), {0}},
	{"lazy binding",
	 CODE("\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"),
	 {.cfa = CFA_PLT, .reg = 7, .offset = 8, .add = 11, .ra = -8, .saved = ALL_SAME}},
	{"lazy binding with endbr64",
	 CODE("\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3a\x2a\x33\x24\x22"),
	 {.cfa = CFA_PLT, .reg = 7, .offset = 8, .add = 10, .ra = -8, .saved = ALL_SAME}},
	{"nearly lazy binding", CODE("\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x34\x24\x22"), {0}},
};

static void test_examples(void **state)
{
	int failed = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		const struct example *x = &examples[i];
		struct made m = {0};

		plain_cie(&m);
		fde(&m, 0, 16, x->program, x->len);
		assert_int_equal(build(&m), 0);
		if (memcmp(at(&m, 0), &x->rule, sizeof(x->rule)) != 0 ||
		    m.stats.unsupported != (x->rule.cfa == CFA_NONE) || m.stats.damaged) {
			const struct unwind_rule *r = at(&m, 0);

			print_message("%s: cfa %d reg %d offset %d add %d ra %d base %d by %x "
				      "saved %d %d %d %d %d %d; %llu damaged\n",
				      x->what, r->cfa, r->reg, r->offset, r->add, r->ra, r->base,
				      r->by_base, r->saved[0], r->saved[1], r->saved[2],
				      r->saved[3], r->saved[4], r->saved[5],
				      (unsigned long long)m.stats.damaged);
			failed++;
		}
		end(&m);
	}
	assert_int_equal(failed, 0);
}

static void test_signal_frame(void **state)
{
	struct made m = {0};

	(void)state;
	cie(&m, "S", NULL, 0, CODE(""));
	/* a struct ucontext at rsp + 16: CFA from 16 + 160, return address at 16 + 168 */
	fde(&m, 0, 16,
	    CODE("\x0f\x04\x77\xb0\x01\x06"
		 "\x10\x10\x03\x77\xb8\x01"));
	fde(&m, 16, 16,
	    CODE("\x0f\x04\x77\xb0\x01\x06"
		 "\x10\x10\x03\x77\xb0\x01"));
	assert_int_equal(build(&m), 0);
	assert_rule(&m, 0, CFA_SIGNAL, UNWIND_RSP, 16);
	assert_rule(&m, 16, CFA_NONE, 0, 0); /* not the kernel's struct */
	assert_int_equal(m.stats.unsupported, 1);
	end(&m);
}

/* Each way to write a pointer that linkers use; relative ones count from their own place. */
static void test_pointer_encodings(void **state)
{
	static const struct {
		uint8_t encoding;
		uint8_t bytes;
		bool good;
	} encodings[] = {{0x00, 8, true},  {0x03, 4, true},  {0x04, 8, true},  {0x0b, 4, true},
			 {0x0c, 8, true},  {0x1b, 4, true},  {0x1c, 8, true},  {0x10, 8, true},
			 {0x02, 2, false}, {0x9b, 4, false}, {0x3b, 4, false}, {0xff, 4, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(encodings) / sizeof(encodings[0]); i++) {
		/* .eh_frame follows the text, at a multiple of 8 */
		uint64_t eh_at = TEXT + TEXT_LEN, start = TEXT + 0x1234;
		size_t n = encodings[i].bytes, fde_at;
		struct made m = {0};

		cie(&m, "zR", (const char *)&encodings[i].encoding, 1, CODE(ON_ENTRY));
		fde_at = m.eh.len;
		put(&m.eh, 0, 4);
		put(&m.eh, fde_at + 4, 4);
		put(&m.eh, encodings[i].encoding & 0x10 ? start - (eh_at + m.eh.len) : start, n);
		put(&m.eh, 0x20, n);
		buf_byte(&m.eh, 0); /* no augmentation data */
		put_length(&m.eh, fde_at);
		assert_int_equal(build(&m), encodings[i].good ? 0 : -ENOENT);
		if (encodings[i].good) {
			assert_rule(&m, 0x1233, CFA_NONE, 0, 0);
			assert_rule(&m, 0x1234, CFA_REG, UNWIND_RSP, 8);
			assert_rule(&m, 0x1253, CFA_REG, UNWIND_RSP, 8);
			assert_rule(&m, 0x1254, CFA_NONE, 0, 0);
		} else {
			assert_int_equal(m.stats.damaged, 1);
		}
		end(&m);
	}
}

/* 64-bit lengths, entries of length 0, functions of no bytes, a CIE with a personality. */
static void test_forms_of_entries(void **state)
{
	struct made m = {0};
	size_t at_fde;

	(void)state;
	put(&m.eh, 0, 4);
	cie(&m, "zPLR", CODE("\x03\1\2\3\4\x1b\x00"), CODE(ON_ENTRY));
	at_fde = m.eh.len;
	put(&m.eh, 0xffffffff, 4);
	put(&m.eh, 4 + 16 + 1 + 8 + 3, 8);
	put(&m.eh, at_fde + 12 - m.cie_at, 4);
	put(&m.eh, TEXT, 8);
	put(&m.eh, 32, 8);
	buf_byte(&m.eh, 8); /* where the table of exceptions is */
	put(&m.eh, 0, 8);
	buf_add(&m.eh, "\x50\x0e\x10", 3);
	put(&m.eh, 0, 4);
	plain_cie(&m);
	fde(&m, 0x100, 0, CODE("\x0e\x10"));
	fde(&m, 0x200, 8, CODE("\x0e\x18"));
	assert_int_equal(build(&m), 0);
	assert_int_equal(m.stats.fdes, 2);
	assert_int_equal(m.stats.damaged, 0);
	assert_rule(&m, 0, CFA_REG, UNWIND_RSP, 8);
	assert_rule(&m, 16, CFA_REG, UNWIND_RSP, 16);
	assert_rule(&m, 0x100, CFA_NONE, 0, 0);
	assert_rule(&m, 0x200, CFA_REG, UNWIND_RSP, 24);
	end(&m);
}

static void test_order_and_gaps(void **state)
{
	struct made m = {0};

	(void)state;
	plain_cie(&m);
	fde(&m, 0x300, 0x10, CODE("\x0e\x30"));
	fde(&m, 0x100, 0x10, CODE("\x0e\x10"));
	fde(&m, 0x11f, 0x11, CODE("\x0e\x18"));				/* 15 bytes behind */
	fde(&m, 0x140, 0x10, CODE("\x0e\x20"));				/* 16 bytes behind */
	fde(&m, 0x308, 0x18, CODE("\x0e\x38\x44\x0e\x40\x48\x0e\x48")); /* begins in another */
	fde(&m, 0x302, 0x04, CODE("\x0e\x50"));				/* lies in another */
	fde(&m, 0x140, 0x80, CODE("\x0e\x58")); /* begins where another does */
	assert_int_equal(build(&m), 0);
	assert_rule(&m, 0x10f, CFA_REG, UNWIND_RSP, 0x10);
	assert_rule(&m, 0x11e, CFA_REG, UNWIND_RSP, 0x10);
	assert_rule(&m, 0x11f, CFA_REG, UNWIND_RSP, 0x18);
	assert_rule(&m, 0x12f, CFA_REG, UNWIND_RSP, 0x18);
	assert_rule(&m, 0x130, CFA_NONE, 0, 0);
	assert_rule(&m, 0x140, CFA_REG, UNWIND_RSP, 0x20);
	assert_rule(&m, 0x150, CFA_REG, UNWIND_RSP, 0x58);
	assert_rule(&m, 0x1bf, CFA_REG, UNWIND_RSP, 0x58);
	assert_rule(&m, 0x1c0, CFA_NONE, 0, 0);
	assert_rule(&m, 0x304, CFA_REG, UNWIND_RSP, 0x30);
	assert_rule(&m, 0x30f, CFA_REG, UNWIND_RSP, 0x30);
	assert_rule(&m, 0x310, CFA_REG, UNWIND_RSP, 0x40);
	assert_rule(&m, 0x314, CFA_REG, UNWIND_RSP, 0x48);
	assert_rule(&m, 0x320, CFA_NONE, 0, 0);
	end(&m);
}

/* A rule goes on over pages without being said again, and ends at the edge of one. */
static void test_pages(void **state)
{
	uint64_t edge = 0x10000 - TEXT % 0x10000;
	struct unwind_table_head h;
	struct made m = {0};

	(void)state;
	plain_cie(&m);
	fde(&m, edge - 0x100, 0x20100, CODE("\x0e\x10\x04\xff\x00\x02\x00\x0e\x18"));
	fde(&m, edge + 0x20000, 0x10000, CODE("\x0e\x20"));
	assert_int_equal(build(&m), 0);
	h = head_of(&m.table);
	assert_int_equal(h.text_start, TEXT + edge - 0x10000);
	assert_int_equal(h.npages, 5); /* to the end of .text */
	assert_int_equal(h.nrows,
			 2 + 1 + 2 + 1 + 1); /* 0, start; carried; carried, change; start; 0 */
	assert_rule(&m, edge - 0x101, CFA_NONE, 0, 0);
	assert_rule(&m, edge - 1, CFA_REG, UNWIND_RSP, 16);
	assert_rule(&m, edge, CFA_REG, UNWIND_RSP, 16);
	assert_rule(&m, edge + 0x1fffe, CFA_REG, UNWIND_RSP, 16);
	assert_rule(&m, edge + 0x1ffff, CFA_REG, UNWIND_RSP, 24);
	assert_rule(&m, edge + 0x20000, CFA_REG, UNWIND_RSP, 32);
	assert_rule(&m, edge + 0x2ffff, CFA_REG, UNWIND_RSP, 32);
	assert_rule(&m, edge + 0x30000, CFA_NONE, 0, 0);
	end(&m);
}

static void test_pages_without_rows(void **state)
{
	uint64_t edge = 0x10000 - TEXT % 0x10000;
	struct made m = {0};

	(void)state;
	plain_cie(&m);
	fde(&m, 0, 0x10, CODE(""));
	fde(&m, edge + 0x20080, 0x10, CODE("\x0e\x10"));
	assert_int_equal(build(&m), 0);
	assert_int_equal(head_of(&m.table).npages, 5);
	assert_rule(&m, edge + 0x8000, CFA_NONE, 0, 0);
	assert_rule(&m, edge + 0x20000, CFA_NONE, 0, 0);
	assert_rule(&m, edge + 0x20080, CFA_REG, UNWIND_RSP, 16);
	assert_int_equal(head_of(&m.table).nrows, 3 + 0 + 0 + 3);
	end(&m);
}

static void test_debug_frame_fills_in(void **state)
{
	struct made m = {0};

	(void)state;
	plain_cie(&m);
	fde(&m, 0x100, 0x20, CODE("\x0e\x10"));
	fde(&m, 0x200, 0x20, CODE("\x0e\x18"));
	m.in_debug = true;
	plain_cie(&m);
	fde(&m, 0x100, 0x20, CODE("\x0e\x40")); /* both say it: .eh_frame's */
	fde(&m, 0x1f0, 0x20, CODE("\x0e\x48")); /* only its beginning is free */
	fde(&m, 0x300, 0x20, CODE("\x0e\x50"));
	fde(&m, -(uint64_t)TEXT, 0x200000, CODE("\x0e\x58")); /* dropped by the linker */
	assert_int_equal(build(&m), 0);
	assert_rule(&m, 0x0f0, CFA_NONE, 0, 0);
	assert_rule(&m, 0x110, CFA_REG, UNWIND_RSP, 0x10);
	assert_rule(&m, 0x1ff, CFA_REG, UNWIND_RSP, 0x48);
	assert_rule(&m, 0x20f, CFA_REG, UNWIND_RSP, 0x18);
	assert_rule(&m, 0x31f, CFA_REG, UNWIND_RSP, 0x50);
	assert_int_equal(m.stats.damaged, 1);
	end(&m);
}

/* Behind a function that has rules. */
static void begin_code(struct made *m, const char *code, size_t len)
{
	*m = (struct made){.code = code, .code_at = 0x200, .code_len = len};
	plain_cie(m);
	fde(m, 0x100, 0x40, CODE(""));
	assert_int_equal(build(m), 0);
}

static void assert_saved(const struct made *m, uint64_t place, int rbx, int r12)
{
	const struct unwind_rule *r = at(m, place);

	assert_int_equal(r->by_code, 1);
	assert_int_equal(r->saved[0], rbx);
	assert_int_equal(r->saved[2], r12);
}

static void test_code_without_rules(void **state)
{
	struct made m;

	(void)state;
	/* push %rbx; push %r12; sub $40,%rsp; nop; add $40,%rsp; pop %r12; pop %rbx; ret */
	begin_code(&m, CODE("\x53\x41\x54\x48\x83\xec\x28\x90\x48\x83\xc4\x28\x41\x5c\x5b\xc3"));
	assert_rule(&m, 0x13f, CFA_REG, UNWIND_RSP, 8);
	assert_int_equal(at(&m, 0x13f)->by_code, 0);
	assert_rule(&m, 0x200, CFA_REG, UNWIND_RSP, 8);
	assert_saved(&m, 0x200, UNWIND_SAME, UNWIND_SAME);
	assert_rule(&m, 0x201, CFA_REG, UNWIND_RSP, 16);
	assert_saved(&m, 0x201, -16, UNWIND_SAME);
	assert_rule(&m, 0x207, CFA_REG, UNWIND_RSP, 64);
	assert_saved(&m, 0x207, -16, -24);
	assert_rule(&m, 0x20c, CFA_REG, UNWIND_RSP, 24);
	assert_rule(&m, 0x20f, CFA_REG, UNWIND_RSP, 8);
	assert_saved(&m, 0x20f, UNWIND_SAME, UNWIND_SAME);
	assert_rule(&m, 0x210, CFA_NONE, 0, 0);
	end(&m);
	/* mov %rsp,%rax; sub $72,%rsp; and $-64,%rsp; mov %rax,64(%rsp); nop; mov 64(%rsp),%rsp;
	 * ret */
	begin_code(&m, CODE("\x48\x89\xe0\x48\x83\xec\x48\x48\x83\xe4\xc0\x48\x89\x44\x24\x40\x90"
			    "\x48\x8b\x64\x24\x40\xc3"));
	assert_rule(&m, 0x200, CFA_REG, UNWIND_RSP, 8);
	assert_rule(&m, 0x203, CFA_REG, UNWIND_RAX, 8);
	assert_rule(&m, 0x20b, CFA_REG, UNWIND_RAX, 8);
	assert_rule(&m, 0x210, CFA_DEREF, UNWIND_RSP, 64);
	assert_int_equal(at(&m, 0x210)->add, 8);
	assert_rule(&m, 0x216, CFA_REG, UNWIND_RSP, 8);
	end(&m);
}

/* A jump that leads nobody knows where; ways to a return that do not agree. */
static void test_code_that_cannot_be_followed(void **state)
{
	struct made m;

	(void)state;
	begin_code(&m, CODE("\x53\x90\xff\xe0")); /* push %rbx; nop; jmp *%rax */
	assert_rule(&m, 0x201, CFA_NONE, 0, 0);
	end(&m);
	begin_code(&m, CODE("\x90\x74\x01\x5b\xc3")); /* nop; jz 1f; pop %rbx; 1: ret */
	assert_rule(&m, 0x200, CFA_NONE, 0, 0);
	assert_rule(&m, 0x203, CFA_REG, UNWIND_RSP, 16);
	end(&m);
}

static void test_damage(void **state)
{
	struct made m = {0};

	(void)state;
	cie(&m, "zQ", CODE("\x00"), CODE(ON_ENTRY)); /* an unknown letter */
	fde(&m, 0x000, 0x10, CODE(""));
	cie(&m, "", NULL, 0, CODE(ON_ENTRY "\x41\x00")); /* a CIE that goes to another place */
	fde(&m, 0x100, 0x10, CODE(""));
	plain_cie(&m);
	fde(&m, 0x200, 0x10, CODE("\x44\x3f")); /* an unknown opcode at +4 */
	fde(&m, 0x300, 0x10, CODE("\x44\x0b")); /* restored before it was remembered */
	fde(&m, 0x400, TEXT_LEN * 4, CODE("")); /* beyond the file */
	fde(&m, 0x500, 0x10, CODE(""));
	put(&m.eh, 1000, 4); /* an entry beyond the section */
	assert_int_equal(build(&m), 0);
	assert_int_equal(m.stats.damaged, 2 + 2 + 2 + 1 + 1);
	assert_int_equal(m.stats.fdes, 3);
	assert_rule(&m, 0x100, CFA_NONE, 0, 0);
	assert_rule(&m, 0x203, CFA_REG, UNWIND_RSP, 8);
	assert_rule(&m, 0x204, CFA_NONE, 0, 0);
	assert_rule(&m, 0x304, CFA_NONE, 0, 0);
	assert_rule(&m, 0x400, CFA_NONE, 0, 0);
	assert_rule(&m, 0x50f, CFA_REG, UNWIND_RSP, 8);
	end(&m);
}

/* 70,000 rules that differ in the place of r12, each at an address of its own. */
static void test_too_many_rules(void **state)
{
	struct buf program = {0};
	struct made m = {0};
	uint32_t lost = 0, none = 0;

	(void)state;
	plain_cie(&m);
	for (int i = 0; i < 70000; i++) {
		/* def_cfa_offset i / 2048 * 8 + 8; r12 at CFA - 8 * (i % 2048); advance 1 */
		int high = i / 2048 + 1, low = i % 2048;
		const uint8_t code[] = {0x0e, 0x80 | (high * 8 & 0x7f), high * 8 >> 7,
					0x8c, 0x80 | (low & 0x7f),	low >> 7,
					0x41};

		buf_add(&program, code, sizeof(code));
	}
	fde(&m, 0, 70000, (const char *)program.data, program.len);
	buf_free(&program);
	assert_int_equal(build(&m), 0);
	for (int i = 0; i < 70000; i++) {
		const struct unwind_rule *r = at(&m, i);

		none += r->cfa == CFA_NONE;
		if (r->cfa == CFA_NONE)
			continue;
		assert_int_equal(r->offset, (i / 2048 + 1) * 8);
		lost += r->saved[2] == UNWIND_LOST;
		if (r->saved[2] != UNWIND_LOST)
			assert_int_equal(r->saved[2], -8 * (i % 2048));
	}
	assert_int_equal(none, 0); /* without r12 there are 35 */
	assert_true(lost > 70000 - UNWIND_MAX_RULES && lost < 20000);
	end(&m);
}

/* Every word matters: a table with any of its bits changed is refused. */
static void test_check(void **state)
{
	struct unwind_table_head h;
	struct made m = {0};
	struct err e;

	(void)state;
	plain_cie(&m);
	fde(&m, 0x100, 0x40, CODE("\x41\x0e\x10\x86\x02\x43\x0d\x06"));
	assert_int_equal(build(&m), 0);
	for (size_t i = 0; i < m.table.len; i++)
		for (int bit = 0; bit < 32; bit++) {
			m.table.words[i] ^= 1u << bit;
			assert_int_equal(unwind_table_check(m.table.words, m.table.len, &e),
					 -EINVAL);
			m.table.words[i] ^= 1u << bit;
		}
	for (size_t len = 0; len < m.table.len; len++)
		assert_int_equal(unwind_table_check(m.table.words, len, &e), -EINVAL);
	/* the order of rows is checked beside the checksum */
	h = head_of(&m.table);
	m.table.words[h.rows_at + 2] = m.table.words[h.rows_at + 1];
	h.crc = crc32_z(0, (uint8_t *)&h, sizeof(h) - sizeof(h.crc));
	h.crc = crc32_z(h.crc, (uint8_t *)(m.table.words + UNWIND_HEAD_WORDS),
			(m.table.len - UNWIND_HEAD_WORDS) * 4);
	memcpy(m.table.words, &h, sizeof(h));
	assert_int_equal(unwind_table_check(m.table.words, m.table.len, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "order"));
	end(&m);
}

static void test_nothing_there(void **state)
{
	struct made m = {0};

	(void)state;
	assert_int_equal(build(&m), -ENOENT);
	end(&m);
}

/* ---- against libdw ---- */

#ifdef HAVE_LIBDW

/* Where a value of the caller is. */
struct answer {
	enum { SAME, LOST, AT_ADDRESS } how;
	uint64_t address;
};

struct frame {
	bool known;
	bool outermost;
	uint64_t cfa;
	struct answer ra;
	struct answer saved[UNWIND_SAVED];
};

static const int saved_registers[UNWIND_SAVED] = {3, 6, 12, 13, 14, 15};
static const int ucontext_registers[UNWIND_SAVED] = {11, 10, 4, 5, 6, 7}; /* places in gregs */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * 0x9e3779b97f4a7c15ULL;
	return x ^ x >> 29;
}

static uint64_t reg_value(uint64_t address, int reg)
{
	return reg == UNWIND_RIP ? address : mix(address * 32 + reg) & ~7ULL;
}

static uint64_t memory_at(uint64_t address)
{
	return mix(address ^ 0x5555) & ~7ULL;
}

static struct frame frame_of_rule(const struct unwind_rule *r, uint64_t address)
{
	uint64_t from = reg_value(address, r->reg) + (int64_t)r->offset;
	struct frame f = {.known = r->cfa != CFA_NONE, .outermost = r->cfa == CFA_END};

	switch (r->cfa) {
	case CFA_REG:
		f.cfa = from;
		break;
	case CFA_DEREF:
		f.cfa = memory_at(from) + (int64_t)r->add;
		break;
	case CFA_PLT:
		f.cfa = from + ((address & 15) >= (uint32_t)r->add ? 8 : 0);
		break;
	case CFA_SIGNAL: /* gregs: 40 bytes into struct ucontext; rsp and rip are 15 and 16 */
		f.cfa = memory_at(from + 40 + 15 * 8);
		f.ra = (struct answer){AT_ADDRESS, from + 40 + 16 * 8};
		for (int i = 0; i < UNWIND_SAVED; i++)
			f.saved[i] =
				(struct answer){AT_ADDRESS, from + 40 + 8 * ucontext_registers[i]};
		return f;
	}
	f.ra = (struct answer){AT_ADDRESS, f.cfa + r->ra};
	for (int i = 0; i < UNWIND_SAVED; i++) {
		uint64_t base = r->by_base & 1 << i ? reg_value(address, r->base) : f.cfa;

		if (r->saved[i] == UNWIND_SAME)
			f.saved[i].how = SAME;
		else if (r->saved[i] == UNWIND_LOST)
			f.saved[i].how = LOST;
		else
			f.saved[i] = (struct answer){AT_ADDRESS, base + r->saved[i]};
	}
	return f;
}

/* Works out a DWARF expression. False: it is not the address of something in memory, or has
 * operations that rules are not made for. */
static bool evaluate(const Dwarf_Op *ops, size_t nops, uint64_t address, uint64_t cfa,
		     uint64_t *ret)
{
	uint64_t stack[64] = {0};
	size_t n = 2; /* two words below, so that nothing is read in front of it */

	for (size_t i = 0; i < nops; i++) {
		const Dwarf_Op *op = &ops[i];

		if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg16) {
			stack[n++] = reg_value(address, op->atom - DW_OP_breg0) + op->number;
		} else if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31) {
			stack[n++] = op->atom - DW_OP_lit0;
		} else {
			switch (op->atom) {
			case DW_OP_bregx:
				stack[n++] = reg_value(address, op->number) + op->number2;
				break;
			case DW_OP_call_frame_cfa:
				stack[n++] = cfa;
				break;
			case DW_OP_plus_uconst:
				stack[n - 1] += op->number;
				break;
			case DW_OP_deref:
				stack[n - 1] = memory_at(stack[n - 1]);
				break;
			case DW_OP_plus:
				n--;
				stack[n - 1] += stack[n];
				break;
			case DW_OP_and:
				n--;
				stack[n - 1] &= stack[n];
				break;
			case DW_OP_ge:
				n--;
				stack[n - 1] = (int64_t)stack[n - 1] >= (int64_t)stack[n];
				break;
			case DW_OP_shl:
				n--;
				stack[n - 1] <<= stack[n];
				break;
			default:
				return false;
			}
		}
		if (n < 2 || n > 60)
			return false;
	}
	*ret = stack[n - 1];
	return n > 2;
}

static struct answer register_of_libdw(Dwarf_Frame *frame, int reg, uint64_t address, uint64_t cfa)
{
	struct answer a = {.how = LOST};
	Dwarf_Op mem[3], *ops;
	size_t nops;

	assert_int_equal(dwarf_frame_register(frame, reg, mem, &ops, &nops), 0);
	/* elfutils 0.188 takes rax for rbx where it lists the registers that the ABI preserves
	 * (backends/x86_64_cfi.c), so that rbx is undefined unless it is saved */
	if (nops == 0)
		a.how = ops && reg != UNWIND_RBX ? LOST : SAME;
	else if (evaluate(ops, nops, address, cfa, &a.address))
		a.how = AT_ADDRESS;
	return a;
}

/* Whether the caller's stack pointer is the CFA, which all rules imply. setcontext's is not. */
static bool stack_is_cfa(Dwarf_Frame *frame, uint64_t address, uint64_t cfa)
{
	Dwarf_Op mem[3], *ops;
	uint64_t value = 0;
	bool is_value;
	size_t nops;

	assert_int_equal(dwarf_frame_register(frame, UNWIND_RSP, mem, &ops, &nops), 0);
	is_value = nops && ops[nops - 1].atom == DW_OP_stack_value;
	if (!evaluate(ops, nops - is_value, address, cfa, &value))
		return false;
	return cfa == (is_value ? value : memory_at(value));
}

/* Sets start and end of the row. */
static struct frame frame_of_libdw(Dwarf_CFI *cfi, uint64_t address, uint64_t *start, uint64_t *end)
{
	Dwarf_Frame *frame = NULL;
	struct frame f = {0};
	bool is_signal;
	Dwarf_Op *ops, mem[3];
	Dwarf_Addr from, to;
	size_t nops;

	if (dwarf_cfi_addrframe(cfi, address, &frame) != 0)
		return f;
	assert_int_equal(dwarf_frame_info(frame, &from, &to, &is_signal), UNWIND_RIP);
	*start = from;
	*end = to;
	assert_int_equal(dwarf_frame_register(frame, UNWIND_RIP, mem, &ops, &nops), 0);
	f.outermost = nops == 0 && ops;
	f.known = f.outermost;
	if (!f.outermost && dwarf_frame_cfa(frame, &ops, &nops) == 0)
		f.known = evaluate(ops, nops, address, 0, &f.cfa);
	if (f.known && !f.outermost) {
		f.ra = register_of_libdw(frame, UNWIND_RIP, address, f.cfa);
		f.known = f.ra.how == AT_ADDRESS && stack_is_cfa(frame, address, f.cfa);
		for (int i = 0; i < UNWIND_SAVED; i++)
			f.saved[i] = register_of_libdw(frame, saved_registers[i], address, f.cfa);
	}
	free(frame);
	return f;
}

struct comparison {
	const char *path;
	const struct unwind_table *table;
	Dwarf_CFI *cfi;
	uint64_t compared;
	uint64_t unknown; /* to both: forms that no rule can say */
	uint64_t lost;	  /* registers, by both */
	uint64_t differ;
};

static bool same_answer(const struct answer *a, const struct answer *b)
{
	return a->how == b->how && (a->how != AT_ADDRESS || a->address == b->address);
}

static bool same_frame(const struct frame *a, const struct frame *b)
{
	bool same = a->known == b->known && a->outermost == b->outermost;

	if (!same || !a->known || a->outermost)
		return same;
	same = a->cfa == b->cfa && same_answer(&a->ra, &b->ra);
	for (int i = 0; i < UNWIND_SAVED; i++)
		same = same && same_answer(&a->saved[i], &b->saved[i]);
	return same;
}

static void print_difference(const char *path, uint64_t address, const struct frame *ours,
			     const struct frame *theirs)
{
	const struct frame *both[] = {ours, theirs};

	for (int i = 0; i < 2; i++) {
		print_message(
			"%s: %#llx: %s: known %d, outermost %d, CFA %#llx; return address and "
			"registers (same, lost, at):",
			path, (unsigned long long)address, i ? "libdw" : "table", both[i]->known,
			both[i]->outermost, (unsigned long long)both[i]->cfa);
		print_message(" %d %#llx", both[i]->ra.how,
			      (unsigned long long)both[i]->ra.address);
		for (int r = 0; r < UNWIND_SAVED; r++)
			print_message(" %d %#llx", both[i]->saved[r].how,
				      (unsigned long long)both[i]->saved[r].address);
		print_message("\n");
	}
}

/* Compares at one address; the end of libdw's row there, or 0 where it knows none. */
static uint64_t compare_at(struct comparison *c, uint64_t address)
{
	uint64_t start = 0, end = 0;
	struct frame theirs = frame_of_libdw(c->cfi, address, &start, &end);
	struct frame ours = frame_of_rule(unwind_table_find(c->table, address), address);

	if (!end)
		return 0;
	c->compared++;
	c->unknown += !theirs.known && !ours.known;
	for (int i = 0; i < UNWIND_SAVED && theirs.known; i++)
		c->lost += theirs.saved[i].how == LOST;
	if (!same_frame(&ours, &theirs) && c->differ++ < 3)
		print_difference(c->path, address, &ours, &theirs);
	return end;
}

/* From one row of the table to the next: all of libdw's rows there, first and last address. */
static void compare_row(struct comparison *c, uint64_t address, uint64_t next)
{
	uint64_t end;

	compare_at(c, address - 1);
	while (address < next) {
		end = compare_at(c, address);
		if (end) {
			compare_at(c, address + 1);
			compare_at(c, end - 1);
		}
		/* where there are no functions, some may have been forgotten */
		address = end ? end : address + 16;
	}
}

static void compare_table(struct comparison *c, unsigned every)
{
	struct unwind_table_head h = head_of(c->table);
	const uint32_t *pages = c->table->words + h.pages_at, *rows = c->table->words + h.rows_at;

	for (uint32_t page = 0; page < h.npages; page++) {
		uint64_t start = h.text_start + ((uint64_t)page << UNWIND_PAGE_SHIFT);

		for (uint32_t i = pages[page]; i < pages[page + 1]; i++)
			if (i % every == 0)
				compare_row(c, start + (rows[i] & 0xffff),
					    i + 1 < pages[page + 1] ? start + (rows[i + 1] & 0xffff)
								    : start + 0x10000);
	}
}

/* Compares a table with what libdw reads in the same file; every: n-th row only. */
static void compare_elf(const char *path, const struct elf_file *file, Elf *elf, unsigned every)
{
	struct comparison c = {.path = path};
	struct unwind_table_stats stats;
	struct unwind_table table;
	struct err e;

	assert_int_equal(unwind_table_build(file, &table, &stats, &e), 0);
	assert_int_equal(unwind_table_check(table.words, table.len, &e), 0);
	c.table = &table;
	c.cfi = dwarf_getcfi_elf(elf);
	assert_non_null(c.cfi);
	compare_table(&c, every);
	print_message("%s: %llu functions, %llu rows, %llu unsupported; %llu addresses compared, "
		      "%llu of no rule, %llu registers lost, %llu differ\n",
		      path, (unsigned long long)stats.fdes, (unsigned long long)stats.rows,
		      (unsigned long long)stats.unsupported, (unsigned long long)c.compared,
		      (unsigned long long)c.unknown, (unsigned long long)c.lost,
		      (unsigned long long)c.differ);
	assert_int_equal(stats.damaged, 0);
	assert_int_equal(c.differ, 0);
	assert_true(c.compared > 0 && c.unknown * 100 < c.compared);
	dwarf_cfi_end(c.cfi);
	unwind_table_free(&table);
}

static void compare_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_file *file;
	struct err e;
	Elf *elf;

	assert_true(fd >= 0);
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	assert_non_null(elf);
	if (elf_file_open(&file, path, &e) < 0)
		fail_msg("%s", e.msg);
	compare_elf(path, file, elf, lseek(fd, 0, SEEK_END) > 50 << 20 ? 23 : 1);
	elf_file_close(file);
	elf_end(elf);
	close(fd);
}

static void test_libraries(void **state)
{
	static const char *const patterns[] = {
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/lib/x86_64-linux-gnu/libm.so.6",
		"/lib64/libc.so.6",
		"/lib64/libm.so.6",
		"/lib64/ld-linux-x86-64.so.2",
		"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		"/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
		"/usr/lib/x86_64-linux-gnu/libssl.so.3",
		"/usr/lib/x86_64-linux-gnu/libpython3.*.so.1.0",
		"/usr/bin/python3.*[0-9]",
		"/usr/lib/x86_64-linux-gnu/libtorch_python.so.*.0",
		"/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.*.0",
	};
	char *more = xstrdup(getenv("UNWIND_FILES") ? getenv("UNWIND_FILES") : "");
	glob_t found = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		glob(patterns[i], GLOB_APPEND, NULL, &found);
	for (char *p = strtok(more, ":"); p; p = strtok(NULL, ":"))
		glob(p, GLOB_APPEND | GLOB_NOCHECK, NULL, &found);
	assert_true(found.gl_pathc > 0);
	for (size_t i = 0; i < found.gl_pathc; i++)
		compare_file(found.gl_pathv[i]);
	globfree(&found);
	free(more);
}

/* The image that the kernel maps into every process. */
static void test_vdso(void **state)
{
	const char *image = (const char *)getauxval(AT_SYSINFO_EHDR);
	unsigned long start, stop = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	struct elf_file *file;
	char line[512];
	struct err e;
	Elf *elf;

	(void)state;
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &start, &stop) == 2 && start == (unsigned long)image)
			break;
	fclose(maps);
	if (!image || stop <= (unsigned long)image) {
		print_message("no vDSO in this process\n");
		skip();
	}
	elf_version(EV_CURRENT);
	elf = elf_memory((char *)image, stop - start);
	assert_int_equal(elf_file_open_memory(&file, image, stop - start, &e), 0);
	compare_elf("[vdso]", file, elf, 1);
	elf_file_close(file);
	elf_end(elf);
}

/* The same table when there are no section headers to find .eh_frame by. */
static void test_without_section_headers(void **state)
{
	int fd = open("/lib64/ld-linux-x86-64.so.2", O_RDONLY | O_CLOEXEC);
	struct unwind_table with, without;
	struct elf_file *file;
	Elf64_Ehdr eh;
	struct err e;
	uint8_t *data;
	off_t len;

	(void)state;
	assert_true(fd >= 0);
	len = lseek(fd, 0, SEEK_END);
	data = xcalloc(1, len);
	assert_int_equal(pread(fd, data, len, 0), len);
	close(fd);
	assert_int_equal(elf_file_open_memory(&file, data, len, &e), 0);
	assert_int_equal(unwind_table_build(file, &with, NULL, &e), 0);
	elf_file_close(file);
	memcpy(&eh, data, sizeof(eh));
	eh.e_shoff = eh.e_shnum = eh.e_shstrndx = 0;
	memcpy(data, &eh, sizeof(eh));
	assert_int_equal(elf_file_open_memory(&file, data, len, &e), 0);
	assert_int_equal(unwind_table_build(file, &without, NULL, &e), 0);
	elf_file_close(file);
	assert_int_equal(with.len, without.len);
	assert_memory_equal(with.words, without.words, with.len * 4);
	unwind_table_free(&with);
	unwind_table_free(&without);
	free(data);
}

#else

static void test_libraries(void **state)
{
	(void)state;
	print_message("built without libdw (libdw-dev)\n");
	skip();
}

#endif

/* More functions than any real file has, in 13 bytes each. */
static void test_too_many_functions(void **state)
{
	/* pointers of two bytes: encoding 2 */
	static const uint8_t common[20] = {16, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 1, 16, 1, 2};
	struct cfi_section s = {.eh = true};
	struct cfi c = {0};
	size_t n = CFI_MAX_FDES + 1;
	struct err e;
	uint8_t *at;

	(void)state;
	s.len = sizeof(common) + 13 * n;
	s.data = at = xcalloc(1, s.len);
	memcpy(at, common, sizeof(common));
	at += sizeof(common);
	for (size_t i = 0; i < n; i++, at += 13) {
		uint32_t head[2] = {9, (uint32_t)(at + 4 - s.data)};

		memcpy(at, head, 8);
		at[10] = 1; /* its length in bytes */
	}
	assert_int_equal(cfi_scan(&c, &s, &e), -EFBIG);
	assert_non_null(strstr(e.msg, "8388608 functions"));
	cfi_free(&c);
	c = (struct cfi){0};
	s.len -= 13;
	assert_int_equal(cfi_scan(&c, &s, &e), 0);
	assert_int_equal(c.fdes.len, CFI_MAX_FDES);
	cfi_free(&c);
	free((void *)s.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_prologue),
		cmocka_unit_test(test_examples),
		cmocka_unit_test(test_signal_frame),
		cmocka_unit_test(test_pointer_encodings),
		cmocka_unit_test(test_forms_of_entries),
		cmocka_unit_test(test_order_and_gaps),
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_pages_without_rows),
		cmocka_unit_test(test_debug_frame_fills_in),
		cmocka_unit_test(test_code_without_rules),
		cmocka_unit_test(test_code_that_cannot_be_followed),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_too_many_rules),
		cmocka_unit_test(test_too_many_functions),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_nothing_there),
		cmocka_unit_test(test_libraries),
#ifdef HAVE_LIBDW
		cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_without_section_headers),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
