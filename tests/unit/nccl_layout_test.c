/* nccl_layout_test.c - offsets read from the code of NCCL's getters: as compilers write them,
 * and code that says something else or nothing.
 *
 * links: base symbolize */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "elf_builder.h"
#include "symbolize/nccl_layout.h"

struct code {
	const char *bytes; /* in hexadecimal */
	uint32_t offset;
};

/* An ELF file whose ncclCommUserRank is that code, of that size as the symbol says. */
static uint32_t rank_offset(const void *code, size_t len, uint64_t size)
{
	struct elf_builder b;
	struct buf symbols = {0}, strings = {0};
	struct elf_file *f;
	struct err e = {""};
	struct nccl_layout l = {.rank = 77, .size = 77, .device = 77};
	elf_builder_init(&b);
	uint32_t text = elf_builder_section(&b, ".text", SHT_PROGBITS, code, len, 0);
	buf_byte(&strings, 0);
	buf_add(&symbols, &(Elf64_Sym){0}, sizeof(Elf64_Sym));
	elf_builder_symbol(&symbols, &strings, "ncclCommUserRank", b.sections.data[text].sh_addr,
			   size, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC));
	uint32_t names =
		elf_builder_section(&b, ".dynstr", SHT_STRTAB, strings.data, strings.len, 0);
	uint32_t table =
		elf_builder_section(&b, ".dynsym", SHT_DYNSYM, symbols.data, symbols.len, names);
	b.sections.data[table].sh_entsize = sizeof(Elf64_Sym);
	elf_builder_finish(&b, ET_DYN);
	assert_int_equal(elf_file_open_memory(&f, b.file.data, b.file.len, &e), 0);
	struct elf_symbol found;
	assert_true(elf_file_find(f, "ncclCommUserRank", &found)); /* the file is a good one */
	nccl_layout_find(f, &l);
	assert_int_equal(l.size, 0); /* there are no such functions */
	assert_int_equal(l.device, 0);
	elf_file_close(f);
	elf_builder_free(&b);
	buf_free(&symbols);
	buf_free(&strings);
	return l.rank;
}

static uint32_t of_hex(const char *hex)
{
	uint8_t bytes[256];
	size_t n = 0;
	for (const char *p = hex; *p; p += *p == ' ' ? 1 : 2) {
		char two[3] = {p[0], p[1], 0};
		if (*p != ' ')
			bytes[n++] = (uint8_t)strtoul(two, NULL, 16);
	}
	return rank_offset(bytes, n, n);
}

static void check(const struct code *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t got = of_hex(cases[i].bytes);
		if (got != cases[i].offset)
			fail_msg("%s: %#x, expected %#x", cases[i].bytes, got, cases[i].offset);
	}
}

