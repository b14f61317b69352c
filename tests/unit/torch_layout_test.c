/* torch_layout_test.c - where a tensor has its sizes, read from code that asks for them: as
 * compilers write it, from a whole PyTorch where one is installed, and code that says something
 * else or nothing. Shapes in 64 bits, which go with it.
 *
 * links: base symbolize */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "elf_builder.h"
#include "symbolize/torch_layout.h"
#include "wire/shape.h"

#define IS_SAME_SIZE "_ZN2at6native12is_same_sizeERKNS_6TensorES3_"
#define SIZE	     "_ZN2at6native4sizeERKNS_6TensorEl"
#define STRIDE	     "_ZN2at6native6strideERKNS_6TensorEl"

struct code {
	const char *bytes; /* in hexadecimal */
	uint32_t offset;
};

static size_t bytes_of(const char *hex, uint8_t *ret)
{
	size_t n = 0;
	for (const char *p = hex; *p; p += *p == ' ' ? 1 : 2) {
		char two[3] = {p[0], p[1], 0};
		if (*p != ' ')
			ret[n++] = (uint8_t)strtoul(two, NULL, 16);
	}
	return n;
}

/* The offset found in an ELF file that has functions with that code; all but the first may be NULL.
 */
static uint32_t sizes_of3(const char *same_size, const char *size, const char *stride)
{
	struct elf_builder b;
	struct buf symbols = {0}, strings = {0};
	struct elf_file *f;
	struct err e = {""};
	struct torch_layout l = {.sizes = 77, .numel = 77, .scalar = 77};
	uint8_t code[512];
	elf_builder_init(&b);
	size_t first = bytes_of(same_size, code);
	size_t second = size ? bytes_of(size, code + first) : 0;
	size_t third = stride ? bytes_of(stride, code + first + second) : 0;
	uint32_t text =
		elf_builder_section(&b, ".text", SHT_PROGBITS, code, first + second + third, 0);
	uint64_t address = b.sections.data[text].sh_addr;
	buf_byte(&strings, 0);
	buf_add(&symbols, &(Elf64_Sym){0}, sizeof(Elf64_Sym));
	elf_builder_symbol(&symbols, &strings, IS_SAME_SIZE, address, first,
			   ELF64_ST_INFO(STB_GLOBAL, STT_FUNC));
	if (second)
		elf_builder_symbol(&symbols, &strings, SIZE, address + first, second,
				   ELF64_ST_INFO(STB_GLOBAL, STT_FUNC));
	if (third)
		elf_builder_symbol(&symbols, &strings, STRIDE, address + first + second, third,
				   ELF64_ST_INFO(STB_GLOBAL, STT_FUNC));
	uint32_t names =
		elf_builder_section(&b, ".dynstr", SHT_STRTAB, strings.data, strings.len, 0);
	uint32_t table =
		elf_builder_section(&b, ".dynsym", SHT_DYNSYM, symbols.data, symbols.len, names);
	b.sections.data[table].sh_entsize = sizeof(Elf64_Sym);
	elf_builder_finish(&b, ET_DYN);
	assert_int_equal(elf_file_open_memory(&f, b.file.data, b.file.len, &e), 0);
	torch_layout_find(f, &l);
	elf_file_close(f);
	elf_builder_free(&b);
	buf_free(&symbols);
	buf_free(&strings);
	assert_int_equal(l.numel, l.sizes ? l.sizes + 96 : 0);
	assert_int_equal(l.scalar, l.sizes ? l.sizes + 104 : 0);
	return l.sizes;
}

static uint32_t sizes_of(const char *same_size, const char *size)
{
	return sizes_of3(same_size, size, NULL);
}

static void check(const struct code *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t got = sizes_of(cases[i].bytes, NULL);
		if (got != cases[i].offset)
			fail_msg("%s: %#x, expected %#x", cases[i].bytes, got, cases[i].offset);
	}
}

