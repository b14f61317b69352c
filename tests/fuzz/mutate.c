/* mutate.c - bit flips, numbers that are edges, parts moved, doubled, left out or taken from
 * another input. */
#include "mutate.h"

#include <string.h>

#include "base/random.h"

#define MOST_BYTES   (256u << 10)
#define MOST_CHANGES 8

static size_t below(uint64_t *random, size_t n)
{
	return n ? (size_t)(random_next(random) % n) : 0;
}

/* A length, a count, an offset: where it is does not matter, what it is does. */
static void set_number(struct buf *b, uint64_t *random)
{
	static const uint64_t edges[] = {0,
					 1,
					 0x7f,
					 0x80,
					 0xff,
					 0x7fff,
					 0xffff,
					 0x10000,
					 0x7fffffff,
					 0x80000000,
					 0xffffffff,
					 0x7fffffffffffffff,
					 0x8000000000000000,
					 UINT64_MAX};
	size_t width = (size_t)1 << below(random, 4);
	uint64_t value = edges[below(random, sizeof(edges) / sizeof(edges[0]))];
	if (b->len >= width)
		memcpy(b->data + below(random, b->len - width + 1), &value, width);
}

/* Puts n bytes from p at a place, in place of what is there or between. */
static void put(struct buf *b, size_t at, const uint8_t *p, size_t n, int between)
{
	if (b->len + n > MOST_BYTES)
		return;
	buf_reserve(b, n);
	if (between) {
		memmove(b->data + at + n, b->data + at, b->len - at);
		b->len += n;
	} else if (at + n > b->len) {
		b->len = at + n;
	}
	memcpy(b->data + at, p, n);
}

static void copy_part(struct buf *b, const struct buf *from, uint64_t *random)
{
	if (!from->len || !b->len)
		return;
	size_t start = below(random, from->len);
	size_t n = 1 + below(random, from->len - start);
	struct buf part = {0};
	buf_add(&part, from->data + start, n);
	put(b, below(random, b->len), part.data, n, random_next(random) & 1);
	buf_free(&part);
}

static void leave_out(struct buf *b, uint64_t *random)
{
	size_t at = below(random, b->len), n = 1 + below(random, b->len - at);
	memmove(b->data + at, b->data + at + n, b->len - at - n);
	b->len -= n;
}

static void change(struct buf *b, const struct buf *other, uint64_t *random)
{
	if (!b->len)
		return;
	switch (below(random, 8)) {
	case 0:
	case 1:
		b->data[below(random, b->len)] ^= (uint8_t)(1u << below(random, 8));
		break;
	case 2:
		b->data[below(random, b->len)] = (uint8_t)random_next(random);
		break;
	case 3:
	case 4:
		set_number(b, random);
		break;
	case 5:
		copy_part(b, random_next(random) & 1 ? b : other, random);
		break;
	case 6:
		leave_out(b, random);
		break;
	default:
		b->len = 1 + below(random, b->len);
	}
}

void mutate(struct buf *to, const struct buf *seed, const struct buf *other, uint64_t *random)
{
	size_t changes = 1 + below(random, MOST_CHANGES);
	to->len = 0;
	buf_add(to, seed->data, seed->len < MOST_BYTES ? seed->len : MOST_BYTES);
	for (size_t i = 0; i < changes; i++)
		change(to, other, random);
}