static void as_compilers_write_it(void **state)
{
	(void)state;
	static const struct code cases[] = {
		/* mov 0x1044d0(%rdi),%eax; mov %eax,(%rsi); ret */
		{"8b 87 d0 44 10 00  89 06  c3", 0x1044d0},
		/* push %rbp; mov 0x140(%rdi),%ecx; xor %eax,%eax; mov %ecx,(%rsi); pop %rbp; ret */
		{"55  8b 8f 40 01 00 00  31 c0  89 0e  5d  c3", 0x140},
		/* mov 0x1044d4(%rbp),%eax; nop; nop; mov %eax,(%rbx): the object in %rbp */
		{"8b 85 d4 44 10 00  90  90  89 03  c3", 0x1044d4},
		/* mov 0x1044d4(%r13),%eax; mov %eax,(%r14) */
		{"41 8b 85 d4 44 10 00  41 89 06  c3", 0x1044d4},
		/* mov 0x200(%rdi),%r8d; mov %r8d,(%rsi) */
		{"44 8b 87 00 02 00 00  44 89 06  c3", 0x200},
		/* on two ways through the function, the same field */
		{"8b 87 d0 44 10 00  89 06  c3  8b 83 d0 44 10 00  89 06  c3", 0x1044d0},
		/* another field is compared before: cmpl $0,0x30(%rdi); mov 0x134(%rdi),%eax */
		{"83 7f 30 00  8b 87 34 01 00 00  89 06  c3", 0x134},
		/* loaded, but not stored: mov 0x110(%rdi),%ecx; test %ecx,%ecx; then the pair */
		{"8b 8f 10 01 00 00  85 c9  75 00  8b 87 50 01 00 00  89 06  c3", 0x150},
	};
	check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void what_is_not_understood(void **state)
{
	(void)state;
	static const struct code cases[] = {
		{"c3", 0},
		{"31 c0 c3", 0},
		/* two different fields */
		{"8b 87 d0 44 10 00  89 06  8b 87 d4 44 10 00  89 06  c3", 0},
		/* 64 bits: mov 0x150(%rdi),%rax; mov %rax,(%rsi) */
		{"48 8b 87 50 01 00 00  48 89 06  c3", 0},
		/* the object's first words are no rank: mov 8(%rdi),%eax; mov 0x50(%rdi),%eax */
		{"8b 47 08  89 06  c3", 0},
		{"8b 47 50  89 06  c3", 0},
		/* before the object: mov -0x150(%rdi),%eax */
		{"8b 87 b0 fe ff ff  89 06  c3", 0},
		/* farther than an object is long: mov 0x1000001(%rdi),%eax */
		{"8b 87 01 00 00 01  89 06  c3", 0},
		/* of the stack, the frame, a global: 0x150(%rsp), 0x50(%rbp), 0x150(%rip) */
		{"8b 84 24 50 01 00 00  89 06  c3", 0},
		{"8b 45 50  89 06  c3", 0},
		{"8b 05 50 01 00 00  89 06  c3", 0},
		/* of an array: mov 0x150(%rdi,%rcx,4),%eax */
		{"8b 84 8f 50 01 00 00  89 06  c3", 0},
		/* another register is stored, another place: %ecx, 4(%rsi), (%rsp) */
		{"8b 87 50 01 00 00  89 0e  c3", 0},
		{"8b 87 50 01 00 00  89 46 04  c3", 0},
		{"8b 87 50 01 00 00  89 04 24  c3", 0},
		/* stored too late: four instructions on */
		{"8b 87 50 01 00 00  90  90  90  89 06  c3", 0},
		/* what comes after bytes that are no instruction is not looked at */
		{"06  8b 87 50 01 00 00  89 06  c3", 0},
		/* cut off in the middle of the store */
		{"8b 87 d0 44 10 00  89", 0},
	};
	check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void sizes_that_lie(void **state)
{
	(void)state;
	static const uint8_t code[] = {0x8b, 0x87, 0x50, 0x01, 0, 0, 0x89, 0x06, 0xc3};
	assert_int_equal(rank_offset(code, sizeof(code), sizeof(code)), 0x150);
	assert_int_equal(rank_offset(code, sizeof(code), 0), 0);
	assert_int_equal(rank_offset(code, sizeof(code), 7), 0); /* the store is not all there */
	/* a function of that length is not in the file */
	assert_int_equal(rank_offset(code, sizeof(code), UINT64_MAX), 0);
	assert_int_equal(rank_offset(code, sizeof(code), UINT64_MAX / 2), 0);
}

/* The pair lies behind what is looked at of a long function. */
static void long_functions(void **state)
{
	(void)state;
	static const uint8_t pair[] = {0x8b, 0x87, 0x50, 0x01, 0, 0, 0x89, 0x06, 0xc3};
	static uint8_t code[8192];
	memset(code, 0x90, sizeof(code));
	memcpy(code + 4000, pair, sizeof(pair));
	assert_int_equal(rank_offset(code, sizeof(code), sizeof(code)), 0x150);
	memset(code, 0x90, sizeof(code));
	memcpy(code + 4200, pair, sizeof(pair));
	assert_int_equal(rank_offset(code, sizeof(code), sizeof(code)), 0);
}

static void garbage(void **state)
{
	(void)state;
	static uint8_t code[4096];
	uint64_t x = 88172645463325252ULL; /* xorshift64 */
	for (int round = 0; round < 300; round++) {
		for (size_t i = 0; i < sizeof(code); i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			code[i] = (uint8_t)x;
		}
		uint32_t offset = rank_offset(code, sizeof(code), sizeof(code));
		assert_true(offset == 0 || (offset >= 256 && offset <= 16 << 20));
	}
	memset(code, 0xff, sizeof(code));
	assert_int_equal(rank_offset(code, sizeof(code), sizeof(code)), 0);
	memset(code, 0, sizeof(code));
	assert_int_equal(rank_offset(code, sizeof(code), sizeof(code)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_compilers_write_it),
		cmocka_unit_test(what_is_not_understood),
		cmocka_unit_test(sizes_that_lie),
		cmocka_unit_test(long_functions),
		cmocka_unit_test(garbage),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
