/* column.c - encodes and decodes columns. The encodings are specified in format.h.
 *
 * Does not know what columns mean. The decoding loops are made once for each width of the
 * destination, so that they hold no branch but those on the data. */
#include "recording/column.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>

#define VARINT_MAX	   10
#define COLUMN_FIXED_BYTES 10 /* type, encoding, values, bytes */

enum segment_mode { SEG_SAME = 0, SEG_VARINT = 1, SEG_DELTA = 2, SEG_FIXED = 3 };

static uint64_t zigzag(uint64_t v)
{
	return v << 1 ^ (0 - (v >> 63));
}

static uint64_t unzigzag(uint64_t v)
{
	return v >> 1 ^ (0 - (v & 1));
}

static unsigned varint_bytes(uint64_t v)
{
	return (unsigned)(70 - __builtin_clzll(v | 1)) / 7;
}

/* ---- encoding ---- */

/* p has room for VARINT_MAX bytes. */
static inline uint8_t *put_varint(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

static void add_varint(struct buf *b, uint64_t v)
{
	buf_reserve(b, VARINT_MAX);
	b->len = (size_t)(put_varint(b->data + b->len, v) - b->data);
}

static void add_varints(struct buf *b, const uint64_t *values, size_t n)
{
	buf_reserve(b, n * VARINT_MAX);
	uint8_t *p = b->data + b->len;
	for (size_t i = 0; i < n; i++)
		p = put_varint(p, values[i]);
	b->len = (size_t)(p - b->data);
}

static void add_deltas(struct buf *b, const uint64_t *values, size_t n, uint64_t previous)
{
	buf_reserve(b, n * VARINT_MAX);
	uint8_t *p = b->data + b->len;
	for (size_t i = 0; i < n; i++) {
		p = put_varint(p, zigzag(values[i] - previous));
		previous = values[i];
	}
	b->len = (size_t)(p - b->data);
}

static void add_fixed(struct buf *b, const uint64_t *values, size_t n, unsigned width)
{
	buf_reserve(b, n * width);
	uint8_t *p = b->data + b->len;
	for (size_t i = 0; i < n; i++, p += width) {
		uint64_t le = htole64(values[i]);
		memcpy(p, &le, width);
	}
	b->len += n * width;
}

/* Appends the column's head and returns where its bytes begin. */
static size_t column_begin(struct buf *b, const char *name, uint8_t type, uint8_t encoding)
{
	static const uint8_t no_counts[8] = {0};
	size_t name_len = strlen(name);
	buf_byte(b, (uint8_t)name_len);
	buf_add(b, name, name_len);
	buf_byte(b, type);
	buf_byte(b, encoding);
	buf_add(b, no_counts, sizeof(no_counts));
	return b->len;
}

static void column_end(struct buf *b, size_t data_start, size_t values)
{
	uint32_t counts[2] = {htole32((uint32_t)values), htole32((uint32_t)(b->len - data_start))};
	memcpy(b->data + data_start - sizeof(counts), counts, sizeof(counts));
}

static bool all_same(const uint64_t *values, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (values[i] != values[0])
			return false;
	return true;
}

void column_put(struct buf *b, const char *name, enum field_type type, enum column_encoding enc,
		const uint64_t *values, size_t n)
{
	if (!n)
		return;
	bool same = all_same(values, n);
	if (same && !values[0])
		return;
	size_t start = column_begin(b, name, (uint8_t)type, (uint8_t)(same ? ENC_CONST : enc));
	if (same)
		add_varint(b, values[0]);
	else if (enc == ENC_DELTA)
		add_deltas(b, values, n, 0);
	else if (enc == ENC_FIXED)
		add_fixed(b, values, n, field_type_width((uint8_t)type));
	else
		add_varints(b, values, n);
	column_end(b, start, n);
}

void column_put_bytes(struct buf *b, const char *name, const void *p, size_t n)
{
	if (!n)
		return;
	size_t start = column_begin(b, name, FIELD_BYTES, ENC_FIXED);
	buf_add(b, p, n);
	column_end(b, start, n);
}

void segments_begin(struct segments *s, struct buf *b, const char *name, enum field_type type)
{
	*s = (struct segments){.b = b, .start = b->len};
	s->data_start = column_begin(b, name, (uint8_t)type, ENC_SEGMENTS);
}

void segments_put_same(struct segments *s, uint64_t value, size_t n)
{
	if (!n)
		return;
	add_varint(s->b, (uint64_t)n << 2 | SEG_SAME);
	add_varint(s->b, value);
	s->previous = value;
	s->values += n;
	s->any |= value;
}

void segments_put(struct segments *s, const uint64_t *values, size_t n)
{
	if (!n)
		return;
	if (all_same(values, n)) {
		segments_put_same(s, values[0], n);
		return;
	}
	size_t plain_bytes = 0;
	size_t delta_bytes = 0;
	uint64_t previous = s->previous;
	for (size_t i = 0; i < n; i++) {
		plain_bytes += varint_bytes(values[i]);
		delta_bytes += varint_bytes(zigzag(values[i] - previous));
		previous = values[i];
		s->any |= values[i];
	}
	if (plain_bytes > n * 8 && delta_bytes > n * 8) {
		add_varint(s->b, (uint64_t)n << 2 | SEG_FIXED);
		add_fixed(s->b, values, n, 8);
	} else if (delta_bytes < plain_bytes) {
		add_varint(s->b, (uint64_t)n << 2 | SEG_DELTA);
		add_deltas(s->b, values, n, s->previous);
	} else {
		add_varint(s->b, (uint64_t)n << 2 | SEG_VARINT);
		add_varints(s->b, values, n);
	}
	s->previous = previous;
	s->values += n;
}

void segments_end(struct segments *s)
{
	if (!s->any)
		s->b->len = s->start;
	else
		column_end(s->b, s->data_start, s->values);
}

/* ---- decoding ---- */

struct cursor {
	const uint8_t *p;
	const uint8_t *end;
};

/* A varint that may be cut off or too long. */
static bool get_varint_slow(struct cursor *c, uint64_t *ret)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 70 && c->p < c->end; shift += 7) {
		uint8_t byte = *c->p++;
		if (shift == 63 && byte > 1)
			return false;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret = v;
			return true;
		}
	}
	return false;
}

