/* eh_frame.c - parses CIEs and FDEs and runs their programs.
 *
 * Both sections are lists of entries. A CIE holds what many functions have in common: factors,
 * how pointers are written, the rules at a function's first instruction. An FDE names its CIE,
 * the function's addresses, and a program that steps through them and changes rules.
 *
 * Opcodes: DWARF 5, table 7.29, with GNU's additions (binutils, include/dwarf2.def); pointer
 * encodings: Linux Standard Base 5, "DWARF Exception Header Encoding".
 *
 * A CIE is known by where the walk over the section found it, and its program is run once: the
 * entries do not overlap, so that hostile ones cannot have the same bytes read many times. */
#include "symbolize/eh_frame.h"

#include <errno.h>
#include <string.h>

#include "wire/unwind.h"

#define REMEMBERED_ROWS 32    /* real programs nest two or three */
#define MAX_CIES	65536 /* real files have some hundreds at most */

enum { /* pointer encodings */
       PE_ABSPTR = 0x00,
       PE_UDATA2 = 0x02,
       PE_UDATA4 = 0x03,
       PE_UDATA8 = 0x04,
       PE_SDATA2 = 0x0a,
       PE_SDATA4 = 0x0b,
       PE_SDATA8 = 0x0c,
       PE_FORMAT = 0x0f,
       PE_PCREL = 0x10,
       PE_RELATION = 0x70,
       PE_INDIRECT = 0x80,
       PE_OMIT = 0xff,
};

enum { /* opcodes; the first three hold an operand in their lower six bits */
       OP_ADVANCE = 0x40,
       OP_OFFSET = 0x80,
       OP_RESTORE = 0xc0,
       OP_NOP = 0x00,
       OP_SET_LOC = 0x01,
       OP_ADVANCE1 = 0x02,
       OP_ADVANCE2 = 0x03,
       OP_ADVANCE4 = 0x04,
       OP_OFFSET_EXTENDED = 0x05,
       OP_RESTORE_EXTENDED = 0x06,
       OP_UNDEFINED = 0x07,
       OP_SAME_VALUE = 0x08,
       OP_REGISTER = 0x09,
       OP_REMEMBER_STATE = 0x0a,
       OP_RESTORE_STATE = 0x0b,
       OP_DEF_CFA = 0x0c,
       OP_DEF_CFA_REGISTER = 0x0d,
       OP_DEF_CFA_OFFSET = 0x0e,
       OP_DEF_CFA_EXPRESSION = 0x0f,
       OP_EXPRESSION = 0x10,
       OP_OFFSET_EXTENDED_SF = 0x11,
       OP_DEF_CFA_SF = 0x12,
       OP_DEF_CFA_OFFSET_SF = 0x13,
       OP_VAL_OFFSET = 0x14,
       OP_VAL_OFFSET_SF = 0x15,
       OP_VAL_EXPRESSION = 0x16,
       OP_ADVANCE8 = 0x1d, /* MIPS */
       OP_GNU_ARGS_SIZE = 0x2e,
       OP_GNU_NEGATIVE_OFFSET = 0x2f,
};

enum { /* operations of expressions, DWARF 5, table 7.9 */
       EX_DEREF = 0x06,
       EX_AND = 0x1a,
       EX_PLUS = 0x22,
       EX_PLUS_UCONST = 0x23,
       EX_SHL = 0x24,
       EX_GE = 0x2a,
       EX_LIT0 = 0x30,
       EX_BREG0 = 0x70,
       EX_BREGX = 0x92,
};

/* ---- bytes ---- */

/* What is left to read. Reading too much yields 0 and clears ok for good. */
struct bytes {
	const uint8_t *at;
	const uint8_t *end;
	bool ok;
};

static const uint8_t *take(struct bytes *b, uint64_t n)
{
	const uint8_t *p = b->at;

	if (!b->ok || n > (uint64_t)(b->end - b->at)) {
		b->ok = false;
		return NULL;
	}
	b->at += n;
	return p;
}

static uint64_t take_uint(struct bytes *b, size_t n)
{
	const uint8_t *p = take(b, n);
	uint64_t v = 0;

	if (p)
		memcpy(&v, p, n);
	return v;
}

