/* unwind_table.c - turns call frame information into the table that BPF searches.
 *
 * The functions of a file are sorted by address and run one after the other (eh_frame.h). Each
 * row becomes a struct unwind_rule; equal rules are kept once, and a row that says what the
 * row before it says is left out. The 1.3 million rows of a large library come to a thousand
 * rules, so that a row takes one word.
 *
 * Between functions the rule of the one before goes on for less than GAP_BYTES: padding is not
 * worth two rows. More is code without rules, which unwind_code.c makes some for. Where functions
 * overlap, the one that begins first keeps its addresses, of two that begin together the one that
 * the file has first.
 *
 * Which functions there are is unwind_functions.c's, what a row's rule is unwind_rule.c's. */
#include "symbolize/unwind_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "symbolize/unwind_impl.h"

#define GAP_BYTES   16
#define CODE_BYTES  (8u << 20) /* without rules, of a file, that are looked at */
#define PIECE_BYTES (1u << 20) /* at once */
#define MAX_PAGES   65536      /* 4 GiB: x86-64's code models keep code within 2 */

/* A file may be made so that all its rules fall on one slot; half-full tables of real rules have
 * runs of some twenty. */
#define MAX_PROBES 128

/* The last rule numbers are for rules that were stripped of r12 to r15. */
#define FULL_RULES (UNWIND_MAX_RULES / 8 * 7)

struct build {
	struct cfi cfi;
	bool signal; /* of the function at work */
	const struct elf_file *file;
	uint64_t text_start, text_end; /* .text; 0 where there is none */
	uint64_t code_bytes;	       /* of it that were looked at for want of rules */

	VEC(uint32_t) words; /* head, pages, rows; at the end the rules */
	uint32_t rows_at;
	uint64_t first_page;
	uint32_t npages;
	uint32_t page;	    /* pages up to this one have their first row's number */
	uint64_t from;	    /* addresses below this are taken */
	uint64_t last_row;  /* address of the last row */
	uint32_t last_rule; /* that holds at its end */
	bool too_large;

	VEC(struct unwind_rule) rules;
	uint32_t *slots; /* hash table: numbers of rules, 0 where free */
	uint32_t nslots;
	struct unwind_table_stats stats;
};

/* ---- rules ---- */

static uint32_t rule_hash(const struct unwind_rule *r)
{
	uint64_t w[sizeof(*r) / 8], h = 0;

	memcpy(w, r, sizeof(w));
	for (size_t i = 0; i < sizeof(w) / sizeof(w[0]); i++) {
		h = (h ^ w[i]) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 32;
	}
	return (uint32_t)h;
}

/* The slot that holds a rule or is free for it; NULL where the search takes too long. */
static uint32_t *rule_slot(const struct build *b, const struct unwind_rule *r)
{
	uint32_t at = rule_hash(r);

	for (uint32_t i = 0; i < MAX_PROBES; i++) {
		uint32_t *slot = &b->slots[(at + i) & (b->nslots - 1)];

		if (!*slot || memcmp(&b->rules.data[*slot], r, sizeof(*r)) == 0)
			return slot;
	}
	return NULL;
}

static void grow_slots(struct build *b)
{
	free(b->slots);
	b->nslots = b->nslots ? b->nslots * 2 : 1024;
	b->slots = xcalloc(b->nslots, sizeof(*b->slots));
	for (uint32_t i = 1; i < b->rules.len; i++) {
		uint32_t *slot = rule_slot(b, &b->rules.data[i]);

		if (slot)
			*slot = i;
	}
}

/* The number of a rule, which gets one when there are fewer than limit; else 0. */
static uint32_t rule_number_below(struct build *b, const struct unwind_rule *r, uint32_t limit)
{
	uint32_t *slot = rule_slot(b, r);

	if (!slot || *slot)
		return slot ? *slot : 0;
	if (b->rules.len >= limit)
		return 0;
	*slot = b->rules.len;
	*vec_push(&b->rules) = *r;
	if (b->rules.len * 2 > b->nslots)
		grow_slots(b);
	return b->rules.len - 1;
}

