/* unwind_rules.c - rules lie before the list of pages, since they are aligned; rows that are there
 * from the beginning behind it, others wherever there is room. */
#include "probe/unwind_rules.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/buffer.h"

#define PAGE_ROWS_MAX (1u << UNWIND_PAGE_SHIFT) /* one at each address */

static uint32_t page_entry(const struct unwind_rules *r, uint32_t page)
{
	return r->ref.pages_at + page * UNWIND_PAGE_WORDS;
}

static void write_pages(struct unwind_pool *p, const struct unwind_rules *r,
			const struct unwind_table *t, uint32_t rows_at)
{
	const struct unwind_table_head *h = (const void *)t->words;
	const uint32_t *first = t->words + h->pages_at;
	for (uint32_t i = 0; i < h->npages; i++) {
		uint32_t n = first[i + 1] - first[i];
		uint32_t at = n && r->fd >= 0 ? UNWIND_PAGE_ABSENT : rows_at + first[i];
		uint32_t entry[UNWIND_PAGE_WORDS] = {at, n};
		unwind_pool_write(p, page_entry(r, i), entry, UNWIND_PAGE_WORDS);
	}
}

struct unwind_rules *unwind_rules_put(struct unwind_pool *p, const struct unwind_table *t, int fd)
{
	const struct unwind_table_head *h = (const void *)t->words;
	uint32_t rules = h->nrules * UNWIND_RULE_WORDS, pages = h->npages * UNWIND_PAGE_WORDS;
	uint32_t words = rules + pages + (fd < 0 ? h->nrows : 0), at;
	if (!unwind_pool_take(p, words, &at))
		return NULL;
	struct unwind_rules *r = xcalloc(1, sizeof(*r));
	*r = (struct unwind_rules){.at = at,
				   .words = words,
				   .ref = {.text_start = h->text_start,
					   .npages = h->npages,
					   .pages_at = at + rules,
					   .rules_at = at,
					   .nrules = h->nrules},
				   .fd = fd,
				   .pages_at = h->pages_at,
				   .rows_at = h->rows_at};
	unwind_pool_write(p, at, t->words + h->rules_at, rules);
	write_pages(p, r, t, at + rules + pages);
	if (fd < 0)
		unwind_pool_write(p, at + rules + pages, t->words + h->rows_at, h->nrows);
	return r;
}

static void give_pages(struct unwind_pool *p, const struct unwind_rules *r)
{
	for (uint32_t i = 0; i < r->ref.npages; i++) {
		uint32_t at = unwind_pool_word(p, page_entry(r, i));
		uint32_t n = unwind_pool_word(p, page_entry(r, i) + 1);
		if (n && at != UNWIND_PAGE_ABSENT)
			unwind_pool_give(p, at, n);
	}
}

void unwind_rules_give(struct unwind_pool *p, struct unwind_rules *r)
{
	if (r->fd >= 0) {
		give_pages(p, r);
		close(r->fd);
	}
	unwind_pool_give(p, r->at, r->words);
	free(r);
}

bool unwind_rules_lack(const struct unwind_pool *p, const struct unwind_rules *r, uint32_t page)
{
	return page < r->ref.npages &&
	       unwind_pool_word(p, page_entry(r, page)) == UNWIND_PAGE_ABSENT;
}

static bool read_words(const struct unwind_rules *r, uint64_t from, uint32_t *to, uint32_t n)
{
	size_t bytes = n * sizeof(*to);
	return pread(r->fd, to, bytes, (off_t)(from * sizeof(*to))) == (ssize_t)bytes;
}

static bool read_rows(const struct unwind_rules *r, uint32_t page, uint32_t *rows, uint32_t n)
{
	uint32_t first[2];
	return n <= PAGE_ROWS_MAX && read_words(r, (uint64_t)r->pages_at + page, first, 2) &&
	       first[1] - first[0] == n && read_words(r, (uint64_t)r->rows_at + first[0], rows, n);
}

static void tell_page(struct unwind_pool *p, const struct unwind_rules *r, uint32_t page,
		      uint32_t at, uint32_t n)
{
	unwind_pool_tell(p, page_entry(r, page) + 1, n);
	unwind_pool_tell(p, page_entry(r, page), at);
}

bool unwind_rules_load(struct unwind_pool *p, struct unwind_rules *r, uint32_t page)
{
	uint32_t n = unwind_pool_word(p, page_entry(r, page) + 1), at = 0;
	uint32_t *rows = xcalloc(n, sizeof(*rows));
	bool there = read_rows(r, page, rows, n), fits = !there || unwind_pool_put(p, rows, n, &at);
	free(rows);
	if (fits)
		tell_page(p, r, page, at, there ? n : 0);
	return fits;
}