static uint8_t take_u8(struct bytes *b)
{
	if (!b->ok || b->at == b->end) {
		b->ok = false;
		return 0;
	}
	return *b->at++;
}

static uint64_t take_leb(struct bytes *b, bool is_signed)
{
	unsigned shift = 0;
	uint64_t v = 0;
	uint8_t byte;

	do {
		byte = take_u8(b);
		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while ((byte & 0x80) && b->ok);
	if (is_signed && (byte & 0x40) && shift < 64)
		v |= ~0ULL << shift;
	return v;
}

static uint64_t take_uleb(struct bytes *b)
{
	return take_leb(b, false);
}

static int64_t take_sleb(struct bytes *b)
{
	return (int64_t)take_leb(b, true);
}

/* A value in one of the formats of encoded pointers, what it is relative to left aside. */
static uint64_t take_formatted(struct bytes *b, uint8_t encoding)
{
	switch (encoding & PE_FORMAT) {
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		return take_uint(b, 8);
	case PE_UDATA4:
		return take_uint(b, 4);
	case PE_SDATA4:
		return (uint64_t)(int64_t)(int32_t)take_uint(b, 4);
	case PE_UDATA2:
		return take_uint(b, 2);
	case PE_SDATA2:
		return (uint64_t)(int64_t)(int16_t)take_uint(b, 2);
	}
	b->ok = false;
	return 0;
}

/* Absolute pointers and such relative to their own place; functions have no others. */
static uint64_t take_pointer(struct bytes *b, uint8_t encoding, uint64_t base)
{
	uint64_t here = base + (uintptr_t)b->at;
	uint64_t v;

	if ((encoding & PE_RELATION) > PE_PCREL || (encoding & PE_INDIRECT))
		b->ok = false;
	v = take_formatted(b, encoding);
	return (encoding & PE_RELATION) == PE_PCREL ? v + here : v;
}

/* ---- programs ---- */

struct machine {
	struct bytes code;
	const struct cfi_cie *cie;
	struct cfi_row *row;
	uint64_t at;  /* the address that row is for */
	uint64_t end; /* rows from here on are not wanted */
	cfi_visit visit;
	void *ctx;
	unsigned nremembered;
	struct cfi_row remembered[REMEMBERED_ROWS];
};

/* The value of a register, or one that nobody reads for those that are not followed. */
static struct cfi_value *column(struct machine *m, uint64_t reg, struct cfi_value *other)
{
	switch (reg) {
	case UNWIND_RBX:
		return &m->row->columns[CFI_RBX];
	case UNWIND_RBP:
		return &m->row->columns[CFI_RBP];
	case UNWIND_R12:
	case UNWIND_R12 + 1:
	case UNWIND_R12 + 2:
	case UNWIND_R12 + 3:
		return &m->row->columns[CFI_R12 + reg - UNWIND_R12];
	case UNWIND_RIP:
		return &m->row->columns[CFI_RA];
	case UNWIND_RSP:
		return &m->row->columns[CFI_RSP];
	}
	return other;
}

static void set_offset(struct machine *m, uint64_t reg, enum cfi_how how, int64_t offset)
{
	struct cfi_value other;

	*column(m, reg, &other) = (struct cfi_value){.how = how, .offset = offset};
}

static void set_how(struct machine *m, uint64_t reg, enum cfi_how how)
{
	set_offset(m, reg, how, 0);
}

/* Wraps like the machine, not like C. */
static int64_t factored(const struct machine *m, int64_t n)
{
	return (int64_t)((uint64_t)n * (uint64_t)m->cie->data_factor);
}

static uint8_t small_register(uint64_t reg)
{
	return reg < 255 ? reg : 255;
}

static struct cfi_value take_expression(struct machine *m, enum cfi_how how)
{
	uint64_t len = take_uleb(&m->code);
	const uint8_t *p = take(&m->code, len);

	if (len > UINT32_MAX)
		m->code.ok = false;
	return (struct cfi_value){.how = how, .len = len, .expression = p};
}

static void set_expression(struct machine *m, enum cfi_how how)
{
	uint64_t reg = take_uleb(&m->code);
	struct cfi_value other;

	*column(m, reg, &other) = take_expression(m, how);
}

static void restore(struct machine *m, uint64_t reg)
{
	struct cfi_value other = {0};
	struct cfi_value *v = column(m, reg, &other);

	if (v != &other)
		*v = m->cie->initial.columns[v - m->row->columns];
}

/* The row at hand holds up to here. A CIE's program stays at one place: its end is 0. */
static void advance(struct machine *m, uint64_t delta)
{
	uint64_t to;

	if (__builtin_mul_overflow(delta, m->cie->code_factor, &delta) ||
	    __builtin_add_overflow(m->at, delta, &to) || !m->visit) {
		m->code.ok = false;
		return;
	}
	if (to == m->at)
		return;
	m->visit(m->ctx, m->at, m->row);
	m->at = to;
}

static void set_location(struct machine *m)
{
	uint64_t to = take_pointer(&m->code, m->cie->encoding, m->cie->base);

	if (!m->visit || to < m->at)
		m->code.ok = false;
	if (!m->code.ok || to == m->at)
		return;
	m->visit(m->ctx, m->at, m->row);
	m->at = to;
}

static void remember(struct machine *m)
{
	if (m->nremembered == REMEMBERED_ROWS)
		m->code.ok = false;
	else
		m->remembered[m->nremembered++] = *m->row;
}

static void recall(struct machine *m)
{
	if (m->nremembered)
		*m->row = m->remembered[--m->nremembered];
	else
		m->code.ok = false;
}

static void define_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	m->row->cfa = (struct cfi_value){
		.how = CFI_REGISTER, .reg = small_register(reg), .offset = offset};
}