static void as_compilers_write_it(void **state)
{
	(void)state;
	static const struct code cases[] = {
		/* mov 0x48(%rdi),%r12; cmp $5,%r12; ja; lea 0x50(%rdi),%rbp (1.13, Debian) */
		{"4c 8b 67 48  49 83 fc 05  77 04  48 8d 6f 50  c3", 0x48},
		/* mov 0x40(%rdi),%rax; cmp $5,%rax; ja; mov 0x48(%rdi),%rdx */
		{"48 8b 47 40  48 83 f8 05  77 04  48 8b 57 48  c3", 0x40},
		/* cmpq $5,0x38(%rdi); jbe; lea 0x40(%rdi),%rsi */
		{"48 83 7f 38 05  76 04  48 8d 77 40  c3", 0x38},
		/* cmpq $6,0x40(%rbp); jb; lea 0x48(%rbp),%rsi: the object in %rbp */
		{"48 83 7d 40 06  72 04  48 8d 75 48  c3", 0x40},
		/* other work between: mov 0x48(%rbp),%rsi; mov %rsi,%rax; neg %rax; cmp $5,%rsi */
		{"48 8b 75 48  48 89 f0  48 f7 d8  48 83 fe 05  77 04  48 8d 55 50  c3", 0x48},
		/* of two tensors, the same field; another field before: movzbl 0xb6(%rdi),%eax */
		{"0f b6 87 b6 00 00 00  48 8b 47 48  48 83 f8 05  48 8d 57 50  48 8b 56 48 "
		 "48 83 fa 05  48 8d 7e 50  c3",
		 0x48},
		/* a field that is compared with something else: mov 0x30(%rdi),%rax; cmp $4 */
		{"48 8b 47 30  48 83 f8 04  48 8b 47 38  48 8b 4f 40  48 83 f9 05  48 8d 57 48  c3",
		 0x40},
	};
	check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void what_is_not_understood(void **state)
{
	(void)state;
	static const struct code cases[] = {
		{"c3", 0},
		/* compared, but what follows it is not used */
		{"48 8b 47 48  48 83 f8 05  48 8d 57 58  c3", 0},
		/* two fields that could be it */
		{"48 8b 47 48  48 83 f8 05  48 8d 57 50  48 8b 47 60  48 83 f8 05  48 8d 57 68  c3",
		 0},
		/* the register was overwritten before: mov %rdx,%rax */
		{"48 8b 47 48  48 89 d0  48 83 f8 05  48 8d 57 50  c3", 0},
		/* 32 bits: mov 0x48(%rdi),%eax; cmp $5,%eax */
		{"8b 47 48  83 f8 05  48 8d 57 50  c3", 0},
		/* of the stack: mov 0x48(%rsp),%rax; of an array: mov 0x48(%rdi,%rcx,8),%rax */
		{"48 8b 44 24 48  48 83 f8 05  48 8d 57 50  c3", 0},
		{"48 8b 44 cf 48  48 83 f8 05  48 8d 57 50  c3", 0},
		/* the object's head, not in words, too far: 0x10, 0x4c, 0x148 */
		{"48 8b 47 10  48 83 f8 05  48 8d 57 18  c3", 0},
		{"48 8b 47 4c  48 83 f8 05  48 8d 57 54  c3", 0},
		{"48 8b 87 48 01 00 00  48 83 f8 05  48 8d 97 50 01 00 00  c3", 0},
	};
	check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void functions_have_to_agree(void **state)
{
	(void)state;
	const char *at_48 = "48 8b 47 48  48 83 f8 05  48 8d 57 50  c3";
	const char *at_40 = "48 8b 47 40  48 83 f8 05  48 8d 57 48  c3";
	assert_int_equal(sizes_of(at_48, at_48), 0x48);
	assert_int_equal(sizes_of(at_48, at_40), 0);
	assert_int_equal(sizes_of("c3", at_40), 0x40);
	assert_int_equal(sizes_of3(at_48, at_40, at_40), 0x40);
	assert_int_equal(sizes_of3(at_48, at_40, at_48), 0x48);
	assert_int_equal(sizes_of3(at_48, at_40, "c3"), 0);
}

/* Debian's 1.13: the offset as gdb's "ptype /o c10::TensorImpl" would show it. */
static void an_installed_pytorch(void **state)
{
	(void)state;
	struct elf_file *f;
	struct err e = {""};
	struct torch_layout l;
	if (elf_file_open(&f, "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13", &e))
		skip();
	torch_layout_find(f, &l);
	elf_file_close(f);
	assert_int_equal(l.sizes, 0x48);
	assert_int_equal(l.scalar, 0xb0);
}

/* ---- wire/shape.h ---- */

static void check_shape(int dims, const uint64_t *sizes)
{
	__u64 raw[SHAPE_DIMS] = {0};
	for (int i = 0; i < dims; i++)
		raw[i] = sizes[i];
	uint64_t packed = shape_pack(raw, (__u32)dims);
	assert_int_equal(shape_dims(packed), dims);
	for (int i = 0; i < dims; i++)
		assert_int_equal(shape_size(packed, i), sizes[i]);
	assert_int_equal(shape_size(packed, dims), 0);
	assert_int_equal(shape_size(packed, -1), 0);
}

static void shapes_as_they_were(void **state)
{
	(void)state;
	static const uint64_t sizes[][SHAPE_DIMS] = {
		{0},
		{1},
		{1, 2, 3, 4, 5},
		{5, 4, 3, 2, 1},
		{7, 7, 7, 7, 7},
		{0, 0, 0, 0, 0},
		{2, 12, 131072, 128},
		{524287, 8191, 8191, 8191},
		{32, 3, 8191, 8191},
		{8, 1024, 1024, 1024, 1023},
	};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int dims = i < 2 ? (int)i : i < 6 ? 5 : i == 9 ? 0 : 4;
		check_shape(dims, sizes[i]);
	}
	check_shape(1, (const uint64_t[]){(1ULL << 58) - 1});
	check_shape(2, (const uint64_t[]){(1 << 29) - 1, (1 << 29) - 1});
	check_shape(3, (const uint64_t[]){(1 << 17) - 1, (1 << 24) - 1, (1 << 17) - 1});
	check_shape(5, (const uint64_t[]){1023, 1023, 1023, 1023, (1 << 18) - 1});
}

static void shapes_that_do_not_fit(void **state)
{
	(void)state;
	assert_int_equal(shape_pack((__u64[5]){8192, 8192, 1, 1}, 4), SHAPE_UNKNOWN);
	assert_int_equal(shape_pack((__u64[5]){1 << 19, 1, 1, 1}, 4), SHAPE_UNKNOWN);
	assert_int_equal(shape_pack((__u64[5]){1 << 29, 1}, 2), SHAPE_UNKNOWN);
	assert_int_equal(shape_pack((__u64[5]){UINT64_MAX}, 1), SHAPE_UNKNOWN);
	assert_int_equal(shape_pack((__u64[5]){1, 1, 1, 1, 1}, 6), SHAPE_UNKNOWN);
	assert_int_equal(shape_dims(SHAPE_UNKNOWN), -1);
	assert_int_equal(shape_size(SHAPE_UNKNOWN, 0), 0);
	/* of a damaged recording: no such number of dimensions, no such largest one */
	assert_int_equal(shape_dims(7), -1);
	for (int i = 0; i < SHAPE_DIMS; i++)
		assert_true(shape_size(UINT64_MAX - 1, i) < 1ULL << 58);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_compilers_write_it),   cmocka_unit_test(what_is_not_understood),
		cmocka_unit_test(functions_have_to_agree), cmocka_unit_test(an_installed_pytorch),
		cmocka_unit_test(shapes_as_they_were),	   cmocka_unit_test(shapes_that_do_not_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