/* The number of a rule; of a lesser one when there are too many; 0 when there is no room. */
static uint32_t rule_number(struct build *b, const struct unwind_rule *r)
{
	uint32_t found = rule_number_below(b, r, FULL_RULES);
	struct unwind_rule lesser = *r;

	if (found)
		return found;
	for (size_t i = CFI_R12; i <= CFI_R15; i++) {
		lesser.saved[i] = UNWIND_LOST;
		lesser.by_base &= ~(1u << i);
	}
	if (!lesser.by_base)
		lesser.base = 0;
	return rule_number_below(b, &lesser, UNWIND_MAX_RULES);
}

/* ---- rows ---- */

static uint32_t *page_word(struct build *b, uint32_t page)
{
	return &b->words.data[UNWIND_HEAD_WORDS + page];
}

static uint32_t row_count(const struct build *b)
{
	return b->words.len - b->rows_at;
}

static void push_row(struct build *b, uint32_t low, uint32_t rule)
{
	if (b->words.len >= UNWIND_MAX_WORDS - UNWIND_MAX_RULES * UNWIND_RULE_WORDS)
		b->too_large = true;
	else
		*vec_push(&b->words) = low | rule << 16;
}

/* Pages up to this one begin; the rule at hand goes on in them. */
static void begin_pages(struct build *b, uint32_t page)
{
	while (b->page < page) {
		*page_word(b, ++b->page) = row_count(b);
		if (b->last_rule && b->page < page)
			push_row(b, 0, b->last_rule);
	}
}

/* Takes the last row back when it is at this very address: it holds nowhere. */
static void drop_empty_row(struct build *b, uint64_t address)
{
	uint32_t in_page = row_count(b) - *page_word(b, b->page);

	if (!in_page || b->last_row != address)
		return;
	b->words.len--;
	b->last_row = UINT64_MAX;
	b->last_rule = in_page > 1 ? b->words.data[b->words.len - 1] >> 16 : UINT32_MAX;
}

/* From here on this rule holds. Addresses come in rising order. */
static void add_row(struct build *b, uint64_t address, uint32_t rule)
{
	uint64_t page = (address >> UNWIND_PAGE_SHIFT) - b->first_page;
	uint32_t low = address & (UNWIND_PAGE_BYTES - 1);

	if (page >= b->npages || b->too_large)
		return;
	if (page == b->page)
		drop_empty_row(b, address);
	if (rule == b->last_rule)
		return;
	begin_pages(b, page);
	if (low && row_count(b) == *page_word(b, page))
		push_row(b, 0, b->last_rule);
	push_row(b, low, rule);
	b->last_row = address;
	b->last_rule = rule;
}

static void visit_row(void *ctx, uint64_t address, const struct cfi_row *row)
{
	struct unwind_rule rule = {0};
	struct build *b = ctx;
	uint32_t number = 0;

	if (row && unwind_rule_make(&rule, row, b->signal))
		number = rule_number(b, &rule);
	b->stats.damaged += !row;
	b->stats.unsupported += row && !number;
	add_row(b, address > b->from ? address : b->from, number);
}

static void visit_code(void *ctx, uint64_t address, const struct unwind_rule *rule)
{
	struct build *b = ctx;

	add_row(b, address, rule ? rule_number(b, rule) : 0);
}

/* What lies between functions that have rules: padding, or functions that have none. */
static void add_gap(struct build *b, uint64_t end)
{
	uint64_t from = b->from > b->text_start ? b->from : b->text_start;
	uint64_t to = end < b->text_end ? end : b->text_end;

	if (end < b->from || end - b->from < GAP_BYTES)
		return;
	add_row(b, b->from, 0);
	for (; from < to && b->code_bytes < CODE_BYTES; from = b->from) {
		size_t len = to - from < PIECE_BYTES ? to - from : PIECE_BYTES;
		const uint8_t *code = elf_file_bytes(b->file, from, len);

		if (code)
			unwind_code_run(code, len, from, visit_code, b);
		b->code_bytes += len;
		b->from = from + len;
	}
	add_row(b, b->from, 0);
}

static void add_function(struct build *b, const struct cfi_fde *fde)
{
	if (fde->end <= b->from)
		return;
	add_gap(b, fde->start);
	if (fde->start > b->from)
		b->from = fde->start;
	b->signal = b->cfi.cies.data[fde->cie].signal;
	cfi_run(&b->cfi, fde, visit_row, b);
	b->from = fde->end;
}

