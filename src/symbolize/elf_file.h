/* elf_file.h - what tracing needs of an ELF file: symbols, build id, USDT notes, bytes.
 *
 * Reads x86-64 ELF only. Never trusts the file: every offset is checked against its
 * size. Knows nothing of processes or probes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct elf_file;

/* What of a file is loaded (PT_LOAD). */
struct elf_segment {
	uint64_t address;
	uint64_t file_offset;
	uint64_t size; /* bytes in the file */
};

/* Real files have four to ten; the bound keeps address look-ups short in hostile ones. */
#define ELF_MAX_SEGMENTS 64

struct elf_segments {
	struct elf_segment s[ELF_MAX_SEGMENTS];
	uint32_t n; /* at most ELF_MAX_SEGMENTS */
};

/* Maps path read-only. The sentence names the path and what is wrong with it. A file that is
 * cut short while it is open reads as zeros there, one that is written to reads as it then is. */
int elf_file_open(struct elf_file **ret, const char *path, struct err *e);
/* The same of a descriptor, which stays the caller's; name is for the sentence. A file of at most
 * copy_bytes is copied: it stays as it was. */
int elf_file_open_fd(struct elf_file **ret, int fd, const char *name, size_t copy_bytes,
		     struct err *e);
/* The same on bytes that the caller keeps until elf_file_close. */
int elf_file_open_memory(struct elf_file **ret, const void *data, size_t len, struct err *e);
/* To be called when nothing is read for a while: what was read of a mapped file is not counted as
 * this process's memory then. */
void elf_file_rest(const struct elf_file *f);
void elf_file_close(struct elf_file *f);
/* Whether somebody wrote to the file or cut it since it was opened, by its headers: what it says
 * now is not what it said. False of a copy. */
bool elf_file_changed(const struct elf_file *f);

size_t elf_file_size(const struct elf_file *f); /* bytes, when it was opened */
uid_t elf_file_owner(const struct elf_file *f); /* 0 of bytes in memory */

/* Build id in hexadecimal, "" when there is none. */
const char *elf_file_build_id(const struct elf_file *f);
/* DT_SONAME, or NULL. */
const char *elf_file_soname(const struct elf_file *f);
/* PT_INTERP, or NULL. */
const char *elf_file_interpreter(const struct elf_file *f);
bool elf_file_has_symtab(const struct elf_file *f); /* .symtab present: not stripped */

struct elf_symbol {
	const char *name;     /* into the mapped file; without @version */
	uint64_t address;     /* virtual address in the file */
	uint64_t size;	      /* 0 when unknown */
	uint64_t file_offset; /* of its first byte; what uprobes take. 0: not in the file (.bss) */
	bool is_function;     /* STT_FUNC or STT_GNU_IFUNC, else object/none */
	bool is_local;
};

/* Calls visit for every defined function, object or untyped symbol of .dynsym and .symtab
 * (each address+name once; no sections, files, thread-local or absolute ones); a non-zero
 * return stops and is returned. Names are whole C strings inside the file. */
int elf_file_symbols(const struct elf_file *f,
		     int (*visit)(const struct elf_symbol *sym, void *ctx), void *ctx);

/* The defined symbol of exactly this name; .dynsym before .symtab. */
bool elf_file_find(const struct elf_file *f, const char *name, struct elf_symbol *ret);

/* The symbol that covers a virtual address (greatest start not above it, size respected). */
bool elf_file_symbol_at(struct elf_file *f, uint64_t address, struct elf_symbol *ret);

/* A virtual address's file offset through PT_LOAD; false when not in the file. */
bool elf_file_offset(const struct elf_file *f, uint64_t address, uint64_t *ret);

/* What a mapping of the file adds to virtual addresses: that of the segment that most of it
 * shows, since a page of the file may belong to two. False when it shows none. */
bool elf_segments_bias(const struct elf_segments *segments, uint64_t start, uint64_t end,
		       uint64_t file_offset, uint64_t *ret);
const struct elf_segments *elf_file_segments(const struct elf_file *f);

/* len bytes at a virtual address, or NULL when they are not all in the file. */
const void *elf_file_bytes(const struct elf_file *f, uint64_t address, size_t len);

/* A section's bytes in the mapped file; false when absent or without bytes. */
bool elf_file_section(const struct elf_file *f, const char *name, const uint8_t **ret_data,
		      size_t *ret_len, uint64_t *ret_address);

/* USDT notes (.note.stapsdt, as sys/sdt.h version 3 writes them). */
struct elf_usdt {
	const char *provider;
	const char *name;
	const char *args;	   /* "-4@%edi 8@%rsi": GNU as operands, "" when none */
	uint64_t file_offset;	   /* of the nop */
	uint64_t semaphore_offset; /* file offset of the counter the kernel must raise; 0 = none */
};
int elf_file_usdt(const struct elf_file *f, int (*visit)(const struct elf_usdt *u, void *ctx),
		  void *ctx);
