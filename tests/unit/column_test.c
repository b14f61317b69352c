/* column_test.c - every column encoding there and back, and what malformed columns do.
 *
 * links: base recording */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "recording/column.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const uint64_t edges[] = {
	0,
	1,
	63,
	64,
	127,
	128,
	16383,
	16384,
	2097151,
	2097152,
	268435455,
	268435456,
	1ULL << 35,
	1ULL << 42,
	1ULL << 49,
	1ULL << 56,
	1ULL << 62,
	1ULL << 63,
	UINT64_MAX - 1,
	UINT64_MAX,
	0,
	UINT64_MAX,
	5,
	5,
	5,
};

static struct column only_column(const struct buf *b)
{
	struct columns cols;
	assert_int_equal(columns_parse(b->data, b->len, &cols), 0);
	assert_int_equal(cols.len, 1);
	return cols.items[0];
}

static void check_round_trip(enum field_type type, enum column_encoding enc, const uint64_t *values,
			     size_t n)
{
	struct buf b = {0};
	column_put(&b, "c", type, enc, values, n);
	struct column c = only_column(&b);
	assert_int_equal(c.encoding, enc);
	assert_int_equal(c.values, n);
	uint64_t *got = xcalloc(n, sizeof(*got));
	assert_int_equal(column_decode(&c, got, sizeof(*got), 8), 0);
	assert_memory_equal(got, values, n * sizeof(*got));
	free(got);
	buf_free(&b);
}

static void test_round_trips(void **state)
{
	(void)state;
	check_round_trip(FIELD_U64, ENC_VARINT, edges, COUNT(edges));
	check_round_trip(FIELD_U64, ENC_DELTA, edges, COUNT(edges));
	check_round_trip(FIELD_U64, ENC_FIXED, edges, COUNT(edges));
	uint64_t same[3] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
	check_round_trip(FIELD_U64, ENC_CONST, same, 3);
	uint64_t bytes[300];
	for (size_t i = 0; i < COUNT(bytes); i++)
		bytes[i] = i & 0xff;
	check_round_trip(FIELD_U8, ENC_FIXED, bytes, COUNT(bytes));
	check_round_trip(FIELD_U32, ENC_FIXED, bytes, COUNT(bytes));
}

static void test_constant_columns(void **state)
{
	(void)state;
	struct buf b = {0};
	uint64_t zeros[4] = {0};
	uint64_t sevens[4] = {7, 7, 7, 7};
	column_put(&b, "zeros", FIELD_U32, ENC_VARINT, zeros, 4);
	assert_int_equal(b.len, 0);
	column_put(&b, "sevens", FIELD_U32, ENC_VARINT, sevens, 4);
	struct column c = only_column(&b);
	assert_int_equal(c.encoding, ENC_CONST);
	assert_int_equal(c.bytes, 1);
	buf_free(&b);
}

/* Narrow fields inside a larger struct: neighbours stay as they were. */
static void test_strided(void **state)
{
	(void)state;
	struct row {
		uint8_t before, value, after;
		uint32_t wide;
		uint32_t guard;
	} rows[COUNT(edges)];
	struct buf b = {0};
	column_put(&b, "c", FIELD_U64, ENC_DELTA, edges, COUNT(edges));
	struct column c = only_column(&b);
	memset(rows, 0xee, sizeof(rows));
	assert_int_equal(column_decode(&c, &rows[0].value, sizeof(rows[0]), 1), 0);
	assert_int_equal(column_decode(&c, &rows[0].wide, sizeof(rows[0]), 4), 0);
	for (size_t i = 0; i < COUNT(edges); i++) {
		assert_int_equal(rows[i].value, (uint8_t)edges[i]);
		assert_int_equal(rows[i].wide, (uint32_t)edges[i]);
		assert_int_equal(rows[i].before, 0xee);
		assert_int_equal(rows[i].after, 0xee);
		assert_int_equal(rows[i].guard, 0xeeeeeeee);
	}
	assert_int_equal(column_decode(&c, rows, sizeof(rows[0]), 2), -EBADMSG);
	buf_free(&b);
}

static void test_segments(void **state)
{
	(void)state;
	static const uint64_t small[] = {1, 100, 2, 90, 3};
	static const uint64_t pointers[] = {0x7f0000001000, 0x7f0000001200, 0x7f0000001100};
	static const uint64_t noise[] = {0x9e3779b97f4a7c15, 0x1234567890abcdef, UINT64_MAX - 5};
	struct buf b = {0};
	struct segments s;
	segments_begin(&s, &b, "c", FIELD_U64);
	segments_put(&s, small, COUNT(small));
	segments_put(&s, NULL, 0);
	segments_put(&s, pointers, COUNT(pointers));
	segments_put(&s, noise, COUNT(noise));
	segments_put_same(&s, 9, 1000);
	segments_put(&s, edges, COUNT(edges));
	segments_end(&s);
	struct column c = only_column(&b);
	size_t n = COUNT(small) + COUNT(pointers) + COUNT(noise) + 1000 + COUNT(edges);
	assert_int_equal(c.values, n);
	uint64_t *got = xcalloc(n, sizeof(*got));
	assert_int_equal(column_decode(&c, got, sizeof(*got), 8), 0);
	const uint64_t *p = got;
	assert_memory_equal(p, small, sizeof(small));
	p += COUNT(small);
	assert_memory_equal(p, pointers, sizeof(pointers));
	p += COUNT(pointers);
	assert_memory_equal(p, noise, sizeof(noise));
	p += COUNT(noise);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(*p++, 9);
	assert_memory_equal(p, edges, sizeof(edges));
	free(got);
	buf_free(&b);
}

