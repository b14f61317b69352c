/* cpython_lines.c - which line of its source an instruction of a code object belongs to.
 *
 * Reads the three forms of line tables: pairs of unsigned bytecode and signed line deltas
 * (co_lnotab, 3.8 and 3.9: Objects/lnotab_notes.txt), ranges with a line (co_linetable of
 * 3.10: PEP 626, Objects/lnotab_notes.txt), location entries (co_linetable from 3.11 on:
 * Objects/locations.md, later InternalDocs/code_objects.md). Columns and last lines are not
 * read. */
#include "symbolize/cpython_frames.h"

#include <stdbool.h>

#define MINOR(hex) ((hex) >> 16 & 0xff)

/* A damaged table may lead below line 1 or out of what a line number holds. */
static uint32_t line_or(int64_t line, uint32_t first_line)
{
	return line >= 1 && line <= INT32_MAX ? line : first_line;
}

/* A pair says how many bytes further the next line begins. */
static uint32_t lnotab_line(const uint8_t *table, size_t len, uint32_t first_line, uint32_t offset)
{
	int64_t line = first_line;
	uint64_t at = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		at += table[i];
		if (at > offset)
			break;
		line += (int8_t)table[i + 1];
	}
	return line_or(line, first_line);
}

/* A pair says how many bytes are on the line so far moved; a move of -128 is none. */
static uint32_t range_line(const uint8_t *table, size_t len, uint32_t first_line, uint32_t offset)
{
	int64_t line = first_line;
	uint64_t end = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		int8_t move = table[i + 1];

		end += table[i];
		if (move != INT8_MIN)
			line += move;
		if (offset < end)
			return move == INT8_MIN ? first_line : line_or(line, first_line);
	}
	return first_line;
}

/* Six bits a byte, the lowest first; bit 6: more follow. Bit 0 of the number is its sign. */
static int64_t read_svarint(const uint8_t *table, size_t len, size_t i)
{
	uint32_t shift = 0;
	uint64_t v = 0;

	for (bool more = true; more && i < len && shift < 36; i++, shift += 6) {
		v |= (uint64_t)(table[i] & 0x3f) << shift;
		more = table[i] & 0x40;
	}
	return v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
}

enum location { /* bits 3 to 6 of an entry's first byte; below 10: same line, short columns */
		LOCATION_ONE_LINE_0 = 10,
		LOCATION_ONE_LINE_2 = 12,
		LOCATION_NO_COLUMNS = 13,
		LOCATION_LONG = 14,
		LOCATION_NONE = 15,
};

static int64_t entry_move(const uint8_t *table, size_t len, size_t i)
{
	uint8_t code = table[i] >> 3 & 15;

	if (code >= LOCATION_ONE_LINE_0 && code <= LOCATION_ONE_LINE_2)
		return code - LOCATION_ONE_LINE_0;
	if (code == LOCATION_NO_COLUMNS || code == LOCATION_LONG)
		return read_svarint(table, len, i + 1);
	return 0;
}

static uint32_t location_line(const uint8_t *table, size_t len, uint32_t first_line,
			      uint32_t offset)
{
	int64_t line = first_line;
	uint64_t end = 0;

	for (size_t i = 0; i < len; i++) {
		if (!(table[i] & 0x80)) /* the rest of an entry */
			continue;
		line += entry_move(table, len, i);
		end += 2 * ((table[i] & 7) + 1);
		if (offset < end)
			return (table[i] >> 3 & 15) == LOCATION_NONE ? first_line
								     : line_or(line, first_line);
	}
	return first_line;
}

uint32_t cpython_line_at(uint32_t version_hex, const uint8_t *table, size_t len,
			 uint32_t first_line, uint32_t offset)
{
	if (MINOR(version_hex) <= 9)
		return lnotab_line(table, len, first_line, offset);
	if (MINOR(version_hex) == 10)
		return range_line(table, len, first_line, offset);
	return location_line(table, len, first_line, offset);
}
