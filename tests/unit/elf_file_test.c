/* elf_file_test.c - the ELF reader on files made here, damaged ones, and installed ones.
 *
 * links: base symbolize */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "elf_builder.h"
#include "symbolize/elf_file.h"

#define GLOBAL_FUNC   ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)
#define LOCAL_FUNC    ELF64_ST_INFO(STB_LOCAL, STT_FUNC)
#define GLOBAL_OBJECT ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT)

/* The sample: two symbol tables that overlap, a build id, a soname, one USDT probe whose
 * section was moved by 0x100 after it was noted. */
static void build_sample(struct elf_builder *b)
{
	struct buf dynsym = {0}, dynstr = {0}, symtab = {0}, strtab = {0}, note = {0}, id = {0};
	static const uint8_t build_id[] = {0xde, 0xad, 0xbe, 0xef, 0x01};
	struct {
		uint64_t pc, base, semaphore;
		char strings[24];
	} probe;
	uint32_t strings, base;
	Elf64_Dyn dynamic[4];

	elf_builder_init(b);
	buf_byte(&dynstr, 0);
	buf_byte(&strtab, 0);
	elf_builder_symbol(&dynsym, &dynstr, "", 0, 0, 0);
	elf_builder_symbol(&dynsym, &dynstr, "alpha", ELF_BASE + 0x100, 0x20, GLOBAL_FUNC);
	elf_builder_symbol(&dynsym, &dynstr, "table", ELF_BASE + 0x140, 0x10, GLOBAL_OBJECT);
	elf_builder_symbol(&symtab, &strtab, "", 0, 0, 0);
	elf_builder_symbol(&symtab, &strtab, "hidden", ELF_BASE + 0x120, 0, LOCAL_FUNC);
	elf_builder_symbol(&symtab, &strtab, "alpha", ELF_BASE + 0x100, 0x20, GLOBAL_FUNC);
	elf_builder_symbol(&symtab, &strtab, "alpha@@V1", ELF_BASE + 0x100, 0x20, GLOBAL_FUNC);
	elf_builder_symbol(&symtab, &strtab, "beta", ELF_BASE + 0x100, 0x20, GLOBAL_FUNC);
	elf_builder_symbol(&symtab, &strtab, "far", 0x90000000, 8, GLOBAL_OBJECT);
	((Elf64_Sym *)symtab.data)[0].st_shndx = SHN_UNDEF;

	uint32_t soname = dynstr.len;
	buf_add(&dynstr, "libsample.so.1", 15);
	strings = elf_builder_section(b, ".dynstr", SHT_STRTAB, dynstr.data, dynstr.len, 0);
	elf_builder_section(b, ".dynsym", SHT_DYNSYM, dynsym.data, dynsym.len, strings);
	dynamic[0] = (Elf64_Dyn){DT_SONAME, {soname}};
	dynamic[1] = (Elf64_Dyn){DT_STRTAB, {b->sections.data[strings].sh_addr}};
	dynamic[2] = (Elf64_Dyn){DT_STRSZ, {dynstr.len}};
	dynamic[3] = (Elf64_Dyn){DT_NULL, {0}};
	elf_builder_segment(
		b, PT_DYNAMIC,
		elf_builder_section(b, ".dynamic", SHT_DYNAMIC, dynamic, sizeof(dynamic), strings));
	strings = elf_builder_section(b, ".strtab", SHT_STRTAB, strtab.data, strtab.len, 0);
	elf_builder_section(b, ".symtab", SHT_SYMTAB, symtab.data, symtab.len, strings);

	elf_builder_note(&id, "GNU", NT_GNU_BUILD_ID, build_id, sizeof(build_id));
	elf_builder_section(b, ".note.gnu.build-id", SHT_NOTE, id.data, id.len, 0);

	base = elf_builder_section(b, ".stapsdt.base", SHT_PROGBITS, "", 1, 0);
	probe.pc = ELF_BASE + 0x130 - 0x100;
	probe.base = b->sections.data[base].sh_addr - 0x100;
	probe.semaphore = ELF_BASE + 0x200 - 0x100;
	memset(probe.strings, 0, sizeof(probe.strings));
	memcpy(probe.strings, "prov\0name\0-4@%edi", 18);
	elf_builder_note(&note, "stapsdt", 3, &probe, 24 + 18);
	elf_builder_note(&note, "stapsdt", 3, &probe, 24 + 7); /* cut in its strings */
	elf_builder_section(b, ".note.stapsdt", SHT_NOTE, note.data, note.len, 0);
	elf_builder_finish(b, ET_DYN);

	buf_free(&dynsym);
	buf_free(&dynstr);
	buf_free(&symtab);
	buf_free(&strtab);
	buf_free(&note);
	buf_free(&id);
}