/* ---- table ---- */

static void find_text(struct build *b)
{
	const uint8_t *data;
	uint64_t address;
	size_t len;

	if (!elf_file_section(b->file, ".text", &data, &len, &address))
		return;
	b->text_start = address;
	b->text_end = address + len;
}

static void begin_table(struct build *b)
{
	const struct cfi_fde *fdes = b->cfi.fdes.data;
	uint64_t start = fdes[0].start, end = b->text_end, limit;

	if (b->text_end && b->text_start < start)
		start = b->text_start;
	b->first_page = start >> UNWIND_PAGE_SHIFT;
	limit = (b->first_page + MAX_PAGES) << UNWIND_PAGE_SHIFT;
	for (size_t i = 0; i < b->cfi.fdes.len; i++)
		if (fdes[i].end > end)
			end = fdes[i].end;
	if (limit > b->first_page << UNWIND_PAGE_SHIFT && end > limit)
		end = limit;
	b->npages = ((end - 1) >> UNWIND_PAGE_SHIFT) - b->first_page + 1;
	b->rows_at = UNWIND_HEAD_WORDS + b->npages + 1;
	vec_reserve(&b->words, b->rows_at + b->cfi.fdes.len);
	memset(b->words.data, 0, b->rows_at * sizeof(*b->words.data));
	b->words.len = b->rows_at;
	b->from = start;
	vec_push(&b->rules); /* rule 0 */
	grow_slots(b);
}

static void end_table(struct build *b)
{
	struct unwind_table_head head = {
		.magic = UNWIND_TABLE_MAGIC,
		.version = UNWIND_TABLE_VERSION,
		.text_start = b->first_page << UNWIND_PAGE_SHIFT,
		.npages = b->npages,
		.nrules = b->rules.len,
		.pages_at = UNWIND_HEAD_WORDS,
		.rows_at = b->rows_at,
	};
	size_t rules_len = b->rules.len * UNWIND_RULE_WORDS;

	add_row(b, b->from, 0);
	begin_pages(b, b->npages);
	head.nrows = row_count(b);
	while (b->words.len % UNWIND_RULE_WORDS)
		*vec_push(&b->words) = 0;
	head.rules_at = b->words.len;
	head.words = head.rules_at + rules_len;
	b->words.data = xrealloc(b->words.data, head.words, sizeof(*b->words.data));
	b->words.len = b->words.cap = head.words;
	memcpy(b->words.data + head.rules_at, b->rules.data, rules_len * sizeof(uint32_t));
	memcpy(b->words.data, &head, sizeof(head));
	head.crc = unwind_table_crc(b->words.data, head.words);
	memcpy(b->words.data, &head, sizeof(head));
	b->stats.rows = head.nrows;
}

static int fill_table(struct build *b, struct err *e)
{
	if (!b->cfi.fdes.len)
		return err_set(e, ENOENT, "no call frame information in it");
	find_text(b);
	begin_table(b);
	for (size_t i = 0; i < b->cfi.fdes.len; i++)
		add_function(b, &b->cfi.fdes.data[i]);
	add_gap(b, b->text_end);
	end_table(b);
	if (b->too_large)
		return err_set(e, EFBIG, "its call frame information comes to more than %u words",
			       UNWIND_MAX_WORDS);
	return 0;
}

int unwind_table_build(const struct elf_file *f, struct unwind_table *ret,
		       struct unwind_table_stats *stats, struct err *e)
{
	struct build b = {.file = f};
	int rc;

	rc = unwind_functions_find(f, &b.cfi, &b.stats.damaged, e);
	b.stats.fdes = b.cfi.fdes.len;
	if (rc == 0)
		rc = fill_table(&b, e);
	if (rc == 0)
		*ret = (struct unwind_table){b.words.data, b.words.len};
	else
		vec_free(&b.words);
	if (stats)
		*stats = b.stats;
	cfi_free(&b.cfi);
	vec_free(&b.rules);
	free(b.slots);
	return rc;
}

void unwind_table_free(struct unwind_table *t)
{
	free(t->words);
	*t = (struct unwind_table){0};
}
