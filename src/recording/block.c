/* block.c - file and block headers, checksums, compression. Layout: format.h.
 *
 * Works on memory only; files are the business of writer.c and scan.c. */
#include "recording/format.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#include "events/unpacker.h"

static void put_u16(uint8_t *p, uint16_t v)
{
	v = htole16(v);
	memcpy(p, &v, sizeof(v));
}

static void put_u32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static void put_u64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static uint16_t get_u16(const uint8_t *p)
{
	uint16_t v;
	memcpy(&v, p, sizeof(v));
	return le16toh(v);
}

static uint32_t get_u32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint64_t get_u64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

const char *block_type_name(uint8_t type)
{
	const struct row_kind_info *kind = row_kind_info(type);
	if (kind)
		return kind->name;
	return type == BLOCK_STRINGS ? "strings" : type == BLOCK_END ? "end" : "unknown";
}

uint32_t block_crc(const void *p, size_t n)
{
	return (uint32_t)crc32_z(crc32_z(0, NULL, 0), p, n);
}

void file_header_encode(uint8_t out[REC_FILE_HEADER_BYTES], uint64_t realtime_ns,
			uint64_t monotonic_ns)
{
	memset(out, 0, REC_FILE_HEADER_BYTES);
	/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): bytes, not a string */
	memcpy(out, REC_MAGIC, REC_MAGIC_BYTES);
	put_u16(out + 8, REC_MAJOR);
	put_u16(out + 10, REC_MINOR);
	put_u32(out + 12, REC_BYTE_ORDER);
	put_u64(out + 16, realtime_ns);
	put_u64(out + 24, monotonic_ns);
	put_u32(out + 60, block_crc(out, 60));
}

int file_header_check(const uint8_t *in, size_t n, const char *path, bool *ret_intact,
		      struct err *e)
{
	size_t have = n < REC_MAGIC_BYTES ? n : REC_MAGIC_BYTES;
	if (!n)
		return err_set(e, ENODATA, "'%s' is empty", path);
	if (memcmp(in, REC_MAGIC, have))
		return err_set(e, EINVAL, "'%s' is not an eACGM recording", path);
	if (n < REC_FILE_HEADER_BYTES)
		return err_set(e, EBADMSG,
			       "'%s' was cut off after %zu bytes, before anything was recorded",
			       path, n);
	if (get_u16(in + 8) > REC_MAJOR)
		return err_set(
			e, EPROTONOSUPPORT,
			"'%s' was made by a newer eACGM (format %u; this one reads up to %u)", path,
			get_u16(in + 8), REC_MAJOR);
	*ret_intact = get_u32(in + 60) == block_crc(in, 60) && get_u32(in + 12) == REC_BYTE_ORDER &&
		      get_u16(in + 8) > 0;
	return 0;
}

void block_header_encode(uint8_t out[REC_BLOCK_HEADER_BYTES], const struct block_header *h)
{
	put_u32(out, REC_BLOCK_MAGIC);
	out[4] = h->type;
	out[5] = h->flags;
	put_u16(out + 6, 0);
	put_u32(out + 8, h->rows);
	put_u32(out + 12, h->raw_bytes);
	put_u32(out + 16, h->stored_bytes);
	put_u32(out + 20, h->payload_crc);
	put_u64(out + 24, h->first_ns);
	put_u64(out + 32, h->last_ns);
	put_u32(out + 40, h->sequence);
	put_u32(out + 44, block_crc(out, 44));
}

bool block_header_decode(const uint8_t in[REC_BLOCK_HEADER_BYTES], struct block_header *ret)
{
	if (get_u32(in) != REC_BLOCK_MAGIC || get_u32(in + 44) != block_crc(in, 44))
		return false;
	struct block_header h = {
		.type = in[4],
		.flags = in[5],
		.rows = get_u32(in + 8),
		.raw_bytes = get_u32(in + 12),
		.stored_bytes = get_u32(in + 16),
		.payload_crc = get_u32(in + 20),
		.first_ns = get_u64(in + 24),
		.last_ns = get_u64(in + 32),
		.sequence = get_u32(in + 40),
	};
	if (h.rows > REC_MAX_ROWS || h.raw_bytes > REC_MAX_RAW_BYTES || h.flags & ~REC_BLOCK_ZSTD)
		return false;
	if (h.flags & REC_BLOCK_ZSTD ? h.stored_bytes > ZSTD_compressBound(h.raw_bytes)
				     : h.stored_bytes != h.raw_bytes)
		return false;
	*ret = h;
	return true;
}

int block_pack(struct buf *out, struct block_header *h, const struct buf *raw, void *cctx,
	       struct err *e)
{
	if (raw->len > REC_MAX_RAW_BYTES)
		return err_set(e, EFBIG, "a block of %zu bytes is too large", raw->len);
	size_t bound = ZSTD_compressBound(raw->len);
	buf_reserve(out, REC_BLOCK_HEADER_BYTES + bound);
	uint8_t *payload = out->data + out->len + REC_BLOCK_HEADER_BYTES;
	size_t n = ZSTD_compress2(cctx, payload, bound, raw->data, raw->len);
	if (ZSTD_isError(n))
		return err_set(e, EIO, "cannot compress a block: %s", ZSTD_getErrorName(n));
	h->flags = REC_BLOCK_ZSTD;
	h->raw_bytes = (uint32_t)raw->len;
	h->stored_bytes = (uint32_t)n;
	h->payload_crc = block_crc(payload, n);
	block_header_encode(out->data + out->len, h);
	out->len += REC_BLOCK_HEADER_BYTES + n;
	return 0;
}

int block_unpack(const struct block_header *h, const uint8_t *stored, struct buf *raw,
		 struct err *e)
{
	raw->len = 0;
	buf_reserve(raw, h->raw_bytes);
	if (!(h->flags & REC_BLOCK_ZSTD)) {
		buf_add(raw, stored, h->stored_bytes);
		return 0;
	}
	ZSTD_DCtx *d = unpacker();
	if (!d)
		return err_set(e, ENOMEM, "cannot decompress a %s block: out of memory",
			       block_type_name(h->type));
	size_t n = ZSTD_decompressDCtx(d, raw->data, h->raw_bytes, stored, h->stored_bytes);
	if (ZSTD_isError(n) || n != h->raw_bytes)
		return err_set(e, EBADMSG, "cannot decompress a %s block: %s",
			       block_type_name(h->type),
			       ZSTD_isError(n) ? ZSTD_getErrorName(n) : "it is too short");
	raw->len = n;
	return 0;
}
