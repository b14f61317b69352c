/* unwind_table.c - turns call frame information into the table that BPF searches.
 *
 * The functions of a file are sorted by address and run one after the other (eh_frame.h). Each
 * row becomes a struct unwind_rule; equal rules are kept once, and a row that says what the
 * row before it says is left out. The 1.3 million rows of a large library come to a thousand
 * rules, so that a row takes one word.
 *
 * Between functions the rule of the one before goes on for less than GAP_BYTES: padding is not
 * worth two rows. Where functions overlap, the one that begins first keeps its addresses, of
 * two that begin together the one that the file has first.
 *
 * A rule that cannot be written becomes CFA_NONE: a stack that ends is better than one that
 * goes astray. A preserved register whose place cannot be written is only lost: most frames
 * are found without it. */
#include "symbolize/unwind_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/buffer.h"
#include "symbolize/eh_frame.h"
#include "symbolize/elf_internal.h"

#define PAGE_BYTES (1ULL << UNWIND_PAGE_SHIFT)
#define GAP_BYTES  16
#define MAX_PAGES  65536       /* 4 GiB: x86-64's code models keep code within 2 */
#define MAX_WORDS  (64u << 20) /* 256 MiB; the largest library measured has 1 M */

/* A file may be made so that all its rules fall on one slot; half-full tables of real rules have
 * runs of some twenty. */
#define MAX_PROBES 128

/* The last rule numbers are for rules that were stripped of r12 to r15. */
#define FULL_RULES (UNWIND_MAX_RULES / 8 * 7)

/* struct ucontext of the kernel (arch/x86/include/uapi/asm/sigcontext.h, and
 * include/uapi/asm-generic/ucontext.h): where rsp and rip are. */
#define UCONTEXT_RSP 160
#define UCONTEXT_RIP 168

struct build {
	const struct elf_file *file;
	struct cfi cfi;
	bool signal; /* of the function at work */

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

/* No offset of a word on the stack is odd, so that the two marks cannot be mistaken. */
static bool fits_saved(int64_t offset)
{
	return offset >= INT16_MIN && offset <= INT16_MAX && !(offset & 1);
}

/* An address given as register + offset, as CFA + *ret where the CFA is by that register. */
static bool place_by_cfa(const struct unwind_rule *r, const struct cfi_place *place, int64_t *ret)
{
	return !place->deref && r->cfa == CFA_REG && r->reg == place->reg &&
	       !__builtin_sub_overflow(place->offset, r->offset, ret);
}

static bool set_cfa(struct unwind_rule *r, const struct cfi_value *cfa)
{
	struct cfi_place place = {.reg = cfa->reg, .offset = cfa->offset};
	int64_t offset;
	uint8_t at;

	if (cfi_plt_of(cfa, &offset, &at)) {
		r->cfa = CFA_PLT;
		r->reg = UNWIND_RSP;
		r->add = at;
		r->offset = (int32_t)offset;
		return offset == r->offset;
	}
	if (cfa->how != CFI_REGISTER && !cfi_place_of(cfa, &place))
		return false;
	r->cfa = place.deref ? CFA_DEREF : CFA_REG;
	r->reg = place.reg;
	r->offset = (int32_t)place.offset;
	r->add = (int32_t)place.add;
	return place.reg < UNWIND_REGISTERS && place.offset == r->offset && place.add == r->add;
}

/* The return address has to be in memory, at a place relative to the CFA. */
static bool set_return_address(struct unwind_rule *r, const struct cfi_value *v)
{
	struct cfi_place place;
	int64_t offset;

	if (v->how == CFI_AT_CFA)
		offset = v->offset;
	else if (v->how != CFI_AT_EXPRESSION || !cfi_place_of(v, &place) ||
		 !place_by_cfa(r, &place, &offset))
		return false;
	r->ra = (int16_t)offset;
	return offset == r->ra;
}

/* Where the caller's value of a preserved register is. */
static void set_saved(struct unwind_rule *r, enum cfi_column column, const struct cfi_value *v)
{
	int16_t *saved = &r->saved[column];
	struct cfi_place place;
	int64_t offset;

	*saved = UNWIND_LOST;
	if (v->how == CFI_UNSPECIFIED || v->how == CFI_SAME) {
		*saved = UNWIND_SAME;
	} else if (v->how == CFI_AT_CFA) {
		if (fits_saved(v->offset))
			*saved = (int16_t)v->offset;
	} else if (v->how == CFI_AT_EXPRESSION && cfi_place_of(v, &place) && !place.deref) {
		if (place_by_cfa(r, &place, &offset) && fits_saved(offset)) {
			*saved = (int16_t)offset;
		} else if (fits_saved(place.offset) && (!r->by_base || r->base == place.reg)) {
			*saved = (int16_t)place.offset;
			r->base = place.reg;
			r->by_base |= 1u << column;
		}
	}
}

/* The stack pointer of the caller is the CFA, unless something else is said. */
static bool is_ordinary_stack(const struct cfi_value *v)
{
	return v->how == CFI_UNSPECIFIED || v->how == CFI_SAME ||
	       (v->how == CFI_IS_CFA && v->offset == 0);
}

/* A frame that the kernel made for a signal: everything is in a struct ucontext. */
static bool signal_rule(struct unwind_rule *r, const struct cfi_row *row)
{
	struct cfi_place sp, ip;

	if (!cfi_place_of(&row->cfa, &sp) || !sp.deref || sp.reg != UNWIND_RSP || sp.add ||
	    !cfi_place_of(&row->columns[CFI_RA], &ip) || ip.deref || ip.reg != UNWIND_RSP)
		return false;
	r->cfa = CFA_SIGNAL;
	r->reg = UNWIND_RSP;
	r->offset = (int32_t)(sp.offset - UCONTEXT_RSP);
	return sp.offset >= UCONTEXT_RSP && sp.offset <= INT16_MAX &&
	       ip.offset == sp.offset - UCONTEXT_RSP + UCONTEXT_RIP;
}

/* The rule of a row. False where it says more than a rule can. */
static bool make_rule(struct unwind_rule *r, const struct cfi_row *row, bool signal)
{
	const struct cfi_value *ra = &row->columns[CFI_RA];

	if (ra->how == CFI_UNDEFINED) {
		r->cfa = CFA_END;
		return true;
	}
	if (signal && row->cfa.how == CFI_IS_EXPRESSION)
		return signal_rule(r, row);
	if (!set_cfa(r, &row->cfa) || !set_return_address(r, ra) ||
	    !is_ordinary_stack(&row->columns[CFI_RSP]))
		return false;
	for (size_t i = 0; i < UNWIND_SAVED; i++)
		set_saved(r, i, &row->columns[i]);
	return true;
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
	if (b->words.len >= MAX_WORDS - UNWIND_MAX_RULES * UNWIND_RULE_WORDS)
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
	uint32_t low = address & (PAGE_BYTES - 1);

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

	if (row && make_rule(&rule, row, b->signal))
		number = rule_number(b, &rule);
	b->stats.damaged += !row;
	b->stats.unsupported += row && !number;
	add_row(b, address > b->from ? address : b->from, number);
}

static void add_function(struct build *b, const struct cfi_fde *fde)
{
	if (fde->end <= b->from)
		return;
	if (fde->start >= b->from && fde->start - b->from >= GAP_BYTES)
		add_row(b, b->from, 0);
	if (fde->start > b->from)
		b->from = fde->start;
	b->signal = b->cfi.cies.data[fde->cie].signal;
	cfi_run(&b->cfi, fde, visit_row, b);
	b->from = fde->end;
}

/* ---- functions ---- */

static int compare_fdes(const void *a, const void *b)
{
	const struct cfi_fde *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->program > y->program) - (x->program < y->program);
}