/* Changes one half of register + offset; there has to be such a thing. */
static bool has_cfa(struct machine *m)
{
	if (m->row->cfa.how != CFI_REGISTER)
		m->code.ok = false;
	return m->code.ok;
}

static void set_register(struct machine *m)
{
	uint64_t reg = take_uleb(&m->code);
	struct cfi_value other;

	*column(m, reg, &other) =
		(struct cfi_value){.how = CFI_REGISTER, .reg = small_register(take_uleb(&m->code))};
}

/* Opcodes that set one register's rule. False: op is none of them. */
static bool step_register(struct machine *m, uint8_t op)
{
	struct bytes *b = &m->code;
	uint64_t reg;

	switch (op) {
	case OP_OFFSET_EXTENDED:
	case OP_VAL_OFFSET:
		reg = take_uleb(b);
		set_offset(m, reg, op == OP_VAL_OFFSET ? CFI_IS_CFA : CFI_AT_CFA,
			   factored(m, (int64_t)take_uleb(b)));
		return true;
	case OP_OFFSET_EXTENDED_SF:
	case OP_VAL_OFFSET_SF:
		reg = take_uleb(b);
		set_offset(m, reg, op == OP_VAL_OFFSET_SF ? CFI_IS_CFA : CFI_AT_CFA,
			   factored(m, take_sleb(b)));
		return true;
	case OP_GNU_NEGATIVE_OFFSET:
		reg = take_uleb(b);
		set_offset(m, reg, CFI_AT_CFA, factored(m, (int64_t)-take_uleb(b)));
		return true;
	case OP_RESTORE_EXTENDED:
		restore(m, take_uleb(b));
		return true;
	case OP_UNDEFINED:
		set_how(m, take_uleb(b), CFI_UNDEFINED);
		return true;
	case OP_SAME_VALUE:
		set_how(m, take_uleb(b), CFI_SAME);
		return true;
	case OP_REGISTER:
		set_register(m);
		return true;
	case OP_EXPRESSION:
		set_expression(m, CFI_AT_EXPRESSION);
		return true;
	case OP_VAL_EXPRESSION:
		set_expression(m, CFI_IS_EXPRESSION);
		return true;
	}
	return false;
}

