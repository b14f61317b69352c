/* column.h - encode and decode one column of a block. The encodings: format.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "events/kinds.h"

enum column_encoding {
	ENC_CONST = 0,
	ENC_VARINT = CODING_VARINT,
	ENC_DELTA = CODING_DELTA,
	ENC_FIXED = CODING_FIXED,
	ENC_SEGMENTS = 4,
};

/* ---- encoding ---- */

/* Appends a column of n values. Writes nothing when all are 0, CONST when all are equal. */
void column_put(struct buf *b, const char *name, enum field_type type, enum column_encoding enc,
		const uint64_t *values, size_t n);

/* Appends a column of bytes; nothing when n is 0. */
void column_put_bytes(struct buf *b, const char *name, const void *p, size_t n);

/* A SEGMENTS column, run by run; each run is put in its shortest mode. */
struct segments {
	struct buf *b;
	size_t start;	   /* of the column in b */
	size_t data_start; /* of its bytes */
	uint64_t previous;
	size_t values;
	uint64_t any; /* all values or-ed */
};
void segments_begin(struct segments *s, struct buf *b, const char *name, enum field_type type);
void segments_put(struct segments *s, const uint64_t *values, size_t n);
void segments_put_same(struct segments *s, uint64_t value, size_t n);
/* Takes the column out again when all its values were 0. */
void segments_end(struct segments *s);

/* ---- decoding: nothing here trusts its input ---- */

#define COLUMNS_MAX 96

struct column {
	const char *name; /* not NUL-terminated */
	uint8_t name_len;
	uint8_t type;
	uint8_t encoding;
	uint32_t values;
	uint32_t bytes;
	const uint8_t *data;
};

struct columns {
	struct column items[COLUMNS_MAX];
	size_t len;
};

/* Lists the columns of a payload, which must outlive *ret. 0 or -EBADMSG. */
int columns_parse(const uint8_t *payload, size_t len, struct columns *ret);

/* The column of that name, or NULL: all its values are 0. */
const struct column *columns_find(const struct columns *cols, const char *name);

/* Stores all values of a column, cut to width (1, 4 or 8) bytes, at base, base + stride...
 * The caller has checked c->values against its room. 0 or -EBADMSG. */
int column_decode(const struct column *c, void *base, size_t stride, unsigned width);