static int add_name(const struct elf_symbol *sym, void *ctx)
{
	buf_printf(ctx, "%s%s@%lx+%lx ", sym->name, sym->is_local ? "(local)" : "",
		   (unsigned long)sym->file_offset, (unsigned long)sym->size);
	return 0;
}

static int add_probe(const struct elf_usdt *u, void *ctx)
{
	buf_printf(ctx, "%s:%s(%s)@%lx/%lx ", u->provider, u->name, u->args,
		   (unsigned long)u->file_offset, (unsigned long)u->semaphore_offset);
	return 0;
}

static void test_symbols(void **state)
{
	struct elf_builder b;
	struct elf_file *f;
	struct elf_symbol sym;
	struct buf names = {0};
	struct err e;

	(void)state;
	build_sample(&b);
	assert_int_equal(elf_file_open_memory(&f, b.file.data, b.file.len, &e), 0);
	assert_int_equal(elf_file_symbols(f, add_name, &names), 0);
	buf_byte(&names, 0);
	assert_string_equal((char *)names.data, "alpha@100+20 table@140+10 hidden(local)@120+0 "
						"beta@100+20 far@0+8 ");
	assert_true(elf_file_has_symtab(f));

	assert_true(elf_file_find(f, "hidden", &sym));
	assert_int_equal(sym.address, ELF_BASE + 0x120);
	assert_false(elf_file_find(f, "alph", &sym));
	assert_false(elf_file_find(f, "", &sym));

	assert_true(elf_file_symbol_at(f, ELF_BASE + 0x11f, &sym));
	assert_string_equal(sym.name, "alpha"); /* the dynamic one of two names */
	assert_true(elf_file_symbol_at(f, ELF_BASE + 0x13f, &sym));
	assert_string_equal(sym.name, "hidden"); /* of unknown size: up to the next symbol */
	assert_true(elf_file_symbol_at(f, ELF_BASE + 0x14f, &sym));
	assert_string_equal(sym.name, "table");
	assert_false(elf_file_symbol_at(f, ELF_BASE + 0x150, &sym));
	assert_false(elf_file_symbol_at(f, ELF_BASE, &sym));
	elf_file_close(f);
	buf_free(&names);
	elf_builder_free(&b);
}

static void test_facts(void **state)
{
	struct elf_builder b;
	struct elf_file *f;
	const uint8_t *data;
	uint64_t address, offset;
	size_t len;
	struct err e;

	(void)state;
	build_sample(&b);
	assert_int_equal(elf_file_open_memory(&f, b.file.data, b.file.len, &e), 0);
	assert_string_equal(elf_file_build_id(f), "deadbeef01");
	assert_string_equal(elf_file_soname(f), "libsample.so.1");
	assert_null(elf_file_interpreter(f));
	assert_true(elf_file_section(f, ".note.stapsdt", &data, &len, &address));
	assert_ptr_equal(elf_file_bytes(f, address, len), data);
	assert_false(elf_file_section(f, ".absent", &data, &len, &address));

	assert_true(elf_file_offset(f, ELF_BASE + 5, &offset));
	assert_int_equal(offset, 5);
	assert_false(elf_file_offset(f, ELF_BASE + b.file.len, &offset));
	assert_false(elf_file_offset(f, ELF_BASE - 1, &offset));
	assert_non_null(elf_file_bytes(f, ELF_BASE, b.file.len));
	assert_null(elf_file_bytes(f, ELF_BASE, b.file.len + 1));
	assert_null(elf_file_bytes(f, ELF_BASE + 1, SIZE_MAX));
	elf_file_close(f);
	elf_builder_free(&b);
}