/* Opcodes that set the CFA's rule. False: op is none of them. */
static bool step_cfa(struct machine *m, uint8_t op)
{
	struct bytes *b = &m->code;
	uint64_t reg;

	switch (op) {
	case OP_DEF_CFA:
		reg = take_uleb(b);
		define_cfa(m, reg, (int64_t)take_uleb(b));
		return true;
	case OP_DEF_CFA_SF:
		reg = take_uleb(b);
		define_cfa(m, reg, factored(m, take_sleb(b)));
		return true;
	case OP_DEF_CFA_REGISTER:
		if (has_cfa(m))
			m->row->cfa.reg = small_register(take_uleb(b));
		return true;
	case OP_DEF_CFA_OFFSET:
		if (has_cfa(m))
			m->row->cfa.offset = (int64_t)take_uleb(b);
		return true;
	case OP_DEF_CFA_OFFSET_SF:
		if (has_cfa(m))
			m->row->cfa.offset = factored(m, take_sleb(b));
		return true;
	case OP_DEF_CFA_EXPRESSION:
		m->row->cfa = take_expression(m, CFI_IS_EXPRESSION);
		return true;
	}
	return false;
}

/* All others: places, remembered rows, things without a meaning for unwinding. */
static void step_other(struct machine *m, uint8_t op)
{
	switch (op) {
	case OP_NOP:
		return;
	case OP_SET_LOC:
		set_location(m);
		return;
	case OP_ADVANCE1:
		advance(m, take_uint(&m->code, 1));
		return;
	case OP_ADVANCE2:
		advance(m, take_uint(&m->code, 2));
		return;
	case OP_ADVANCE4:
		advance(m, take_uint(&m->code, 4));
		return;
	case OP_ADVANCE8:
		advance(m, take_uint(&m->code, 8));
		return;
	case OP_REMEMBER_STATE:
		remember(m);
		return;
	case OP_RESTORE_STATE:
		recall(m);
		return;
	case OP_GNU_ARGS_SIZE:
		take_uleb(&m->code);
		return;
	}
	m->code.ok = false;
}

static void step(struct machine *m)
{
	uint8_t op = take_u8(&m->code);

	switch (op & 0xc0) {
	case OP_ADVANCE:
		advance(m, op & 0x3f);
		return;
	case OP_OFFSET:
		set_offset(m, op & 0x3f, CFI_AT_CFA, factored(m, (int64_t)take_uleb(&m->code)));
		return;
	case OP_RESTORE:
		restore(m, op & 0x3f);
		return;
	}
	if (!step_cfa(m, op) && !step_register(m, op))
		step_other(m, op);
}

void cfi_run(const struct cfi *c, const struct cfi_fde *fde, cfi_visit visit, void *ctx)
{
	const struct cfi_cie *cie = &c->cies.data[fde->cie];
	struct cfi_row row = cie->initial;
	struct machine m;

	/* not the whole of it: remembered rows are many bytes that are hardly ever used */
	m.code = (struct bytes){fde->program, fde->program + fde->program_len, true};
	m.cie = cie;
	m.row = &row;
	m.at = fde->start;
	m.end = fde->end;
	m.visit = visit;
	m.ctx = ctx;
	m.nremembered = 0;
	while (m.code.ok && m.code.at < m.code.end && m.at < m.end)
		step(&m);
	if (m.at < m.end)
		visit(ctx, m.at, m.code.ok ? &row : NULL);
}

static bool run_initial(struct cfi_cie *cie, const struct bytes *program)
{
	struct machine m;

	m.code = *program;
	m.cie = cie;
	m.row = &cie->initial;
	m.at = m.end = 0;
	m.visit = NULL; /* a CIE stands for many places: its program cannot go to another */
	m.ctx = NULL;
	m.nremembered = 0;
	while (m.code.ok && m.code.at < m.code.end)
		step(&m);
	return m.code.ok;
}

/* ---- entries ---- */

struct entry {
	uint64_t at; /* place in the section */
	uint64_t id; /* of a CIE's, or how the FDE says where its CIE is */
	uint64_t id_at;
	bool is_cie;
	struct bytes body; /* what follows the id */
};

/* The entry at *pos, which moves behind it. False at the section's end, also a damaged one's,
 * after which no other entry can be found. A body of no bytes: an entry of length 0. */
