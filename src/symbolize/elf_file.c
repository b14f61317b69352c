/* elf_file.c - opens an ELF file: headers, segments, sections, build id, addresses.
 *
 * Layouts: System V ABI (gabi.xinuos.com), AMD64 supplement, <elf.h>; build id: note
 * type NT_GNU_BUILD_ID of owner "GNU". Symbols are in elf_symbols.c, USDT in elf_usdt.c.
 *
 * The file is mapped, not read: libraries have hundreds of megabytes of which a few are
 * touched. Libraries in use are mostly replaced by rename, which changes nothing here; but any
 * owner can write into a file or cut it short. So what is read again is checked again, and
 * file_map.c has what was cut read as zeros. */
#include "symbolize/elf_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "symbolize/elf_internal.h"

#define ALIGN_UP(x, a) (((uint64_t)(x) + (a)-1) & ~((uint64_t)(a)-1))

bool elf_next_note(const uint8_t *data, size_t len, uint64_t align, size_t *pos,
		   struct elf_note *ret)
{
	Elf64_Nhdr header;
	uint64_t desc, end;

	if (align != 8)
		align = 4;
	if (!elf_in_range(len, *pos, sizeof(header)))
		return false;
	memcpy(&header, data + *pos, sizeof(header));
	desc = ALIGN_UP(*pos + sizeof(header) + (uint64_t)header.n_namesz, align);
	end = desc + header.n_descsz;
	if (end > len)
		return false;
	ret->type = header.n_type;
	ret->owner = (const char *)data + *pos + sizeof(header);
	ret->owner_len = header.n_namesz;
	ret->desc = data + desc;
	ret->desc_len = header.n_descsz;
	end = ALIGN_UP(end, align);
	*pos = end < len ? end : len;
	return true;
}

static bool section_at(const struct elf_file *f, size_t i, Elf64_Shdr *ret)
{
	if (i >= f->nsections)
		return false;
	memcpy(ret, f->sections + i * sizeof(*ret), sizeof(*ret));
	return true;
}

/* The bytes of a section; false when it has none in the file. */
static bool section_bytes(const struct elf_file *f, const Elf64_Shdr *sh, const uint8_t **ret_data,
			  size_t *ret_len)
{
	if (sh->sh_type == SHT_NOBITS || sh->sh_type == SHT_NULL || (sh->sh_flags & SHF_COMPRESSED))
		return false;
	if (!elf_in_range(f->len, sh->sh_offset, sh->sh_size))
		return false;
	*ret_data = f->data + sh->sh_offset;
	*ret_len = sh->sh_size;
	return true;
}

/* Shortens a string table to its last NUL, so that what is left holds C strings only. */
static size_t terminated_len(const char *strings, size_t len)
{
	const char *last = len ? memrchr(strings, '\0', len) : NULL;

	return last ? (size_t)(last - strings) + 1 : 0;
}

static void take_symtab(const struct elf_file *f, const Elf64_Shdr *sh, struct elf_symtab *ret)
{
	struct elf_symtab t = {0};
	const uint8_t *strings;
	Elf64_Shdr strs;
	size_t len;

	if (ret->count || !section_bytes(f, sh, &t.entries, &len) ||
	    !section_at(f, sh->sh_link, &strs))
		return;
	t.count = len / sizeof(Elf64_Sym);
	if (t.count > UINT32_MAX || !section_bytes(f, &strs, &strings, &len))
		return;
	t.strings = (const char *)strings;
	t.strings_len = terminated_len(t.strings, len);
	*ret = t;
}

static void take_build_id(struct elf_file *f, const uint8_t *data, size_t len, uint64_t align)
{
	struct elf_note note;
	size_t pos = 0;

	while (!f->build_id[0] && elf_next_note(data, len, align, &pos, &note)) {
		if (note.type != NT_GNU_BUILD_ID || note.owner_len != 4 ||
		    memcmp(note.owner, "GNU", 4) != 0 || note.desc_len > 64)
			continue;
		for (uint32_t i = 0; i < note.desc_len; i++)
			snprintf(f->build_id + 2 * i, 3, "%02x", note.desc[i]);
	}
}