static inline __attribute__((always_inline)) bool get_varint(struct cursor *c, uint64_t *ret)
{
	if (__builtin_expect(c->end - c->p < 4, 0))
		return get_varint_slow(c, ret);
	const uint8_t *p = c->p;
	uint64_t v = p[0];
	if (v < 0x80) {
		c->p = p + 1;
	} else if (p[1] < 0x80) {
		v = (v & 0x7f) | (uint64_t)p[1] << 7;
		c->p = p + 2;
	} else if (p[2] < 0x80) {
		v = (v & 0x7f) | (uint64_t)(p[1] & 0x7f) << 7 | (uint64_t)p[2] << 14;
		c->p = p + 3;
	} else {
		return get_varint_slow(c, ret);
	}
	*ret = v;
	return true;
}

static inline __attribute__((always_inline)) void store(uint8_t *to, uint64_t v, unsigned width)
{
	if (width == 8) {
		memcpy(to, &v, 8);
	} else if (width == 4) {
		uint32_t narrow = (uint32_t)v;
		memcpy(to, &narrow, 4);
	} else {
		*to = (uint8_t)v;
	}
}

/* The runs that columns and segments are made of. *previous is the value before the first
 * and becomes the last. Each stores n > 0 values. */
static inline __attribute__((always_inline)) void fill_same(uint8_t *to, size_t stride, size_t n,
							    uint64_t v, unsigned width)
{
	for (size_t i = 0; i < n; i++, to += stride)
		store(to, v, width);
}

static inline __attribute__((always_inline)) bool decode_varints(struct cursor *c, uint8_t *to,
								 size_t stride, size_t n,
								 uint64_t *previous, unsigned width)
{
	uint64_t v = 0;
	for (size_t i = 0; i < n; i++, to += stride) {
		if (!get_varint(c, &v))
			return false;
		store(to, v, width);
	}
	*previous = v;
	return true;
}

static inline __attribute__((always_inline)) bool decode_deltas(struct cursor *c, uint8_t *to,
								size_t stride, size_t n,
								uint64_t *previous, unsigned width)
{
	uint64_t v = *previous;
	for (size_t i = 0; i < n; i++, to += stride) {
		uint64_t delta;
		if (!get_varint(c, &delta))
			return false;
		v += unzigzag(delta);
		store(to, v, width);
	}
	*previous = v;
	return true;
}

static inline __attribute__((always_inline)) bool decode_fixed(struct cursor *c, uint8_t *to,
							       size_t stride, size_t n,
							       uint64_t *previous,
							       unsigned from_width, unsigned width)
{
	if ((size_t)(c->end - c->p) / from_width < n)
		return false;
	uint64_t v = 0;
	for (size_t i = 0; i < n; i++, to += stride, c->p += from_width) {
		uint64_t le = 0;
		memcpy(&le, c->p, from_width);
		v = le64toh(le);
		store(to, v, width);
	}
	*previous = v;
	return true;
}