static bool next_entry(const struct cfi_section *s, uint64_t *pos, struct entry *ret, bool *damaged)
{
	struct bytes b = {s->data + *pos, s->data + s->len, true};
	bool wide = false;
	uint64_t len, none;

	if (*pos >= s->len)
		return false;
	ret->at = *pos;
	len = take_uint(&b, 4);
	if (len == 0xffffffff) {
		wide = true;
		len = take_uint(&b, 8);
	}
	if (!b.ok || len > (uint64_t)(b.end - b.at) || (!wide && len >= 0xfffffff0)) {
		*damaged = true;
		return false;
	}
	b.end = b.at + len;
	*pos = (uint64_t)(b.end - s->data);
	ret->id_at = (uint64_t)(b.at - s->data);
	/* .eh_frame has 32 bits here in both forms */
	wide = wide && !s->eh;
	none = s->eh ? 0 : wide ? UINT64_MAX : 0xffffffff;
	ret->id = len ? take_uint(&b, wide ? 8 : 4) : 0;
	ret->is_cie = ret->id == none;
	ret->body = b;
	return true;
}

/* The letters of an augmentation string, and the data that they stand for. */
static void parse_augmentation(struct cfi_cie *cie, const char *letters, struct bytes *b)
{
	struct bytes data = {0};

	for (; *letters; letters++) {
		switch (*letters) {
		case 'z':
			data.at = take(b, take_uleb(b));
			data.end = b->at;
			data.ok = b->ok;
			cie->augmented = true;
			break;
		case 'R':
			cie->encoding = take_u8(&data);
			break;
		case 'L':
			take_u8(&data);
			break;
		case 'P':
			take_formatted(&data, take_u8(&data));
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B': /* of other machines */
		case 'G':
			break;
		default:
			b->ok = false;
			return;
		}
	}
	if (cie->augmented && !data.ok)
		b->ok = false;
}

static bool parse_cie(struct cfi_cie *cie, const struct cfi_section *s, struct bytes b)
{
	uint8_t version = take_u8(&b), address_len = 8;
	const char *letters = (const char *)b.at;
	const uint8_t *nul = b.at < b.end ? memchr(b.at, 0, b.end - b.at) : NULL;
	uint64_t return_register;

	if (!nul || (version != 1 && version != 3 && version != 4))
		return false;
	b.at = nul + 1;
	if (version == 4) {
		address_len = take_u8(&b);
		cie->segment_len = take_u8(&b);
	}
	cie->encoding = PE_ABSPTR;
	cie->base = s->address - (uintptr_t)s->data;
	cie->code_factor = take_uleb(&b);
	cie->data_factor = take_sleb(&b);
	return_register = version == 1 ? take_u8(&b) : take_uleb(&b);
	parse_augmentation(cie, letters, &b);
	if (!b.ok || address_len != 8 || return_register != UNWIND_RIP)
		return false;
	return run_initial(cie, &b);
}

static void add_cie(struct cfi *c, const struct cfi_section *s, const struct entry *entry)
{
	struct cfi_cie *cie;

	if (c->cies.len == MAX_CIES) {
		c->damaged++;
		return;
	}
	cie = vec_push(&c->cies);
	cie->at = entry->at;
	if (!parse_cie(cie, s, entry->body)) {
		cie->broken = true;
		c->damaged++;
	}
}

/* The CIE at a place of this section, whose first CIE is number first; cies.len where none
 * is. They are in rising order, and an FDE's is mostly the last or the one of the FDE before. */