/* Damaged or missing section headers are no error: the kernel runs such files too. */
static void read_sections(struct elf_file *f, const Elf64_Ehdr *eh)
{
	const uint8_t *names;
	uint64_t count = eh->e_shnum, names_index = eh->e_shstrndx;
	Elf64_Shdr sh;

	if (!eh->e_shoff || eh->e_shentsize != sizeof(sh) ||
	    !elf_in_range(f->len, eh->e_shoff, sizeof(sh)))
		return;
	f->sections = f->data + eh->e_shoff;
	memcpy(&sh, f->sections, sizeof(sh));
	if (count == 0)
		count = sh.sh_size;
	if (names_index == SHN_XINDEX)
		names_index = sh.sh_link;
	if (count > (f->len - eh->e_shoff) / sizeof(sh))
		return;
	f->nsections = count;

	if (section_at(f, names_index, &sh) &&
	    section_bytes(f, &sh, &names, &f->section_names_len)) {
		f->section_names = (const char *)names;
		f->section_names_len = terminated_len(f->section_names, f->section_names_len);
	}
	for (size_t i = 0; section_at(f, i, &sh); i++) {
		const uint8_t *data;
		size_t len;

		if (sh.sh_type == SHT_DYNSYM)
			take_symtab(f, &sh, &f->dynsym);
		else if (sh.sh_type == SHT_SYMTAB)
			take_symtab(f, &sh, &f->symtab);
		else if (sh.sh_type == SHT_NOTE && section_bytes(f, &sh, &data, &len))
			take_build_id(f, data, len, sh.sh_addralign);
	}
}

static const uint8_t *bytes_to_end(const struct elf_file *f, uint64_t address, size_t *ret_len)
{
	for (size_t i = 0; i < f->loaded.n; i++) {
		const struct elf_segment *s = &f->loaded.s[i];

		if (address >= s->address && address - s->address < s->size) {
			*ret_len = s->size - (address - s->address);
			return f->data + s->file_offset + (address - s->address);
		}
	}
	return NULL;
}

/* The number of symbols that a GNU hash table covers: one past the last symbol of the
 * last chain, or 0 when the table is damaged. The table does not say it directly. */
static size_t gnu_hash_symbols(const uint8_t *table, size_t len)
{
	uint64_t buckets_at, chains_at, nbuckets, first, last = 0;

	if (len < 16)
		return 0;
	nbuckets = elf_u32(table);
	first = elf_u32(table + 4);
	buckets_at = 16 + 8 * (uint64_t)elf_u32(table + 8);
	chains_at = buckets_at + 4 * nbuckets;
	if (chains_at > len)
		return 0;
	for (uint64_t i = 0; i < nbuckets; i++) {
		uint64_t b = elf_u32(table + buckets_at + 4 * i);

		last = b > last ? b : last;
	}
	if (last < first)
		return first;
	for (;; last++) {
		if (!elf_in_range(len, chains_at + 4 * (last - first), 4))
			return 0;
		if (elf_u32(table + chains_at + 4 * (last - first)) & 1)
			return last + 1;
	}
}

/* Symbols of a file without section headers, through the dynamic section alone. */
static void take_dynamic_symtab(struct elf_file *f, uint64_t symtab, uint64_t hash,
				const char *strings, size_t strings_len)
{
	struct elf_symtab t = {.strings = strings, .strings_len = strings_len};
	const uint8_t *sysv;
	size_t len = 0;

	t.entries = bytes_to_end(f, symtab, &len);
	if (!t.entries)
		return;
	sysv = elf_file_bytes(f, hash, 8);
	if (hash && sysv)
		t.count = elf_u32(sysv + 4);
	else if (f->gnu_hash)
		t.count = gnu_hash_symbols(f->gnu_hash, f->gnu_hash_len);
	if (t.count > len / sizeof(Elf64_Sym))
		t.count = len / sizeof(Elf64_Sym);
	f->dynsym = t;
}