static void sort_functions(struct cfi *c)
{
	for (size_t i = 1; i < c->fdes.len; i++)
		if (compare_fdes(&c->fdes.data[i - 1], &c->fdes.data[i]) > 0) {
			qsort(c->fdes.data, c->fdes.len, sizeof(*c->fdes.data), compare_fdes);
			return;
		}
}

/* Leaves out functions that are not in the file. A linker that drops a function may leave its
 * entry in .debug_frame, at address 0. */
static void keep_functions_of_file(struct build *b, size_t first)
{
	struct cfi *c = &b->cfi;
	size_t kept = first;

	for (size_t i = first; i < c->fdes.len; i++) {
		const struct cfi_fde *fde = &c->fdes.data[i];

		if (fde->start && elf_file_bytes(b->file, fde->start, fde->end - fde->start))
			c->fdes.data[kept++] = *fde;
		else
			b->stats.damaged++;
	}
	c->fdes.len = kept;
}

/* How many of the first n functions, which are sorted, begin at or before an address. */
static size_t functions_up_to(const struct cfi *c, size_t n, uint64_t address)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (c->fdes.data[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Of the functions from number first on, what the sorted ones before them leave. */
static void clip_functions(struct cfi *c, size_t first)
{
	size_t kept = first;

	for (size_t i = first; i < c->fdes.len; i++) {
		struct cfi_fde fde = c->fdes.data[i];
		size_t before = functions_up_to(c, first, fde.start);

		if (before && c->fdes.data[before - 1].end > fde.start)
			continue;
		if (before < first && c->fdes.data[before].start < fde.end)
			fde.end = c->fdes.data[before].start;
		c->fdes.data[kept++] = fde;
	}
	c->fdes.len = kept;
}

static int add_section(struct build *b, const struct cfi_section *s, struct err *e)
{
	size_t first = b->cfi.fdes.len;
	int rc = cfi_scan(&b->cfi, s, e);

	if (rc < 0)
		return rc;
	keep_functions_of_file(b, first);
	if (first)
		clip_functions(&b->cfi, first);
	sort_functions(&b->cfi);
	return 0;
}

/* The bytes of the file from a virtual address to the end of its segment. */
static size_t bytes_from(const struct elf_file *f, uint64_t address)
{
	for (size_t i = 0; i < f->loaded.n; i++) {
		const struct elf_segment *s = &f->loaded.s[i];

		if (address >= s->address && address - s->address < s->size)
			return s->size - (address - s->address);
	}
	return 0;
}

static uint64_t eh_frame_header_address(const struct elf_file *f)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;

	memcpy(&eh, f->data, sizeof(eh));
	if (eh.e_phentsize != sizeof(ph))
		return 0;
	for (size_t i = 0; i < eh.e_phnum; i++) {
		if (!elf_in_range(f->len, eh.e_phoff, (i + 1) * sizeof(ph)))
			return 0;
		memcpy(&ph, f->data + eh.e_phoff + i * sizeof(ph), sizeof(ph));
		if (ph.p_type == PT_GNU_EH_FRAME)
			return ph.p_vaddr;
	}
	return 0;
}

/* Finds .eh_frame without section headers, as unwinders at run time do: through .eh_frame_hdr
 * (version 1; encodings of the pointer to .eh_frame, of the table's length, of the table; the
 * pointer, relative to itself in 4 bytes, as all linkers write it). Its end is not said. */
static bool find_by_header(const struct elf_file *f, struct cfi_section *ret)
{
	uint64_t header = eh_frame_header_address(f);
	const uint8_t *p = header ? elf_file_bytes(f, header, 8) : NULL;

	if (!p || p[0] != 1 || p[1] != 0x1b)
		return false;
	ret->address = header + 4 + (uint64_t)(int64_t)(int32_t)elf_u32(p + 4);
	ret->len = bytes_from(f, ret->address);
	ret->data = ret->len ? elf_file_bytes(f, ret->address, ret->len) : NULL;
	ret->eh = true;
	ret->ends_at_zero = true;
	return ret->data;
}

static int find_functions(struct build *b, struct err *e)
{
	struct cfi_section eh = {.eh = true}, debug = {0};
	uint64_t ignored;
	int rc = 0;

	if (elf_file_section(b->file, ".eh_frame", &eh.data, &eh.len, &eh.address) ||
	    (!b->file->nsections && find_by_header(b->file, &eh)))
		rc = add_section(b, &eh, e);
	if (rc == 0 && elf_file_section(b->file, ".debug_frame", &debug.data, &debug.len, &ignored))
		rc = add_section(b, &debug, e);
	b->stats.damaged += b->cfi.damaged;
	return rc;
}

/* ---- table ---- */

static void begin_table(struct build *b)
{
	const struct cfi_fde *fdes = b->cfi.fdes.data;
	uint64_t end = 0, limit;

	b->first_page = fdes[0].start >> UNWIND_PAGE_SHIFT;
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
	b->from = fdes[0].start;
	vec_push(&b->rules); /* rule 0 */
	grow_slots(b);
}

/* Of all words but the head's last, which it is. */
static uint32_t table_crc(const uint32_t *words, size_t len)
{
	const size_t head_len = UNWIND_HEAD_WORDS - 1;
	uint32_t crc = crc32_z(0, (const uint8_t *)words, head_len * sizeof(*words));

	return crc32_z(crc, (const uint8_t *)(words + UNWIND_HEAD_WORDS),
		       (len - UNWIND_HEAD_WORDS) * sizeof(*words));
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
	head.crc = table_crc(b->words.data, head.words);
	memcpy(b->words.data, &head, sizeof(head));
	b->stats.rows = head.nrows;
}

static int fill_table(struct build *b, struct err *e)
{
	if (!b->cfi.fdes.len)
		return err_set(e, ENOENT, "no call frame information in it");
	begin_table(b);
	for (size_t i = 0; i < b->cfi.fdes.len; i++)
		add_function(b, &b->cfi.fdes.data[i]);
	end_table(b);
	if (b->too_large)
		return err_set(e, EFBIG, "its call frame information comes to more than %u words",
			       MAX_WORDS);
	return 0;
}

int unwind_table_build(const struct elf_file *f, struct unwind_table *ret,
		       struct unwind_table_stats *stats, struct err *e)
{
	struct build b = {.file = f};
	int rc;

	rc = find_functions(&b, e);
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

/* ---- reading ---- */

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
	       h->words == len && h->text_start % PAGE_BYTES == 0 &&
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

	if (len < UNWIND_HEAD_WORDS || len > MAX_WORDS)
		return err_set(e, EINVAL, "%zu words are no unwind table", len);
	h = table_head(words);
	if (!check_head(&h, len))
		return err_set(e, EINVAL, "the head of the unwind table is damaged");
	if (h.crc != table_crc(words, len))
		return err_set(e, EINVAL, "the unwind table's checksum is wrong");
	if (!check_rows(&h, words))
		return err_set(e, EINVAL, "the unwind table's rows are out of order");
	if (!check_rules(&h, words))
		return err_set(e, EINVAL, "the unwind table has an unknown rule");
	return 0;
}

const struct unwind_rule *unwind_table_find(const struct unwind_table *t, uint64_t address)
{
	const struct unwind_table_head h = table_head(t->words);
	const struct unwind_rule *rules = (const void *)(t->words + h.rules_at);
	uint64_t page = (address - h.text_start) >> UNWIND_PAGE_SHIFT;
	const uint32_t *rows = t->words + h.rows_at;
	uint32_t low, high;

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
