/* unwind_table_check.c - whether words are a table: those of a cache's file come from outside. */
#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "symbolize/unwind_impl.h"

uint32_t unwind_table_crc(const uint32_t *words, size_t len)
{
	const size_t head_len = UNWIND_HEAD_WORDS - 1;
	uint32_t crc = crc32_z(0, (const uint8_t *)words, head_len * sizeof(*words));

	return crc32_z(crc, (const uint8_t *)(words + UNWIND_HEAD_WORDS),
		       (len - UNWIND_HEAD_WORDS) * sizeof(*words));
}

static struct unwind_table_head table_head(const uint32_t *words)
{
	struct unwind_table_head head;

	memcpy(&head, words, sizeof(head));
	return head;
}

/* Whether the three arrays follow each other as end_table puts them. */
static bool check_head(const struct unwind_table_head *h, size_t len)
{
	uint64_t rows_at = UNWIND_HEAD_WORDS + (uint64_t)h->npages + 1;
	uint64_t rules_at = rows_at + h->nrows;

	rules_at = (rules_at + UNWIND_RULE_WORDS - 1) / UNWIND_RULE_WORDS * UNWIND_RULE_WORDS;
	return h->magic == UNWIND_TABLE_MAGIC && h->version == UNWIND_TABLE_VERSION &&
	       h->words == len && h->text_start % UNWIND_PAGE_BYTES == 0 &&
	       h->pages_at == UNWIND_HEAD_WORDS && h->rows_at == rows_at &&
	       h->rules_at == rules_at && h->nrules && h->nrules <= UNWIND_MAX_RULES &&
	       rules_at + (uint64_t)h->nrules * UNWIND_RULE_WORDS == len;
}

static bool check_page(const uint32_t *rows, uint32_t nrows, uint32_t nrules)
{
	for (uint32_t i = 0; i < nrows; i++) {
		uint32_t low = rows[i] & 0xffff;

		if (i ? low <= (rows[i - 1] & 0xffff) : low != 0)
			return false;
		if (rows[i] >> 16 >= nrules)
			return false;
	}
	return true;
}

static bool check_rows(const struct unwind_table_head *h, const uint32_t *words)
{
	const uint32_t *pages = words + h->pages_at;

	if (pages[0] != 0 || pages[h->npages] != h->nrows)
		return false;
	for (uint32_t i = 0; i < h->npages; i++) {
		if (pages[i + 1] < pages[i] || pages[i + 1] > h->nrows)
			return false;
		if (!check_page(words + h->rows_at + pages[i], pages[i + 1] - pages[i], h->nrules))
			return false;
	}
	return true;
}

static bool check_rules(const struct unwind_table_head *h, const uint32_t *words)
{
	struct unwind_rule r;

	for (uint32_t i = 0; i < h->nrules; i++) {
		memcpy(&r, words + h->rules_at + i * UNWIND_RULE_WORDS, sizeof(r));
		if (i == 0 ? r.cfa != CFA_NONE : r.cfa > CFA_SIGNAL)
			return false;
		if (r.reg >= UNWIND_REGISTERS || r.base >= UNWIND_REGISTERS ||
		    r.by_base >> UNWIND_SAVED)
			return false;
	}
	return true;
}

int unwind_table_check(const uint32_t *words, size_t len, struct err *e)
{
	struct unwind_table_head h;

	if (len < UNWIND_HEAD_WORDS || len > UNWIND_MAX_WORDS)
		return err_set(e, EINVAL, "%zu words are no unwind table", len);
	h = table_head(words);
	if (!check_head(&h, len))
		return err_set(e, EINVAL, "the head of the unwind table is damaged");
	if (h.crc != unwind_table_crc(words, len))
		return err_set(e, EINVAL, "the unwind table's checksum is wrong");
	if (!check_rows(&h, words))
		return err_set(e, EINVAL, "the unwind table's rows are out of order");
	if (!check_rules(&h, words))
		return err_set(e, EINVAL, "the unwind table has an unknown rule");
	return 0;
}