static void test_segments_choose(void **state)
{
	(void)state;
	uint64_t pointers[256];
	for (size_t i = 0; i < COUNT(pointers); i++)
		pointers[i] = 0x7f0000000000 + i * 8;
	struct buf b = {0};
	struct segments s;
	segments_begin(&s, &b, "c", FIELD_U64);
	segments_put(&s, pointers, COUNT(pointers));
	segments_end(&s);
	/* one byte each but the first, and the run's head */
	assert_in_range(only_column(&b).bytes, 256, 256 + 12);
	b.len = 0;
	segments_begin(&s, &b, "c", FIELD_U64);
	segments_put_same(&s, 0, 1000);
	segments_end(&s);
	assert_int_equal(b.len, 0);
	buf_free(&b);
}

static void test_find(void **state)
{
	(void)state;
	struct buf b = {0};
	struct columns cols;
	static const uint64_t v[2] = {1, 2};
	column_put(&b, "name", FIELD_U32, ENC_VARINT, v, 2);
	column_put_bytes(&b, "bytes", "xyz", 3);
	column_put_bytes(&b, "none", "", 0);
	assert_int_equal(columns_parse(b.data, b.len, &cols), 0);
	assert_int_equal(cols.len, 2);
	assert_non_null(columns_find(&cols, "name"));
	assert_null(columns_find(&cols, "nam"));
	assert_null(columns_find(&cols, "none"));
	const struct column *c = columns_find(&cols, "bytes");
	assert_int_equal(c->bytes, 3);
	assert_memory_equal(c->data, "xyz", 3);
	buf_free(&b);
}

/* Cut anywhere, a payload is refused or ends at a column; a column cut is always refused. */
static void test_cut(void **state)
{
	(void)state;
	static const enum column_encoding encodings[] = {ENC_VARINT, ENC_DELTA, ENC_FIXED};
	uint64_t got[COUNT(edges)];
	for (size_t e = 0; e < COUNT(encodings); e++) {
		struct buf b = {0};
		column_put(&b, "c", FIELD_U64, encodings[e], edges, COUNT(edges));
		for (size_t n = 1; n < b.len; n++) {
			/* a copy of that size, for the address sanitizer */
			uint8_t *copy = memcpy(xrealloc(NULL, n, 1), b.data, n);
			struct columns cols;
			assert_int_equal(columns_parse(copy, n, &cols), -EBADMSG);
			free(copy);
		}
		struct column c = only_column(&b);
		for (uint32_t n = 0; n < c.bytes; n++) {
			struct column cut = c;
			uint8_t *copy = memcpy(xrealloc(NULL, n, 1), c.data, n);
			cut.data = copy;
			cut.bytes = n;
			assert_int_equal(column_decode(&cut, got, sizeof(got[0]), 8), -EBADMSG);
			free(copy);
		}
		c.values--; /* bytes are left over */
		assert_int_equal(column_decode(&c, got, sizeof(got[0]), 8), -EBADMSG);
		buf_free(&b);
	}
}

static int decode_raw(uint8_t type, uint8_t encoding, uint32_t values, const char *data, size_t n)
{
	uint64_t got[16];
	struct column c = {.type = type,
			   .encoding = encoding,
			   .values = values,
			   .bytes = (uint32_t)n,
			   .data = (const uint8_t *)data};
	return column_decode(&c, got, sizeof(got[0]), 8);
}
#define DECODE(type, enc, values, data) decode_raw(type, enc, values, data, sizeof(data) - 1)

static void test_malformed(void **state)
{
	(void)state;
	assert_int_equal(
		DECODE(FIELD_U64, ENC_VARINT, 1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 0);
	/* 65 bits, then eleven bytes */
	assert_int_equal(
		DECODE(FIELD_U64, ENC_VARINT, 1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),
		-EBADMSG);
	assert_int_equal(
		DECODE(FIELD_U64, ENC_VARINT, 1, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
		-EBADMSG);
	/* runs: empty, longer than the column, right, cut */
	assert_int_equal(DECODE(FIELD_U64, ENC_SEGMENTS, 3, "\x00\x05"), -EBADMSG);
	assert_int_equal(DECODE(FIELD_U64, ENC_SEGMENTS, 3, "\x10\x05"), -EBADMSG);
	assert_int_equal(DECODE(FIELD_U64, ENC_SEGMENTS, 3, "\x0c\x05"), 0);
	assert_int_equal(DECODE(FIELD_U64, ENC_SEGMENTS, 3, "\x08\x05"), -EBADMSG);
	assert_int_equal(DECODE(FIELD_U64, ENC_SEGMENTS, 2, "\x0b\x01\x02\x03\x04\x05\x06\x07\x08"),
			 -EBADMSG);
	/* unknown encoding and type; signed types have no fixed form */
	assert_int_equal(DECODE(FIELD_U64, 99, 1, "\x01"), -EBADMSG);
	assert_int_equal(DECODE(77, ENC_FIXED, 1, "\x01"), -EBADMSG);
	assert_int_equal(DECODE(FIELD_I8, ENC_FIXED, 1, "\x01"), -EBADMSG);
	assert_int_equal(DECODE(FIELD_U8, ENC_FIXED, 1, "\x01"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trips),
		cmocka_unit_test(test_constant_columns),
		cmocka_unit_test(test_strided),
		cmocka_unit_test(test_segments),
		cmocka_unit_test(test_segments_choose),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_malformed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
