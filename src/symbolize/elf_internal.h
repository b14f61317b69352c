/* elf_internal.h - the parsed file as elf_file.c, elf_symbols.c and elf_usdt.c share it.
 *
 * Not for other folders. Headers are copied out of the file before they are looked at,
 * since nothing says that a hostile file keeps them aligned. */
#pragma once

#include <elf.h>
#include <string.h>

#include "symbolize/elf_file.h"
#include "symbolize/file_map.h"

/* A symbol table with its strings; count is 0 where the file has none. */
struct elf_symtab {
	const uint8_t *entries; /* Elf64_Sym, possibly unaligned */
	size_t count;
	const char *strings;
	size_t strings_len; /* ends in a NUL, so each offset below it is a C string */
};

struct elf_file {
	const uint8_t *data;
	size_t len;
	struct file_map map; /* none of bytes in memory */
	uint64_t headers_hash;
	bool versioned; /* has version definitions: one name may occur once per version */

	struct elf_segments loaded;
	const uint8_t *sections; /* Elf64_Shdr */
	size_t nsections;
	const char *section_names;
	size_t section_names_len;

	struct elf_symtab dynsym;
	struct elf_symtab symtab;
	const uint8_t *gnu_hash;
	size_t gnu_hash_len;

	const char *soname;
	const char *interpreter;
	char build_id[2 * 64 + 1];

	/* Made by the first elf_file_symbol_at: places in dynsym, and behind those in symtab. Four
	 * bytes a symbol, for files stay open and libraries have a million of them. */
	uint32_t *by_address;
	size_t nby_address;
};

static inline bool elf_in_range(size_t len, uint64_t offset, uint64_t n)
{
	return offset <= len && n <= len - offset;
}

static inline uint32_t elf_u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint64_t elf_u64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* One note of a note segment or section. */
struct elf_note {
	uint32_t type;
	const char *owner; /* owner_len bytes, the NUL included */
	uint32_t owner_len;
	const uint8_t *desc;
	uint32_t desc_len;
};

/* Steps through notes; *pos starts at 0. False at the end or at the first damage. */
bool elf_next_note(const uint8_t *data, size_t len, uint64_t align, size_t *pos,
		   struct elf_note *ret);
