/* schema.c - the loops that write and read rows of any kind, column by column. */
#include "recording/schema.h"

#include <errno.h>

#include "recording/column.h"
#include "recording/format.h"

#define FIELD(strct, member, column, as, how)                                                      \
	{                                                                                          \
		.name = (column), .offset = offsetof(struct strct, member), .count = 1,            \
		.type = FIELD_##as, .coding = CODING_##how                                         \
	}

static const struct row_field string_fields[] = {
	FIELD(string_row, number, "number", U32, DELTA),
	FIELD(string_row, len, "length", U32, VARINT),
};

static const struct row_field end_fields[] = {
	FIELD(end_row, calls, "calls", U64, VARINT),
	FIELD(end_row, calls_dropped, "calls_dropped", U64, VARINT),
	FIELD(end_row, counters, "counters", U64, VARINT),
	FIELD(end_row, monotonic_ns, "monotonic_ns", U64, VARINT),
};

#define KIND(row, list, most)                                                                      \
	{                                                                                          \
		.row_bytes = sizeof(struct row), .most_rows = (most), .fields = (list),            \
		.nfields = sizeof(list) / sizeof(*(list))                                          \
	}
static const struct row_kind_info string_kind = KIND(string_row, string_fields, 0);
static const struct row_kind_info end_kind = KIND(end_row, end_fields, 1);

const struct row_kind_info *schema_of(uint8_t block_type)
{
	const struct row_kind_info *k = block_type == BLOCK_STRINGS ? &string_kind
					: block_type == BLOCK_END   ? &end_kind
								    : row_kind_info(block_type);
	return block_type == ROW_CALL ? NULL : k; /* calls.h */
}

uint32_t schema_most_rows(const struct row_kind_info *k)
{
	return k->most_rows ? k->most_rows : REC_MAX_ROWS;
}

void rows_encode(struct buf *payload, const struct row_kind_info *k, const void *rows,
		 const uint32_t *numbers, size_t n)
{
	uint64_t *values = NULL;
	if (numbers) {
		values = xrealloc(values, n, sizeof(*values));
		for (size_t i = 0; i < n; i++)
			values[i] = numbers[i];
		column_put(payload, "index", FIELD_U32, ENC_DELTA, values, n);
	}
	for (size_t f = 0; f < k->nfields; f++) {
		const struct row_field *field = &k->fields[f];
		values = xrealloc(values, n * field->count, sizeof(*values));
		uint64_t *to = values;
		for (size_t i = 0; i < n; i++)
			for (size_t v = 0; v < field->count; v++)
				*to++ = row_value(field, (const uint8_t *)rows + i * k->row_bytes,
						  v);
		column_put(payload, field->name, field->type, (enum column_encoding)field->coding,
			   values, n * field->count);
	}
	free(values);
}

/* A list of k values a row in the file: a later version may have made k larger, an earlier
 * one smaller. */
static int decode_list(const struct row_field *field, const struct column *c, uint8_t *rows,
		       size_t row_bytes, size_t n)
{
	size_t file_count = c->values / n;
	if (c->values % n || file_count > 4096 || c->values > (uint64_t)REC_MAX_HIST_ROWS * 4096)
		return -EBADMSG;
	uint64_t *values = xrealloc(NULL, c->values, sizeof(*values));
	int rc = column_decode(c, values, sizeof(*values), sizeof(*values));
	size_t count = file_count < field->count ? file_count : field->count;
	for (size_t i = 0; !rc && i < n; i++)
		for (size_t k = 0; k < count; k++)
			row_set_value(field, rows + i * row_bytes, k, values[i * file_count + k]);
	free(values);
	return rc;
}

static int decode_field(const struct row_field *field, const struct columns *cols, uint8_t *rows,
			size_t row_bytes, size_t n)
{
	const struct column *c = columns_find(cols, field->name);
	if (!c)
		return 0;
	if (field->count > 1)
		return decode_list(field, c, rows, row_bytes, n);
	if (c->values != n)
		return -EBADMSG;
	return column_decode(c, rows + field->offset, row_bytes, field_type_width(field->type));
}

static int decode_numbers(const struct columns *cols, size_t n, uint32_t **ret)
{
	const struct row_field index = {.name = "index", .count = 1, .type = FIELD_U32};
	uint32_t *numbers = xcalloc(n, sizeof(*numbers));
	int rc = decode_field(&index, cols, (uint8_t *)numbers, sizeof(*numbers), n);
	if (rc)
		free(numbers);
	else
		*ret = numbers;
	return rc;
}

int rows_decode(const struct row_kind_info *k, const uint8_t *payload, size_t len, size_t n,
		void **ret_rows, uint32_t **ret_numbers)
{
	struct columns cols;
	int rc = columns_parse(payload, len, &cols);
	if (rc || !n || n > schema_most_rows(k))
		return -EBADMSG;
	uint8_t *rows = xcalloc(n, k->row_bytes);
	for (size_t f = 0; !rc && f < k->nfields; f++)
		rc = decode_field(&k->fields[f], &cols, rows, k->row_bytes, n);
	if (!rc && k->keeping == ROWS_INDEXED)
		rc = decode_numbers(&cols, n, ret_numbers);
	if (rc)
		free(rows);
	else
		*ret_rows = rows;
	return rc;
}
