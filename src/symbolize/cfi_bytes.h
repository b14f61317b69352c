/* cfi_bytes.h - numbers and pointers of call frame information, read byte by byte.
 *
 * Pointer encodings: Linux Standard Base 5, "DWARF Exception Header Encoding". Never reads beyond
 * the end. Internal to the files that read such sections. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { /* pointer encodings */
       PE_ABSPTR = 0x00,
       PE_UDATA2 = 0x02,
       PE_UDATA4 = 0x03,
       PE_UDATA8 = 0x04,
       PE_SDATA2 = 0x0a,
       PE_SDATA4 = 0x0b,
       PE_SDATA8 = 0x0c,
       PE_FORMAT = 0x0f,
       PE_PCREL = 0x10,
       PE_RELATION = 0x70,
       PE_INDIRECT = 0x80,
       PE_OMIT = 0xff,
};

/* What is left to read. Reading too much yields 0 and clears ok for good. */
struct bytes {
	const uint8_t *at;
	const uint8_t *end;
	bool ok;
};

/* The next n bytes, which are then behind; NULL where there are fewer. */
static inline const uint8_t *bytes_skip(struct bytes *b, uint64_t n)
{
	const uint8_t *p = b->at;

	if (!b->ok || n > (uint64_t)(b->end - b->at)) {
		b->ok = false;
		return NULL;
	}
	b->at += n;
	return p;
}

static inline uint64_t bytes_uint(struct bytes *b, size_t n)
{
	const uint8_t *p = bytes_skip(b, n);
	uint64_t v = 0;

	if (p)
		memcpy(&v, p, n);
	return v;
}

static inline uint8_t bytes_u8(struct bytes *b)
{
	if (!b->ok || b->at == b->end) {
		b->ok = false;
		return 0;
	}
	return *b->at++;
}

static inline uint64_t bytes_leb(struct bytes *b, bool is_signed)
{
	unsigned shift = 0;
	uint64_t v = 0;
	uint8_t byte;

	do {
		byte = bytes_u8(b);
		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while ((byte & 0x80) && b->ok);
	if (is_signed && (byte & 0x40) && shift < 64)
		v |= ~0ULL << shift;
	return v;
}

static inline uint64_t bytes_uleb(struct bytes *b)
{
	return bytes_leb(b, false);
}

static inline int64_t bytes_sleb(struct bytes *b)
{
	return (int64_t)bytes_leb(b, true);
}

/* A value in one of the formats of encoded pointers, what it is relative to left aside. */
static inline uint64_t bytes_formatted(struct bytes *b, uint8_t encoding)
{
	switch (encoding & PE_FORMAT) {
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		return bytes_uint(b, 8);
	case PE_UDATA4:
		return bytes_uint(b, 4);
	case PE_SDATA4:
		return (uint64_t)(int64_t)(int32_t)bytes_uint(b, 4);
	case PE_UDATA2:
		return bytes_uint(b, 2);
	case PE_SDATA2:
		return (uint64_t)(int64_t)(int16_t)bytes_uint(b, 2);
	}
	b->ok = false;
	return 0;
}

/* Absolute pointers and such relative to their own place; functions have no others. */
static inline uint64_t bytes_pointer(struct bytes *b, uint8_t encoding, uint64_t base)
{
	uint64_t here = base + (uintptr_t)b->at;
	uint64_t v;

	if ((encoding & PE_RELATION) > PE_PCREL || (encoding & PE_INDIRECT))
		b->ok = false;
	v = bytes_formatted(b, encoding);
	return (encoding & PE_RELATION) == PE_PCREL ? v + here : v;
}
