/* nccl_hash.h - the hash by which NCCL names communicators in its log ("commId") and in its
 * RAS: getHash, eatHash and digestHash of NCCL's src/include/bitops.h, versions 2.26 and
 * later. Shared by the programs that see unique ids and by what follows splits. */
#pragma once

#include <linux/types.h>

struct nccl_hash {
	__u64 a, b;
};

#define NCCL_HASH_INIT ((struct nccl_hash){1, 1})

/* A value of 1 to 8 bytes is one word; longer ones are words of 8 after nccl_hash_size. */
static inline __attribute__((always_inline)) void nccl_hash_size(struct nccl_hash *h, __u64 size)
{
	h->a ^= size;
}

static inline __attribute__((always_inline)) void nccl_hash_word(struct nccl_hash *h, __u64 word)
{
	h->a += h->b;
	h->b ^= h->a;
	h->a ^= h->a >> 31;
	h->a *= 0x9de62bbc8cef3ce3ULL;
	h->b ^= h->b >> 32;
	h->b *= 0x485cd6311b599e79ULL;
	h->a += word;
}

static inline __attribute__((always_inline)) __u64 nccl_hash_end(const struct nccl_hash *h)
{
	__u64 v = h->a;
	v ^= v >> 31;
	v *= 0xbac3bd562846de6bULL;
	v += h->b;
	v ^= v >> 32;
	return v * 0x995a187a14e7b445ULL;
}