static inline __attribute__((always_inline)) bool
decode_segments(struct cursor *c, uint8_t *to, size_t stride, size_t n, unsigned width)
{
	uint64_t previous = 0;
	while (n) {
		uint64_t head;
		if (!get_varint(c, &head))
			return false;
		uint64_t run = head >> 2;
		if (!run || run > n)
			return false;
		bool ok = true;
		switch (head & 3) {
		case SEG_SAME:
			ok = get_varint(c, &previous);
			if (ok)
				fill_same(to, stride, run, previous, width);
			break;
		case SEG_VARINT:
			ok = decode_varints(c, to, stride, run, &previous, width);
			break;
		case SEG_DELTA:
			ok = decode_deltas(c, to, stride, run, &previous, width);
			break;
		case SEG_FIXED:
			ok = decode_fixed(c, to, stride, run, &previous, 8, width);
			break;
		}
		if (!ok)
			return false;
		to += run * stride;
		n -= run;
	}
	return true;
}

static inline __attribute__((always_inline)) bool
decode_as(const struct column *col, struct cursor *c, uint8_t *to, size_t stride, unsigned width)
{
	uint64_t v = 0;
	switch (col->encoding) {
	case ENC_CONST:
		if (!get_varint(c, &v))
			return false;
		fill_same(to, stride, col->values, v, width);
		return true;
	case ENC_VARINT:
		return decode_varints(c, to, stride, col->values, &v, width);
	case ENC_DELTA:
		return decode_deltas(c, to, stride, col->values, &v, width);
	case ENC_FIXED:
		if (col->type == FIELD_I8 || col->type == FIELD_I32)
			return false;
		switch (field_type_width(col->type)) {
		case 1:
			return decode_fixed(c, to, stride, col->values, &v, 1, width);
		case 4:
			return decode_fixed(c, to, stride, col->values, &v, 4, width);
		case 8:
			return decode_fixed(c, to, stride, col->values, &v, 8, width);
		}
		return false;
	case ENC_SEGMENTS:
		return decode_segments(c, to, stride, col->values, width);
	}
	return false;
}

static __attribute__((noinline)) bool decode_to_1(const struct column *col, struct cursor *c,
						  uint8_t *to, size_t stride)
{
	return decode_as(col, c, to, stride, 1);
}

static __attribute__((noinline)) bool decode_to_4(const struct column *col, struct cursor *c,
						  uint8_t *to, size_t stride)
{
	return decode_as(col, c, to, stride, 4);
}

static __attribute__((noinline)) bool decode_to_8(const struct column *col, struct cursor *c,
						  uint8_t *to, size_t stride)
{
	return decode_as(col, c, to, stride, 8);
}

int column_decode(const struct column *c, void *base, size_t stride, unsigned width)
{
	struct cursor cur = {c->data, c->data + c->bytes};
	bool ok = false;
	if (width == 8)
		ok = decode_to_8(c, &cur, base, stride);
	else if (width == 4)
		ok = decode_to_4(c, &cur, base, stride);
	else if (width == 1)
		ok = decode_to_1(c, &cur, base, stride);
	return ok && cur.p == cur.end ? 0 : -EBADMSG;
}

int columns_parse(const uint8_t *payload, size_t len, struct columns *ret)
{
	ret->len = 0;
	while (len) {
		size_t name_len = payload[0];
		if (len < 1 + name_len + COLUMN_FIXED_BYTES || ret->len == COLUMNS_MAX)
			return -EBADMSG;
		const uint8_t *head = payload + 1 + name_len;
		uint32_t counts[2];
		memcpy(counts, head + 2, sizeof(counts));
		struct column c = {
			.name = (const char *)payload + 1,
			.name_len = (uint8_t)name_len,
			.type = head[0],
			.encoding = head[1],
			.values = le32toh(counts[0]),
			.bytes = le32toh(counts[1]),
			.data = head + COLUMN_FIXED_BYTES,
		};
		len -= 1 + name_len + COLUMN_FIXED_BYTES;
		if (c.bytes > len)
			return -EBADMSG;
		ret->items[ret->len++] = c;
		payload = c.data + c.bytes;
		len -= c.bytes;
	}
	return 0;
}

const struct column *columns_find(const struct columns *cols, const char *name)
{
	size_t len = strlen(name);
	for (size_t i = 0; i < cols->len; i++)
		if (cols->items[i].name_len == len && !memcmp(cols->items[i].name, name, len))
			return &cols->items[i];
	return NULL;
}
