/* scan.c - walks the blocks of a recording and finds what is damaged.
 *
 * Reads with pread(2) and not through a mapping: a file that another process cuts off or a
 * disk that fails then gives an error instead of a signal. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "recording/reader.h"

/* A file with more damaged places than this is given up at the last of them; it also bounds
 * the work that a hostile file can cause by headers with long overlapping payloads. */
#define MAX_DAMAGED_PLACES 100
#define SEARCH_WINDOW	   (256u << 10)

bool reader_pread(const struct rec_reader *r, void *p, size_t n, uint64_t at)
{
	uint8_t *to = p;
	while (n) {
		ssize_t got = pread(r->fd, to, n, (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		to += got;
		n -= (size_t)got;
		at += (uint64_t)got;
	}
	return true;
}

void scan_note_damage(struct rec_reader *r, uint64_t at, const char *fmt, ...)
{
	if (r->damaged_places++)
		return;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(r->damage, sizeof(r->damage), fmt, ap);
	va_end(ap);
	r->t.damaged_at = at;
	r->calls_before = r->t.calls;
}

void scan_damage_sentence(struct rec_reader *r)
{
	if (!r->damaged_places)
		return;
	char *p = r->t.damage;
	char *end = p + sizeof(r->t.damage);
	uint64_t before = r->calls_before < r->t.calls ? r->calls_before : r->t.calls;
	uint64_t after = r->t.calls - before;
	p += snprintf(p, (size_t)(end - p), "damaged at byte %llu: %s; %llu calls before it%s",
		      (unsigned long long)r->t.damaged_at, r->damage, (unsigned long long)before,
		      after ? "" : " were read");
	if (after && p < end)
		p += snprintf(p, (size_t)(end - p), " and %llu after it were read",
			      (unsigned long long)after);
	if (r->dropped && p < end)
		p += snprintf(p, (size_t)(end - p),
			      ", %llu rows that refer to lost ones were dropped",
			      (unsigned long long)r->dropped);
	if (r->damaged_places > 1 && p < end)
		snprintf(p, (size_t)(end - p), "; %u more places are damaged",
			 r->damaged_places - 1);
}

int reader_count_rows(struct rec_reader *r, uint64_t rows)
{
	r->rows += rows;
	r->over |= r->rows > REC_ROWS_FREE + r->size * REC_ROWS_PER_BYTE;
	return r->over ? -EDQUOT : 0;
}

/* What a block says of itself, before it is decompressed. */
static int count_block(struct rec_reader *r, const struct block_header *h)
{
	r->raw_bytes += h->raw_bytes;
	r->over |= r->raw_bytes > REC_RAW_FREE + r->size * REC_RAW_PER_BYTE;
	return reader_count_rows(r, h->rows);
}

static bool header_at(const struct rec_reader *r, uint64_t at, struct block_header *ret)
{
	uint8_t bytes[REC_BLOCK_HEADER_BYTES];
	return r->size - at >= sizeof(bytes) && reader_pread(r, bytes, sizeof(bytes), at) &&
	       block_header_decode(bytes, ret);
}

/* Offset of the next good header from `at` on whose number is due or later; the size of the
 * file when there is none. */
static uint64_t find_header(struct rec_reader *r, uint64_t at, uint32_t sequence)
{
	static const uint8_t magic[4] = {'E', 'B', 'L', 'K'};
	while (r->size - at >= REC_BLOCK_HEADER_BYTES) {
		size_t n = r->size - at < SEARCH_WINDOW ? (size_t)(r->size - at) : SEARCH_WINDOW;
		r->stored.len = 0;
		buf_reserve(&r->stored, n);
		if (!reader_pread(r, r->stored.data, n, at))
			return r->size;
		const uint8_t *p = r->stored.data;
		const uint8_t *end = p + n - (REC_BLOCK_HEADER_BYTES - 1);
		for (; p < end; p++) {
			p = memchr(p, magic[0], (size_t)(end - p));
			if (!p)
				break;
			struct block_header h;
			if (!memcmp(p, magic, sizeof(magic)) && block_header_decode(p, &h) &&
			    h.sequence >= sequence)
				return at + (uint64_t)(p - r->stored.data);
		}
		at += n - (REC_BLOCK_HEADER_BYTES - 1);
	}
	return r->size;
}

/* Reads and checks the block at an offset and takes it over. False after noting damage. */
static bool take_block(struct rec_reader *r, uint64_t at, uint32_t sequence,
		       struct block_header *ret)
{
	struct block_header h;
	uint64_t payload_at = at + REC_BLOCK_HEADER_BYTES;
	if (r->size - at < REC_BLOCK_HEADER_BYTES) {
		scan_note_damage(r, at, "the file ends inside the header of a block");
		return false;
	}
	if (!header_at(r, at, &h) || h.sequence < sequence) {
		scan_note_damage(r, at, "no block begins there");
		return false;
	}
	const char *type = block_type_name(h.type);
	if (h.stored_bytes > r->size - payload_at) {
		scan_note_damage(r, at, "the file ends inside a %s block", type);
		return false;
	}
	r->stored.len = 0;
	buf_reserve(&r->stored, h.stored_bytes);
	if (!reader_pread(r, r->stored.data, h.stored_bytes, payload_at)) {
		scan_note_damage(r, at, "a %s block cannot be read from the disk", type);
		return false;
	}
	if (block_crc(r->stored.data, h.stored_bytes) != h.payload_crc) {
		scan_note_damage(r, at, "checksum of a %s block does not match", type);
		return false;
	}
	int rc = count_block(r, &h);
	rc = rc ? rc : tables_add(r, &h, payload_at, r->stored.data);
	if (rc) {
		scan_note_damage(r, at,
				 rc == -EDQUOT ? "with a %s block it stands for more rows than a "
						 "recording of its size can hold"
					       : "a %s block holds what no eACGM writes",
				 type);
		return false;
	}
	*ret = h;
	return true;
}

void scan_blocks(struct rec_reader *r)
{
	uint64_t at = REC_FILE_HEADER_BYTES;
	uint32_t sequence = 0;
	bool searching = false;
	while (at < r->size && !r->t.complete && !r->over &&
	       r->damaged_places < MAX_DAMAGED_PLACES) {
		struct block_header h;
		if (!take_block(r, at, sequence, &h)) {
			at = find_header(r, at + 1, sequence);
			searching = true;
			continue;
		}
		if (h.sequence != sequence && !searching)
			scan_note_damage(r, at, "%u blocks are missing before it",
					 h.sequence - sequence);
		if (h.sequence != sequence || searching)
			r->lost_blocks = true;
		searching = false;
		sequence = h.sequence + 1;
		at += REC_BLOCK_HEADER_BYTES + h.stored_bytes;
	}
	if (r->t.complete && at < r->size)
		scan_note_damage(r, at, "%llu bytes follow the end of the recording",
				 (unsigned long long)(r->size - at));
}
