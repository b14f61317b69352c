/* elf_builder.h - makes small ELF files in memory for tests of the ELF reader.
 *
 * The file is one loaded segment at ELF_BASE that covers all of it, so a byte at file
 * offset N has the address ELF_BASE + N. Sections are added in any order; nothing checks
 * that the result makes sense, since tests want files that do not. */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buffer.h"

#define ELF_BASE 0x400000

struct elf_builder {
	struct buf file;
	struct buf names;
	VEC(Elf64_Shdr) sections;
	VEC(Elf64_Phdr) segments;
};

static inline void elf_builder_init(struct elf_builder *b)
{
	*b = (struct elf_builder){0};
	buf_reserve(&b->file, 4096);
	memset(b->file.data, 0, 4096);
	b->file.len = 1024; /* room for the headers, written last */
	buf_byte(&b->names, 0);
	vec_push(&b->sections);
	vec_push(&b->segments)->p_type = PT_LOAD;
}

/* Adds a section and returns its index; its bytes are at the address in its header. */
static inline uint32_t elf_builder_section(struct elf_builder *b, const char *name, uint32_t type,
					   const void *data, size_t len, uint32_t link)
{
	Elf64_Shdr *sh = vec_push(&b->sections);

	while (b->file.len % 8)
		buf_byte(&b->file, 0);
	sh->sh_name = b->names.len;
	sh->sh_type = type;
	sh->sh_offset = b->file.len;
	sh->sh_addr = ELF_BASE + b->file.len;
	sh->sh_size = len;
	sh->sh_link = link;
	sh->sh_addralign = 4;
	buf_add(&b->names, name, strlen(name) + 1);
	buf_add(&b->file, data, len);
	return b->sections.len - 1;
}

/* Adds a segment that covers a section's bytes. */
static inline void elf_builder_segment(struct elf_builder *b, uint32_t type, uint32_t section)
{
	Elf64_Phdr *ph = vec_push(&b->segments);
	const Elf64_Shdr *sh = &b->sections.data[section];

	ph->p_type = type;
	ph->p_offset = sh->sh_offset;
	ph->p_vaddr = sh->sh_addr;
	ph->p_filesz = sh->sh_size;
}

/* Adds a symbol to a table under construction, its name to the strings. */
static inline void elf_builder_symbol(struct buf *table, struct buf *strings, const char *name,
				      uint64_t address, uint64_t size, unsigned char info)
{
	Elf64_Sym sym = {.st_name = strings->len,
			 .st_info = info,
			 .st_shndx = 1,
			 .st_value = address,
			 .st_size = size};

	buf_add(strings, name, strlen(name) + 1);
	buf_add(table, &sym, sizeof(sym));
}

/* Adds one note of an owner to a section under construction. */
static inline void elf_builder_note(struct buf *out, const char *owner, uint32_t type,
				    const void *desc, uint32_t len)
{
	Elf64_Nhdr nh = {.n_namesz = strlen(owner) + 1, .n_descsz = len, .n_type = type};

	buf_add(out, &nh, sizeof(nh));
	buf_add(out, owner, nh.n_namesz);
	while (out->len % 4)
		buf_byte(out, 0);
	buf_add(out, desc, len);
	while (out->len % 4)
		buf_byte(out, 0);
}

/* Writes the headers. The file is then in b->file. */
static inline void elf_builder_finish(struct elf_builder *b, uint16_t type)
{
	Elf64_Ehdr eh = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			 .e_type = type,
			 .e_machine = EM_X86_64,
			 .e_ehsize = sizeof(eh),
			 .e_phoff = sizeof(eh),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_shentsize = sizeof(Elf64_Shdr)};
	struct buf names = {0};

	buf_add(&names, b->names.data, b->names.len);
	buf_add(&names, ".shstrtab", 10);
	eh.e_shstrndx = elf_builder_section(b, ".shstrtab", SHT_STRTAB, names.data, names.len, 0);
	buf_free(&names);
	while (b->file.len % 8)
		buf_byte(&b->file, 0);
	eh.e_shoff = b->file.len;
	eh.e_shnum = b->sections.len;
	eh.e_phnum = b->segments.len;
	buf_add(&b->file, b->sections.data, b->sections.len * sizeof(Elf64_Shdr));
	b->segments.data[0].p_vaddr = ELF_BASE;
	b->segments.data[0].p_filesz = b->file.len;
	memcpy(b->file.data, &eh, sizeof(eh));
	memcpy(b->file.data + eh.e_phoff, b->segments.data, b->segments.len * sizeof(Elf64_Phdr));
}

static inline void elf_builder_free(struct elf_builder *b)
{
	buf_free(&b->file);
	buf_free(&b->names);
	vec_free(&b->sections);
	vec_free(&b->segments);
}