static void test_usdt(void **state)
{
	struct elf_builder b;
	struct elf_file *f;
	struct buf probes = {0};
	struct err e;

	(void)state;
	build_sample(&b);
	assert_int_equal(elf_file_open_memory(&f, b.file.data, b.file.len, &e), 0);
	assert_int_equal(elf_file_usdt(f, add_probe, &probes), 0);
	buf_byte(&probes, 0);
	assert_string_equal((char *)probes.data, "prov:name(-4@%edi)@130/200 ");
	elf_file_close(f);
	buf_free(&probes);
	elf_builder_free(&b);
}

/* Everything that reads the file, for the sanitizers to watch. */
static void query_all(const void *data, size_t len)
{
	struct buf out = {0};
	struct elf_file *f;
	struct elf_symbol sym;
	struct err e;

	if (elf_file_open_memory(&f, data, len, &e) == 0) {
		elf_file_symbols(f, add_name, &out);
		elf_file_usdt(f, add_probe, &out);
		elf_file_find(f, "alpha", &sym);
		elf_file_find(f, "absent", &sym);
		elf_file_symbol_at(f, ELF_BASE + 0x110, &sym);
		buf_printf(&out, "%s", elf_file_build_id(f));
		if (elf_file_soname(f))
			buf_printf(&out, "%s", elf_file_soname(f));
		if (elf_file_interpreter(f))
			buf_printf(&out, "%s", elf_file_interpreter(f));
		elf_file_close(f);
	}
	buf_free(&out);
}

/* A page that must not be read follows the file. */
static uint8_t *guarded_copy(const struct buf *file, size_t len, void **ret_map,
			     size_t *ret_map_len)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t room = (len + page - 1) / page * page;
	uint8_t *map =
		mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(mprotect(map + room, page, PROT_NONE), 0);
	memcpy(map + room - len, file->data, len);
	*ret_map = map;
	*ret_map_len = room + page;
	return map + room - len;
}

static void test_damaged(void **state)
{
	static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
	struct elf_builder b;

	(void)state;
	build_sample(&b);
	for (size_t len = 0; len <= b.file.len; len += 3) {
		size_t map_len;
		void *map;

		query_all(guarded_copy(&b.file, len, &map, &map_len), len);
		munmap(map, map_len);
	}
	for (size_t i = 0; i < b.file.len; i++) {
		uint8_t kept = b.file.data[i];

		for (size_t v = 0; v < sizeof(values); v++) {
			b.file.data[i] = values[v];
			query_all(b.file.data, b.file.len);
		}
		b.file.data[i] = kept;
	}
	elf_builder_free(&b);
}

