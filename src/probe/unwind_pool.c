/* unwind_pool.c - room for words: first fit in what was given back, else another segment. */
#include "probe/unwind_pool.h"

#include "probe/inner_maps.h"

#include <bpf/bpf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEGMENT_BYTES  (UNWIND_SEGMENT_WORDS * sizeof(uint32_t))
#define SEGMENTS_LIMIT 160 /* 160 MiB */

void unwind_pool_init(struct unwind_pool *p, int map)
{
	*p = (struct unwind_pool){.map = map};
}

void unwind_pool_free(struct unwind_pool *p)
{
	for (uint32_t i = 0; i < p->nsegments; i++)
		munmap(p->segments[i], SEGMENT_BYTES);
	vec_free(&p->free);
	*p = (struct unwind_pool){0};
}

static uint32_t rounded(uint32_t len)
{
	return (len + UNWIND_RULE_WORDS - 1) & ~(uint32_t)(UNWIND_RULE_WORDS - 1);
}

static void add_range(struct unwind_pool *p, struct pool_range r)
{
	size_t i = 0;
	while (i < p->free.len && p->free.data[i].at < r.at)
		i++;
	*vec_push(&p->free) = r;
	memmove(&p->free.data[i + 1], &p->free.data[i],
		(p->free.len - 1 - i) * sizeof(p->free.data[0]));
	p->free.data[i] = r;
	if (i + 1 < p->free.len && r.at + r.len == p->free.data[i + 1].at) {
		p->free.data[i].len += p->free.data[i + 1].len;
		memmove(&p->free.data[i + 1], &p->free.data[i + 2],
			(p->free.len - i - 2) * sizeof(p->free.data[0]));
		p->free.len--;
	}
	if (i && p->free.data[i - 1].at + p->free.data[i - 1].len == p->free.data[i].at) {
		p->free.data[i - 1].len += p->free.data[i].len;
		memmove(&p->free.data[i], &p->free.data[i + 1],
			(p->free.len - i - 1) * sizeof(p->free.data[0]));
		p->free.len--;
	}
}

/* Its descriptor, or -1. */
static int make_segment(struct unwind_pool *p, uint32_t index)
{
	DECLARE_LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind_words", 4, sizeof(struct unwind_words),
				UNWIND_SEGMENT_WORDS / UNWIND_WORDS, &opts);
	if (fd < 0)
		return -1;
	void *words = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (words == MAP_FAILED) {
		close(fd);
		return -1;
	}
	madvise(words, SEGMENT_BYTES, MADV_DONTFORK); /* the guard would keep it */
	p->segments[index] = words;
	return fd;
}

bool unwind_pool_reserve(struct unwind_pool *p, uint32_t segments)
{
	int fds[SEGMENTS_LIMIT];
	uint32_t n = 0, first = p->nsegments;
	while (n < segments && first + n < SEGMENTS_LIMIT &&
	       (fds[n] = make_segment(p, first + n)) >= 0)
		n++;
	bool installed = n && !inner_maps_install(p->map, first, fds, n);
	for (uint32_t i = 0; i < n; i++) {
		close(fds[i]); /* the array and the mapping keep it */
		if (!installed)
			munmap(p->segments[first + i], SEGMENT_BYTES);
	}
	if (!installed)
		return false;
	p->nsegments += n;
	add_range(p, (struct pool_range){first * UNWIND_SEGMENT_WORDS, n * UNWIND_SEGMENT_WORDS});
	return true;
}

static bool take_range(struct unwind_pool *p, uint32_t len, uint32_t *ret_at)
{
	for (size_t i = 0; i < p->free.len; i++) {
		struct pool_range *r = &p->free.data[i];
		if (r->len < len)
			continue;
		*ret_at = r->at;
		r->at += len;
		r->len -= len;
		if (!r->len) {
			memmove(r, r + 1, (p->free.len - i - 1) * sizeof(*r));
			p->free.len--;
		}
		return true;
	}
	return false;
}

/* What is missing, and room for others: the kernel is waited for at each time. */
static uint32_t wanted_segments(const struct unwind_pool *p, uint32_t len)
{
	uint32_t missing = (len + UNWIND_SEGMENT_WORDS - 1) / UNWIND_SEGMENT_WORDS;
	uint32_t ahead = p->spares ? 0 : p->nsegments / 2;
	return missing > ahead ? missing : ahead;
}

bool unwind_pool_take(struct unwind_pool *p, uint32_t len, uint32_t *ret_at)
{
	uint32_t need = rounded(len);
	if (len > SEGMENTS_LIMIT * UNWIND_SEGMENT_WORDS)
		return false;
	while (!take_range(p, need, ret_at)) {
		if (!unwind_pool_reserve(p, wanted_segments(p, need)))
			return false;
	}
	p->used_words += need;
	return true;
}

void unwind_pool_write(struct unwind_pool *p, uint32_t at, const uint32_t *words, uint32_t len)
{
	while (len) {
		uint32_t *segment = p->segments[at / UNWIND_SEGMENT_WORDS];
		uint32_t from = at % UNWIND_SEGMENT_WORDS;
		uint32_t n = UNWIND_SEGMENT_WORDS - from < len ? UNWIND_SEGMENT_WORDS - from : len;
		memcpy(segment + from, words, n * sizeof(*words));
		words += n;
		at += n;
		len -= n;
	}
}

bool unwind_pool_put(struct unwind_pool *p, const uint32_t *words, uint32_t len, uint32_t *ret_at)
{
	if (!unwind_pool_take(p, len, ret_at))
		return false;
	unwind_pool_write(p, *ret_at, words, len);
	return true;
}

static uint32_t *word_of(const struct unwind_pool *p, uint32_t at)
{
	return p->segments[at / UNWIND_SEGMENT_WORDS] + at % UNWIND_SEGMENT_WORDS;
}

void unwind_pool_tell(struct unwind_pool *p, uint32_t at, uint32_t word)
{
	__atomic_store_n(word_of(p, at), word, __ATOMIC_RELEASE);
}

uint32_t unwind_pool_word(const struct unwind_pool *p, uint32_t at)
{
	return *word_of(p, at);
}

void unwind_pool_give(struct unwind_pool *p, uint32_t at, uint32_t len)
{
	add_range(p, (struct pool_range){at, rounded(len)});
	p->used_words -= rounded(len);
}
