/* elf_fuzz.c - hostile ELF files, read as the tracer reads those of the processes it follows.
 *
 * Whatever is handed out must lie in the file, and names must end there.
 *
 * links: base symbolize */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbolize/cpython.h"
#include "symbolize/demangle.h"
#include "symbolize/elf_file.h"
#include "symbolize/insn.h"
#include "symbolize/torch_layout.h"
#include "symbolize/torch_names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
	const struct elf_file *file;
	const struct torch_names *names;
	int looked_at;
};

static void check(int holds)
{
	if (!holds)
		abort();
}

static void check_string(const struct input *in, const char *s)
{
	const uint8_t *p = (const uint8_t *)s;

	check(p >= in->data && p < in->data + in->size);
	check(memchr(p, 0, in->data + in->size - p) != NULL);
}

static int visit_symbol(const struct elf_symbol *sym, void *ctx)
{
	struct input *in = ctx;
	const uint8_t *code;
	struct insn_place place;

	check_string(in, sym->name);
	check(sym->name[0] && sym->file_offset < in->size);
	if (++in->looked_at > 16) /* the slow part: a few of each file */
		return 0;
	free(demangle(sym->name, 0));
	free(demangle_vtable(sym->name));
	free(torch_operator_name(in->names, sym->name));
	code = elf_file_bytes(in->file, sym->address, 32);
	if (!code)
		return 0;
	check(code >= in->data && code + 32 <= in->data + in->size);
	place = insn_choose(code, 32, 1);
	check(place.offset < 32 && memchr(place.text, 0, sizeof(place.text)));
	return 0;
}

static int visit_usdt(const struct elf_usdt *u, void *ctx)
{
	const struct input *in = ctx;

	check_string(in, u->provider);
	check_string(in, u->name);
	check_string(in, u->args);
	check(u->file_offset < in->size && u->semaphore_offset < in->size);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {.data = data, .size = size};
	struct torch_layout layout;
	struct torch_names *names;
	struct elf_symbol sym;
	struct elf_file *f;
	uint32_t version;
	struct err e;

	if (elf_file_open_memory(&f, data, size, &e) < 0)
		return 0;
	torch_layout_find(f, &layout);
	check(!layout.sizes || layout.scalar == layout.sizes + 104);
	names = torch_names_load(f);
	in.file = f;
	in.names = names;
	elf_file_symbols(f, visit_symbol, &in);
	elf_file_usdt(f, visit_usdt, &in);
	cpython_present(f);
	cpython_version(f, "/usr/bin/python3", &version, &e);
	if (elf_file_symbol_at(f, 0x1000, &sym))
		check_string(&in, sym.name);
	if (elf_file_soname(f))
		check_string(&in, elf_file_soname(f));
	if (elf_file_interpreter(f))
		check_string(&in, elf_file_interpreter(f));
	check(strlen(elf_file_build_id(f)) <= 128);
	torch_names_free(names);
	elf_file_close(f);
	return 0;
}
