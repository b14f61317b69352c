/* unwind_functions.c - the functions of a file that say how to unwind them, sorted by address.
 *
 * .eh_frame's come first; .debug_frame adds those that it leaves out. */
#include <stdlib.h>
#include <string.h>

#include "symbolize/elf_internal.h"
#include "symbolize/unwind_impl.h"

static int compare_fdes(const void *a, const void *b)
{
	const struct cfi_fde *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->program > y->program) - (x->program < y->program);
}

static void sort_functions(struct cfi *c)
{
	for (size_t i = 1; i < c->fdes.len; i++)
		if (compare_fdes(&c->fdes.data[i - 1], &c->fdes.data[i]) > 0) {
			qsort(c->fdes.data, c->fdes.len, sizeof(*c->fdes.data), compare_fdes);
			return;
		}
}

/* Leaves out functions that are not in the file. A linker that drops a function may leave its
 * entry in .debug_frame, at address 0. */
static void keep_functions_of_file(const struct elf_file *f, struct cfi *c, size_t first)
{
	size_t kept = first;

	for (size_t i = first; i < c->fdes.len; i++) {
		const struct cfi_fde *fde = &c->fdes.data[i];

		if (fde->start && elf_file_bytes(f, fde->start, fde->end - fde->start))
			c->fdes.data[kept++] = *fde;
		else
			c->damaged++;
	}
	c->fdes.len = kept;
}

/* How many of the first n functions, which are sorted, begin at or before an address. */
static size_t functions_up_to(const struct cfi *c, size_t n, uint64_t address)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (c->fdes.data[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Of the functions from number first on, what the sorted ones before them leave. */
static void clip_functions(struct cfi *c, size_t first)
{
	size_t kept = first;

	for (size_t i = first; i < c->fdes.len; i++) {
		struct cfi_fde fde = c->fdes.data[i];
		size_t before = functions_up_to(c, first, fde.start);

		if (before && c->fdes.data[before - 1].end > fde.start)
			continue;
		if (before < first && c->fdes.data[before].start < fde.end)
			fde.end = c->fdes.data[before].start;
		c->fdes.data[kept++] = fde;
	}
	c->fdes.len = kept;
}

static int add_section(const struct elf_file *f, struct cfi *c, const struct cfi_section *s,
		       struct err *e)
{
	size_t first = c->fdes.len;
	int rc = cfi_scan(c, s, e);

	if (rc < 0)
		return rc;
	keep_functions_of_file(f, c, first);
	if (first)
		clip_functions(c, first);
	sort_functions(c);
	return 0;
}

/* The bytes of the file from a virtual address to the end of its segment. */
static size_t bytes_from(const struct elf_file *f, uint64_t address)
{
	for (size_t i = 0; i < f->loaded.n; i++) {
		const struct elf_segment *s = &f->loaded.s[i];

		if (address >= s->address && address - s->address < s->size)
			return s->size - (address - s->address);
	}
	return 0;
}

static uint64_t eh_frame_header_address(const struct elf_file *f)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;

	memcpy(&eh, f->data, sizeof(eh));
	if (eh.e_phentsize != sizeof(ph))
		return 0;
	for (size_t i = 0; i < eh.e_phnum; i++) {
		if (!elf_in_range(f->len, eh.e_phoff, (i + 1) * sizeof(ph)))
			return 0;
		memcpy(&ph, f->data + eh.e_phoff + i * sizeof(ph), sizeof(ph));
		if (ph.p_type == PT_GNU_EH_FRAME)
			return ph.p_vaddr;
	}
	return 0;
}

/* Finds .eh_frame without section headers, as unwinders at run time do: through .eh_frame_hdr
 * (version 1; encodings of the pointer to .eh_frame, of the table's length, of the table; the
 * pointer, relative to itself in 4 bytes, as all linkers write it). Its end is not said. */
static bool find_by_header(const struct elf_file *f, struct cfi_section *ret)
{
	uint64_t header = eh_frame_header_address(f);
	const uint8_t *p = header ? elf_file_bytes(f, header, 8) : NULL;

	if (!p || p[0] != 1 || p[1] != 0x1b)
		return false;
	ret->address = header + 4 + (uint64_t)(int64_t)(int32_t)elf_u32(p + 4);
	ret->len = bytes_from(f, ret->address);
	ret->data = ret->len ? elf_file_bytes(f, ret->address, ret->len) : NULL;
	ret->eh = true;
	ret->ends_at_zero = true;
	return ret->data;
}

int unwind_functions_find(const struct elf_file *f, struct cfi *c, uint64_t *damaged, struct err *e)
{
	struct cfi_section eh = {.eh = true}, debug = {0};
	uint64_t ignored;
	int rc = 0;

	if (elf_file_section(f, ".eh_frame", &eh.data, &eh.len, &eh.address) ||
	    (!f->nsections && find_by_header(f, &eh)))
		rc = add_section(f, c, &eh, e);
	if (rc == 0 && elf_file_section(f, ".debug_frame", &debug.data, &debug.len, &ignored))
		rc = add_section(f, c, &debug, e);
	*damaged += c->damaged;
	return rc;
}