static void read_dynamic(struct elf_file *f, const uint8_t *data, size_t len)
{
	uint64_t strtab = 0, strsz = 0, soname = 0, symtab = 0, hash = 0, gnu_hash = 0;
	const char *strings;
	Elf64_Dyn dyn;

	for (size_t i = 0; i < len / sizeof(dyn); i++) {
		memcpy(&dyn, data + i * sizeof(dyn), sizeof(dyn));
		if (dyn.d_tag == DT_NULL)
			break;
		switch (dyn.d_tag) {
		case DT_STRTAB:
			strtab = dyn.d_un.d_ptr;
			break;
		case DT_STRSZ:
			strsz = dyn.d_un.d_val;
			break;
		case DT_SONAME:
			soname = dyn.d_un.d_val;
			break;
		case DT_SYMTAB:
			symtab = dyn.d_un.d_ptr;
			break;
		case DT_HASH:
			hash = dyn.d_un.d_ptr;
			break;
		case DT_GNU_HASH:
			gnu_hash = dyn.d_un.d_ptr;
			break;
		case DT_VERDEF:
			f->versioned = true;
			break;
		}
	}
	strings = elf_file_bytes(f, strtab, strsz);
	strsz = strings ? terminated_len(strings, strsz) : 0;
	if (soname && soname < strsz)
		f->soname = strings + soname;
	if (gnu_hash)
		f->gnu_hash = bytes_to_end(f, gnu_hash, &f->gnu_hash_len);
	if (!f->dynsym.count && symtab && strsz)
		take_dynamic_symtab(f, symtab, hash, strings, strsz);
}

static int read_segments(struct elf_file *f, const Elf64_Ehdr *eh, struct err *e)
{
	uint64_t count = eh->e_phnum;
	Elf64_Phdr ph, dynamic = {0};

	if (count == PN_XNUM && f->nsections) {
		Elf64_Shdr sh;

		section_at(f, 0, &sh);
		count = sh.sh_info;
	}
	if (count && (eh->e_phentsize != sizeof(ph) || !elf_in_range(f->len, eh->e_phoff, 0) ||
		      count > (f->len - eh->e_phoff) / sizeof(ph)))
		return err_set(e, EINVAL, "its program headers lie beyond its end");
	for (uint64_t i = 0; i < count; i++) {
		memcpy(&ph, f->data + eh->e_phoff + i * sizeof(ph), sizeof(ph));
		if (ph.p_offset > f->len)
			continue;
		if (ph.p_filesz > f->len - ph.p_offset)
			ph.p_filesz = f->len - ph.p_offset;
		if (ph.p_type == PT_LOAD && f->loaded.n == ELF_MAX_SEGMENTS)
			return err_set(e, EINVAL, "it has more than %d segments", ELF_MAX_SEGMENTS);
		if (ph.p_type == PT_LOAD && ph.p_filesz <= UINT64_MAX - ph.p_vaddr)
			f->loaded.s[f->loaded.n++] = (struct elf_segment){
				.address = ph.p_vaddr,
				.file_offset = ph.p_offset,
				.size = ph.p_filesz,
			};
		else if (ph.p_type == PT_DYNAMIC)
			dynamic = ph;
		else if (ph.p_type == PT_NOTE)
			take_build_id(f, f->data + ph.p_offset, ph.p_filesz, ph.p_align);
		else if (ph.p_type == PT_INTERP && ph.p_filesz &&
			 f->data[ph.p_offset + ph.p_filesz - 1] == '\0')
			f->interpreter = (const char *)f->data + ph.p_offset;
	}
	read_dynamic(f, f->data + dynamic.p_offset, dynamic.p_filesz);
	return 0;
}

static int read_headers(struct elf_file *f, struct err *e)
{
	Elf64_Ehdr eh;

	if (f->len < SELFMAG || memcmp(f->data, ELFMAG, SELFMAG) != 0)
		return err_set(e, ENOEXEC, "not an ELF file");
	if (f->len < sizeof(eh))
		return err_set(e, EINVAL, "cut short within its first header");
	memcpy(&eh, f->data, sizeof(eh));
	if (eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_ident[EI_DATA] != ELFDATA2LSB ||
	    eh.e_machine != EM_X86_64)
		return err_set(e, ENOEXEC, "not for x86-64 (ELF class %u, machine %u)",
			       eh.e_ident[EI_CLASS], eh.e_machine);
	if (eh.e_type != ET_EXEC && eh.e_type != ET_DYN)
		return err_set(e, ENOEXEC, "neither an executable nor a shared library");
	read_sections(f, &eh);
	return read_segments(f, &eh, e);
}

int elf_file_open_memory(struct elf_file **ret, const void *data, size_t len, struct err *e)
{
	struct elf_file *f = xcalloc(1, sizeof(*f));
	int rc;

	f->data = data;
	f->len = len;
	rc = read_headers(f, e);
	if (rc < 0) {
		free(f);
		return rc;
	}
	*ret = f;
	return 0;
}