static void test_refused(void **state)
{
	char folder[] = "/tmp/elf_file_test.XXXXXX", path[64];
	struct elf_file *f = NULL;
	struct elf_builder b;
	struct err e;

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(elf_file_open(&f, folder, &e), -ENOEXEC);
	snprintf(path, sizeof(path), "%s/fifo", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(elf_file_open(&f, path, &e), -ENOEXEC);
	unlink(path);
	assert_int_equal(elf_file_open(&f, path, &e), -ENOENT);
	assert_non_null(strstr(e.msg, path));
	assert_int_equal(elf_file_open(&f, "/etc/passwd", &e), -ENOEXEC);
	assert_string_equal(e.msg, "/etc/passwd: not an ELF file");
	rmdir(folder);

	build_sample(&b);
	b.file.data[EI_CLASS] = ELFCLASS32;
	assert_int_equal(elf_file_open_memory(&f, b.file.data, b.file.len, &e), -ENOEXEC);
	b.file.data[EI_CLASS] = ELFCLASS64;
	((Elf64_Ehdr *)b.file.data)->e_machine = EM_AARCH64;
	assert_int_equal(elf_file_open_memory(&f, b.file.data, b.file.len, &e), -ENOEXEC);
	((Elf64_Ehdr *)b.file.data)->e_machine = EM_X86_64;
	((Elf64_Ehdr *)b.file.data)->e_type = ET_REL;
	assert_int_equal(elf_file_open_memory(&f, b.file.data, b.file.len, &e), -ENOEXEC);
	assert_null(f);
	elf_builder_free(&b);
}

int elf_test_exported(int x);
__attribute__((visibility("default"), noinline)) int elf_test_exported(int x)
{
	return x + 1;
}

/* This program itself: its symbols by the reader against its addresses by the loader. */
static void test_own_program(void **state)
{
	struct elf_symbol mine, reference, at;
	struct elf_file *f;
	struct err e;

	(void)state;
	assert_int_equal(elf_file_open(&f, "/proc/self/exe", &e), 0);
	if (!elf_file_has_symtab(f)) {
		elf_file_close(f);
		skip();
	}
	assert_true(elf_file_find(f, "elf_test_exported", &mine));
	assert_true(elf_file_find(f, "main", &reference));
	int main(void);
	assert_int_equal((uintptr_t)elf_test_exported - (uintptr_t)main,
			 mine.address - reference.address);
	assert_true(mine.is_function && mine.size > 0);
	assert_memory_equal(elf_file_bytes(f, mine.address, mine.size), (void *)elf_test_exported,
			    mine.size);
	assert_true(elf_file_symbol_at(f, mine.address + mine.size - 1, &at));
	assert_string_equal(at.name, "elf_test_exported");
	assert_non_null(strstr(elf_file_interpreter(f), "ld-linux"));
	elf_file_close(f);
}

static int count_python_probe(const struct elf_usdt *u, void *ctx)
{
	if (strcmp(u->provider, "python") == 0 && strcmp(u->name, "gc__start") == 0 &&
	    u->semaphore_offset != 0)
		++*(int *)ctx;
	return 0;
}

static void test_python_usdt(void **state)
{
	struct elf_file *f;
	struct err e;
	int n = 0;

	(void)state;
	if (elf_file_open(&f, "/usr/bin/python3.11", &e) < 0) {
		print_message("skipped: %s\n", e.msg);
		skip();
	}
	elf_file_usdt(f, count_python_probe, &n);
	elf_file_close(f);
	assert_int_equal(n, 1);
}

/* Resident bytes of the mapping of a file. */
static size_t resident_of(const char *path)
{
	char line[512];
	size_t kb = 0;
	bool ours = false;
	FILE *f = fopen("/proc/self/smaps", "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		size_t n;
		if (strstr(line, path))
			ours = true;
		else if (ours && sscanf(line, "Rss: %zu kB", &n) == 1) {
			kb += n;
			ours = false;
		}
	}
	fclose(f);
	return kb << 10;
}

#define MANY 50000

static void test_rests(void **state)
{
	struct buf symtab = {0}, strtab = {0};
	char path[] = "/tmp/eacgm-elf-XXXXXX", name[128];
	struct elf_builder b;
	struct elf_file *f;
	struct elf_symbol at;
	struct err e;

	(void)state;
	elf_builder_init(&b);
	buf_byte(&strtab, 0);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "name_%0100d", i);
		elf_builder_symbol(&symtab, &strtab, name, ELF_BASE + 8 * i, 8, LOCAL_FUNC);
	}
	uint32_t strings =
		elf_builder_section(&b, ".strtab", SHT_STRTAB, strtab.data, strtab.len, 0);
	elf_builder_section(&b, ".symtab", SHT_SYMTAB, symtab.data, symtab.len, strings);
	elf_builder_finish(&b, ET_DYN);
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, b.file.data, b.file.len), b.file.len);
	close(fd);
	assert_int_equal(elf_file_open(&f, path, &e), 0);
	for (int again = 0; again < 2; again++) {
		assert_true(elf_file_symbol_at(f, ELF_BASE + 8 * 777 + 3, &at));
		assert_true(strtol(at.name + 5, NULL, 10) == 777);
		assert_true(resident_of(path) >= (again ? 1 : (size_t)MANY * 24));
		elf_file_rest(f);
		assert_int_equal(resident_of(path), 0);
	}
	elf_file_close(f);
	unlink(path);
	buf_free(&symtab);
	buf_free(&strtab);
	elf_builder_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_symbols),	    cmocka_unit_test(test_facts),
		cmocka_unit_test(test_usdt),	    cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_refused),	    cmocka_unit_test(test_own_program),
		cmocka_unit_test(test_python_usdt), cmocka_unit_test(test_rests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