static size_t find_cie(const struct cfi *c, size_t first, uint64_t at, size_t guess)
{
	size_t low = first, high = c->cies.len;

	if (guess >= first && guess < c->cies.len && c->cies.data[guess].at == at)
		return guess;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (c->cies.data[mid].at < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low < c->cies.len && c->cies.data[low].at == at ? low : c->cies.len;
}

/* A function of no bytes is no damage, but nothing to keep either. */
static bool parse_fde(struct cfi *c, size_t cie_index, struct bytes b)
{
	const struct cfi_cie *cie = &c->cies.data[cie_index];
	struct cfi_fde fde = {.cie = cie_index};
	uint64_t len, program_len;

	if (cie->broken)
		return false;
	take(&b, cie->segment_len);
	fde.start = take_pointer(&b, cie->encoding, cie->base);
	len = take_formatted(&b, cie->encoding & PE_FORMAT);
	if (cie->augmented)
		take(&b, take_uleb(&b));
	program_len = b.end - b.at;
	if (!b.ok || __builtin_add_overflow(fde.start, len, &fde.end) || program_len > UINT32_MAX)
		return false;
	fde.program = b.at;
	fde.program_len = program_len;
	if (len)
		*vec_push(&c->fdes) = fde;
	return true;
}

int cfi_scan(struct cfi *c, const struct cfi_section *s, struct err *e)
{
	size_t first = c->cies.len, guess = first;
	bool damaged = false;
	struct entry entry;
	uint64_t pos = 0;

	while (next_entry(s, &pos, &entry, &damaged)) {
		if (pos == entry.id_at) { /* length 0 */
			if (s->ends_at_zero)
				break;
			continue;
		}
		if (!entry.body.ok) {
			c->damaged++;
		} else if (entry.is_cie) {
			add_cie(c, s, &entry);
		} else if (c->fdes.len == CFI_MAX_FDES) {
			return err_set(e, EFBIG,
				       "its call frame information is of more than %u functions",
				       CFI_MAX_FDES);
		} else {
			guess = find_cie(c, first, s->eh ? entry.id_at - entry.id : entry.id,
					 guess);
			if (guess == c->cies.len || !parse_fde(c, guess, entry.body))
				c->damaged++;
		}
	}
	c->damaged += damaged;
	return 0;
}

void cfi_free(struct cfi *c)
{
	vec_free(&c->cies);
	vec_free(&c->fdes);
}

/* ---- expressions ---- */

static struct bytes expression_bytes(const struct cfi_value *v)
{
	if (v->how != CFI_IS_EXPRESSION && v->how != CFI_AT_EXPRESSION)
		return (struct bytes){0};
	return (struct bytes){v->expression, v->expression + v->len, true};
}

static bool take_register_offset(struct bytes *b, uint8_t *ret_reg, int64_t *ret_offset)
{
	uint8_t op = take_u8(b);
	uint64_t reg = op == EX_BREGX ? take_uleb(b) : (uint64_t)op - EX_BREG0;

	if (reg >= UNWIND_REGISTERS) /* other operations, too */
		return false;
	*ret_reg = reg;
	*ret_offset = take_sleb(b);
	return b->ok;
}

bool cfi_place_of(const struct cfi_value *v, struct cfi_place *ret)
{
	struct bytes b = expression_bytes(v);
	struct cfi_place place = {0};
	int64_t *to = &place.offset;

	if (!b.ok || !take_register_offset(&b, &place.reg, &place.offset))
		return false;
	while (b.at < b.end) {
		uint8_t op = take_u8(&b);

		if (op == EX_DEREF && !place.deref) {
			place.deref = true;
			to = &place.add;
		} else if (op == EX_PLUS_UCONST) {
			*to = (int64_t)((uint64_t)*to + take_uleb(&b));
		} else {
			return false;
		}
	}
	*ret = place;
	return b.ok;
}

bool cfi_plt_of(const struct cfi_value *v, int64_t *ret_offset, uint8_t *ret_at)
{
	static const uint8_t tail[] = {EX_GE, EX_LIT0 + 3, EX_SHL, EX_PLUS};
	struct bytes b = expression_bytes(v);
	uint8_t rsp, rip, at;
	int64_t offset, zero;
	const uint8_t *rest;

	if (!b.ok || !take_register_offset(&b, &rsp, &offset) ||
	    !take_register_offset(&b, &rip, &zero))
		return false;
	if (rsp != UNWIND_RSP || rip != UNWIND_RIP || zero != 0 || take_u8(&b) != EX_LIT0 + 15 ||
	    take_u8(&b) != EX_AND)
		return false;
	at = take_u8(&b) - EX_LIT0;
	rest = take(&b, sizeof(tail));
	if (at > 15 || !rest || memcmp(rest, tail, sizeof(tail)) != 0 || b.at != b.end)
		return false;
	*ret_offset = offset;
	*ret_at = at;
	return true;
}