/* Of what says where everything is: the file's first page, its table of sections. */
static uint64_t headers_hash(const struct elf_file *f)
{
	uint64_t parts[2] = {0};

	parts[0] = hash_bytes(f->data, f->len < 4096 ? f->len : 4096);
	if (f->nsections)
		parts[1] = hash_bytes(f->sections, f->nsections * sizeof(Elf64_Shdr));
	return hash_bytes(parts, sizeof(parts));
}

/* Takes the map, also where it fails. */
static int open_map(struct elf_file **ret, struct file_map *map, const char *name, struct err *e)
{
	struct elf_file *f;
	int rc = elf_file_open_memory(&f, map->data, map->len, e);

	if (rc < 0) {
		file_map_close(map);
		return err_wrap(e, rc, "%s", name);
	}
	f->map = *map;
	f->headers_hash = headers_hash(f);
	*ret = f;
	return 0;
}

int elf_file_open_fd(struct elf_file **ret, int fd, const char *name, size_t copy_bytes,
		     struct err *e)
{
	struct file_map map;
	int rc = file_map_open_fd(&map, fd, name, copy_bytes, e);

	return rc < 0 ? rc : open_map(ret, &map, name, e);
}

int elf_file_open(struct elf_file **ret, const char *path, struct err *e)
{
	struct file_map map;
	int rc = file_map_open(&map, path, 0, e);

	return rc < 0 ? rc : open_map(ret, &map, path, e);
}

bool elf_file_changed(const struct elf_file *f)
{
	return f->map.data && headers_hash(f) != f->headers_hash;
}

void elf_file_rest(const struct elf_file *f)
{
	file_map_rest(&f->map);
}

void elf_file_close(struct elf_file *f)
{
	if (!f)
		return;
	file_map_close(&f->map);
	free(f->by_address);
	free(f);
}

size_t elf_file_size(const struct elf_file *f)
{
	return f->len;
}

uid_t elf_file_owner(const struct elf_file *f)
{
	return f->map.owner;
}

const char *elf_file_build_id(const struct elf_file *f)
{
	return f->build_id;
}

const char *elf_file_soname(const struct elf_file *f)
{
	return f->soname;
}

const char *elf_file_interpreter(const struct elf_file *f)
{
	return f->interpreter;
}

bool elf_file_has_symtab(const struct elf_file *f)
{
	return f->symtab.count > 0;
}

bool elf_file_offset(const struct elf_file *f, uint64_t address, uint64_t *ret)
{
	size_t rest;
	const uint8_t *p = bytes_to_end(f, address, &rest);

	if (!p)
		return false;
	*ret = p - f->data;
	return true;
}

bool elf_segments_bias(const struct elf_segments *segments, uint64_t start, uint64_t end,
		       uint64_t file_offset, uint64_t *ret)
{
	uint64_t most = 0, last = file_offset + (end - start);

	for (size_t i = 0; i < segments->n; i++) {
		const struct elf_segment *s = &segments->s[i];
		uint64_t s_end = s->file_offset + s->size;
		uint64_t from = s->file_offset > file_offset ? s->file_offset : file_offset;
		uint64_t to = s_end < last ? s_end : last;

		if (from >= to || to - from <= most)
			continue;
		most = to - from;
		*ret = start - file_offset + s->file_offset - s->address;
	}
	return most > 0;
}

const struct elf_segments *elf_file_segments(const struct elf_file *f)
{
	return &f->loaded;
}

const void *elf_file_bytes(const struct elf_file *f, uint64_t address, size_t len)
{
	size_t rest;
	const uint8_t *p = bytes_to_end(f, address, &rest);

	return p && len <= rest ? p : NULL;
}

bool elf_file_section(const struct elf_file *f, const char *name, const uint8_t **ret_data,
		      size_t *ret_len, uint64_t *ret_address)
{
	Elf64_Shdr sh;

	for (size_t i = 0; section_at(f, i, &sh); i++) {
		if (sh.sh_name >= f->section_names_len ||
		    strcmp(f->section_names + sh.sh_name, name) != 0)
			continue;
		if (!section_bytes(f, &sh, ret_data, ret_len))
			return false;
		*ret_address = sh.sh_addr;
		return true;
	}
	return false;
}
