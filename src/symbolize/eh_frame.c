/* eh_frame.c - finds CIEs and FDEs in a section.
 *
 * Both sections are lists of entries. A CIE holds what many functions have in common: factors,
 * how pointers are written, the rules at a function's first instruction. An FDE names its CIE,
 * the function's addresses, and a program that steps through them and changes rules
 * (cfi_program.c).
 *
 * A CIE is known by where the walk over the section found it, and its program is run once: the
 * entries do not overlap, so that hostile ones cannot have the same bytes read many times. */
#include "symbolize/eh_frame.h"

#include <errno.h>
#include <string.h>

#include "symbolize/cfi_program.h"
#include "wire/unwind.h"

#define MAX_CIES 65536 /* real files have some hundreds at most */

struct entry {
	uint64_t at; /* place in the section */
	uint64_t id; /* of a CIE's, or how the FDE says where its CIE is */
	uint64_t id_at;
	bool is_cie;
	struct bytes body; /* what follows the id */
};

/* The entry at *pos, which moves behind it. False at the section's end, also a damaged one's,
 * after which no other entry can be found. A body of no bytes: an entry of length 0. */
static bool next_entry(const struct cfi_section *s, uint64_t *pos, struct entry *ret, bool *damaged)
{
	struct bytes b = {s->data + *pos, s->data + s->len, true};
	bool wide = false;
	uint64_t len, none;

	if (*pos >= s->len)
		return false;
	ret->at = *pos;
	len = bytes_uint(&b, 4);
	if (len == 0xffffffff) {
		wide = true;
		len = bytes_uint(&b, 8);
	}
	if (!b.ok || len > (uint64_t)(b.end - b.at) || (!wide && len >= 0xfffffff0)) {
		*damaged = true;
		return false;
	}
	b.end = b.at + len;
	*pos = (uint64_t)(b.end - s->data);
	ret->id_at = (uint64_t)(b.at - s->data);
	/* .eh_frame has 32 bits here in both forms */
	wide = wide && !s->eh;
	none = s->eh ? 0 : wide ? UINT64_MAX : 0xffffffff;
	ret->id = len ? bytes_uint(&b, wide ? 8 : 4) : 0;
	ret->is_cie = ret->id == none;
	ret->body = b;
	return true;
}

/* The letters of an augmentation string, and the data that they stand for. */
static void parse_augmentation(struct cfi_cie *cie, const char *letters, struct bytes *b)
{
	struct bytes data = {0};

	for (; *letters; letters++) {
		switch (*letters) {
		case 'z':
			data.at = bytes_skip(b, bytes_uleb(b));
			data.end = b->at;
			data.ok = b->ok;
			cie->augmented = true;
			break;
		case 'R':
			cie->encoding = bytes_u8(&data);
			break;
		case 'L':
			bytes_u8(&data);
			break;
		case 'P':
			bytes_formatted(&data, bytes_u8(&data));
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B': /* of other machines */
		case 'G':
			break;
		default:
			b->ok = false;
			return;
		}
	}
	if (cie->augmented && !data.ok)
		b->ok = false;
}

static bool parse_cie(struct cfi_cie *cie, const struct cfi_section *s, struct bytes b)
{
	uint8_t version = bytes_u8(&b), address_len = 8;
	const char *letters = (const char *)b.at;
	const uint8_t *nul = b.at < b.end ? memchr(b.at, 0, b.end - b.at) : NULL;
	uint64_t return_register;

	if (!nul || (version != 1 && version != 3 && version != 4))
		return false;
	b.at = nul + 1;
	if (version == 4) {
		address_len = bytes_u8(&b);
		cie->segment_len = bytes_u8(&b);
	}
	cie->encoding = PE_ABSPTR;
	cie->base = s->address - (uintptr_t)s->data;
	cie->code_factor = bytes_uleb(&b);
	cie->data_factor = bytes_sleb(&b);
	return_register = version == 1 ? bytes_u8(&b) : bytes_uleb(&b);
	parse_augmentation(cie, letters, &b);
	if (!b.ok || address_len != 8 || return_register != UNWIND_RIP)
		return false;
	return cfi_run_initial(cie, &b);
}

static void add_cie(struct cfi *c, const struct cfi_section *s, const struct entry *entry)
{
	struct cfi_cie *cie;

	if (c->cies.len == MAX_CIES) {
		c->damaged++;
		return;
	}
	cie = vec_push(&c->cies);
	cie->at = entry->at;
	if (!parse_cie(cie, s, entry->body)) {
		cie->broken = true;
		c->damaged++;
	}
}

/* The CIE at a place of this section, whose first CIE is number first; cies.len where none
 * is. They are in rising order, and an FDE's is mostly the last or the one of the FDE before. */
static size_t find_cie(const struct cfi *c, size_t first, uint64_t at, size_t guess)
{
	size_t low = first, high = c->cies.len;

	if (guess >= first && guess < c->cies.len && c->cies.data[guess].at == at)
		return guess;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (c->cies.data[mid].at < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low < c->cies.len && c->cies.data[low].at == at ? low : c->cies.len;
}

/* A function of no bytes is no damage, but nothing to keep either. */
static bool parse_fde(struct cfi *c, size_t cie_index, struct bytes b)
{
	const struct cfi_cie *cie = &c->cies.data[cie_index];
	struct cfi_fde fde = {.cie = cie_index};
	uint64_t len, program_len;

	if (cie->broken)
		return false;
	bytes_skip(&b, cie->segment_len);
	fde.start = bytes_pointer(&b, cie->encoding, cie->base);
	len = bytes_formatted(&b, cie->encoding & PE_FORMAT);
	if (cie->augmented)
		bytes_skip(&b, bytes_uleb(&b));
	program_len = b.end - b.at;
	if (!b.ok || __builtin_add_overflow(fde.start, len, &fde.end) || program_len > UINT32_MAX)
		return false;
	fde.program = b.at;
	fde.program_len = program_len;
	if (len)
		*vec_push(&c->fdes) = fde;
	return true;
}

int cfi_scan(struct cfi *c, const struct cfi_section *s, struct err *e)
{
	size_t first = c->cies.len, guess = first;
	bool damaged = false;
	struct entry entry;
	uint64_t pos = 0;

	while (next_entry(s, &pos, &entry, &damaged)) {
		if (pos == entry.id_at) { /* length 0 */
			if (s->ends_at_zero)
				break;
			continue;
		}
		if (!entry.body.ok) {
			c->damaged++;
		} else if (entry.is_cie) {
			add_cie(c, s, &entry);
		} else if (c->fdes.len == CFI_MAX_FDES) {
			return err_set(e, EFBIG,
				       "its call frame information is of more than %u functions",
				       CFI_MAX_FDES);
		} else {
			guess = find_cie(c, first, s->eh ? entry.id_at - entry.id : entry.id,
					 guess);
			if (guess == c->cies.len || !parse_fde(c, guess, entry.body))
				c->damaged++;
		}
	}
	c->damaged += damaged;
	return 0;
}

void cfi_free(struct cfi *c)
{
	vec_free(&c->cies);
	vec_free(&c->fdes);
}
