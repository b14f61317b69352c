/* unwind_find.h - the rule for an address, found in a table as BPF finds it (bpf/stack_tables.h).
 */
#pragma once

#include <string.h>

#include "symbolize/unwind_table.h"

/* Rule 0 outside. */
static inline const struct unwind_rule *unwind_table_find(const struct unwind_table *t,
							  uint64_t address)
{
	struct unwind_table_head h;
	const struct unwind_rule *rules;
	const uint32_t *rows;
	uint32_t low, high;
	uint64_t page;

	memcpy(&h, t->words, sizeof(h));
	rules = (const void *)(t->words + h.rules_at);
	rows = t->words + h.rows_at;
	page = (address - h.text_start) >> UNWIND_PAGE_SHIFT;
	if (address < h.text_start || page >= h.npages)
		return rules;
	low = t->words[h.pages_at + page];
	high = t->words[h.pages_at + page + 1];
	if (low == high)
		return rules;
	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if ((rows[mid] & 0xffff) <= (address & 0xffff))
			low = mid;
		else
			high = mid;
	}
	return rules + (rows[low] >> 16);
}
