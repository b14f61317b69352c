/* elf_usdt.c - USDT probes of an ELF file, from its .note.stapsdt section.
 *
 * Format: SystemTap wiki, UserSpaceProbeImplementation: notes of owner "stapsdt", type 3,
 * each holding three addresses (the nop, the link-time address of .stapsdt.base, the
 * semaphore or 0) and three C strings (provider, name, arguments). Where prelink has moved
 * the file, .stapsdt.base has moved and the noted addresses have not: they are shifted by
 * the difference. The arguments are not decoded here. */
#include "symbolize/elf_internal.h"

#define NT_STAPSDT	3
#define ADDRESSES_BYTES 24

/* The C string at *pos of the note; NULL when it does not end within it. */
static const char *next_string(const struct elf_note *note, size_t *pos)
{
	const char *s = (const char *)note->desc + *pos;
	const char *end = memchr(s, '\0', note->desc_len - *pos);

	if (!end)
		return NULL;
	*pos += end - s + 1;
	return s;
}

static bool parse_note(const struct elf_file *f, const struct elf_note *note, bool has_base,
		       uint64_t actual_base, struct elf_usdt *ret)
{
	uint64_t pc, base, semaphore, shift;
	struct elf_usdt u = {0};
	size_t pos = ADDRESSES_BYTES;

	if (note->type != NT_STAPSDT || note->owner_len != sizeof("stapsdt") ||
	    memcmp(note->owner, "stapsdt", sizeof("stapsdt")) != 0 ||
	    note->desc_len <= ADDRESSES_BYTES)
		return false;
	pc = elf_u64(note->desc);
	base = elf_u64(note->desc + 8);
	semaphore = elf_u64(note->desc + 16);
	u.provider = next_string(note, &pos);
	u.name = u.provider ? next_string(note, &pos) : NULL;
	u.args = u.name ? next_string(note, &pos) : NULL;
	if (!u.args)
		return false;
	shift = has_base && base ? actual_base - base : 0;
	if (!elf_file_offset(f, pc + shift, &u.file_offset))
		return false;
	if (semaphore && !elf_file_offset(f, semaphore + shift, &u.semaphore_offset))
		return false;
	*ret = u;
	return true;
}

int elf_file_usdt(const struct elf_file *f, int (*visit)(const struct elf_usdt *u, void *ctx),
		  void *ctx)
{
	const uint8_t *notes, *base;
	size_t len, base_len, pos = 0;
	uint64_t address, actual_base = 0;
	struct elf_note note;
	bool has_base;

	if (!elf_file_section(f, ".note.stapsdt", &notes, &len, &address))
		return 0;
	has_base = elf_file_section(f, ".stapsdt.base", &base, &base_len, &actual_base);
	while (elf_next_note(notes, len, 4, &pos, &note)) {
		struct elf_usdt u;
		int rc;

		if (!parse_note(f, &note, has_base, actual_base, &u))
			continue;
		rc = visit(&u, ctx);
		if (rc)
			return rc;
	}
	return 0;
}
