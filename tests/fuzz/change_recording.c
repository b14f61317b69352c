/* change_recording.c - a changed copy of a recording, for tests/fuzz/campaign.py.
 *
 * usage: change_recording SEED RECORDING OTHER OUTPUT
 *
 * One in four is changed as bytes. Of the others blocks are changed as they are once decompressed,
 * or what their headers say, or which there are; checksums and lengths are then made right, so that
 * the change gets as far as the decoders and all that comes behind them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "mutate.h"
#include "recording/format.h"

struct block {
	struct block_header h;
	struct buf raw;
};
typedef VEC(struct block) blocks_t;

static int read_file(const char *path, struct buf *ret)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		return -1;
	uint8_t part[65536];
	for (size_t n; (n = fread(part, 1, sizeof(part), f)) > 0;)
		buf_add(ret, part, n);
	return fclose(f);
}

static void take_blocks(blocks_t *ret, const struct buf *file)
{
	size_t at = REC_FILE_HEADER_BYTES;
	struct block b = {0};
	while (at + REC_BLOCK_HEADER_BYTES <= file->len &&
	       block_header_decode(file->data + at, &b.h) &&
	       b.h.stored_bytes <= file->len - at - REC_BLOCK_HEADER_BYTES) {
		b.raw = (struct buf){0};
		if (block_unpack(&b.h, file->data + at + REC_BLOCK_HEADER_BYTES, &b.raw, NULL))
			break;
		*vec_push(ret) = b;
		at += REC_BLOCK_HEADER_BYTES + b.h.stored_bytes;
	}
}

static void change_header(struct block_header *h, uint64_t *random)
{
	uint64_t value = random_next(random) >> random_next(random) % 64;
	switch (random_next(random) % 4) {
	case 0:
		h->rows = (uint32_t)(value % (REC_MAX_ROWS + 1));
		break;
	case 1:
		h->type = (uint8_t)(value % 26);
		break;
	case 2:
		h->first_ns = value;
		break;
	default:
		h->last_ns = value;
	}
}

static void put_block(struct buf *out, const struct block *b, uint32_t sequence)
{
	struct block_header h = b->h;
	h.flags = 0;
	h.raw_bytes = h.stored_bytes = (uint32_t)b->raw.len;
	h.payload_crc = block_crc(b->raw.data, b->raw.len);
	h.sequence = sequence;
	buf_reserve(out, REC_BLOCK_HEADER_BYTES);
	block_header_encode(out->data + out->len, &h);
	out->len += REC_BLOCK_HEADER_BYTES;
	buf_add(out, b->raw.data, b->raw.len);
}

/* Each block is changed with the same chance; some are left out, doubled or of the other file. */
static void change_blocks(struct buf *out, const blocks_t *own, const blocks_t *other,
			  uint64_t *random)
{
	uint32_t sequence = 0;
	struct block changed = {0};
	file_header_encode(out->data, 1, 2);
	out->len = REC_FILE_HEADER_BYTES;
	for (size_t i = 0; i < own->len; i++) {
		const struct block *b = &own->data[i];
		uint64_t what = random_next(random) % 16;
		if (!what)
			continue;
		if (what == 1 && other->len)
			b = &other->data[random_next(random) % other->len];
		changed.h = b->h;
		changed.raw.len = 0;
		if (what > 1 && what < 6)
			mutate(&changed.raw, &b->raw, &b->raw, random);
		else
			buf_add(&changed.raw, b->raw.data, b->raw.len);
		if (what == 5 || what == 6)
			change_header(&changed.h, random);
		for (int times = what == 7 ? 3 : 1; times > 0; times--)
			put_block(out, &changed, sequence++);
		sequence += random_next(random) % 64 == 0;
	}
	buf_free(&changed.raw);
}

static void blocks_free(blocks_t *b)
{
	for (size_t i = 0; i < b->len; i++)
		buf_free(&b->data[i].raw);
	vec_free(b);
}

int main(int argc, char **argv)
{
	struct buf own = {0}, other = {0}, out = {0};
	if (argc != 5 || read_file(argv[2], &own) || read_file(argv[3], &other)) {
		fprintf(stderr, "usage: change_recording SEED RECORDING OTHER OUTPUT\n");
		return 2;
	}
	uint64_t random = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15ULL;
	blocks_t blocks = {0}, others = {0};
	buf_reserve(&out, REC_FILE_HEADER_BYTES);
	if (random_next(&random) % 4) {
		take_blocks(&blocks, &own);
		take_blocks(&others, &other);
		change_blocks(&out, &blocks, &others, &random);
	} else {
		mutate(&out, &own, &other, &random);
	}
	FILE *f = fopen(argv[4], "wb");
	int bad = !f || fwrite(out.data, 1, out.len, f) != out.len;
	bad |= f && fclose(f);
	blocks_free(&blocks);
	blocks_free(&others);
	buf_free(&own);
	buf_free(&other);
	buf_free(&out);
	return bad;
}
