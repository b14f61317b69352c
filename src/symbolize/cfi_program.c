/* cfi_program.c - runs the programs of CIEs and FDEs: rows of rules, address by address.
 *
 * Opcodes: DWARF 5, table 7.29, with GNU's additions (binutils, include/dwarf2.def). Knows nothing
 * of how entries lie in a section, and does not look into expressions. */
#include "symbolize/cfi_program.h"

#include "wire/unwind.h"

#define REMEMBERED_ROWS 32 /* real programs nest two or three */

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

static struct cfi_value read_expression(struct machine *m, enum cfi_how how)
{
	uint64_t len = bytes_uleb(&m->code);
	const uint8_t *p = bytes_skip(&m->code, len);

	if (len > UINT32_MAX)
		m->code.ok = false;
	return (struct cfi_value){.how = how, .len = len, .expression = p};
}

static void set_expression(struct machine *m, enum cfi_how how)
{
	uint64_t reg = bytes_uleb(&m->code);
	struct cfi_value other;

	*column(m, reg, &other) = read_expression(m, how);
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
	uint64_t to = bytes_pointer(&m->code, m->cie->encoding, m->cie->base);

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
	uint64_t reg = bytes_uleb(&m->code);
	struct cfi_value other;

	*column(m, reg, &other) = (struct cfi_value){.how = CFI_REGISTER,
						     .reg = small_register(bytes_uleb(&m->code))};
}

/* Opcodes that set one register's rule. False: op is none of them. */
static bool step_register(struct machine *m, uint8_t op)
{
	struct bytes *b = &m->code;
	uint64_t reg;

	switch (op) {
	case OP_OFFSET_EXTENDED:
	case OP_VAL_OFFSET:
		reg = bytes_uleb(b);
		set_offset(m, reg, op == OP_VAL_OFFSET ? CFI_IS_CFA : CFI_AT_CFA,
			   factored(m, (int64_t)bytes_uleb(b)));
		return true;
	case OP_OFFSET_EXTENDED_SF:
	case OP_VAL_OFFSET_SF:
		reg = bytes_uleb(b);
		set_offset(m, reg, op == OP_VAL_OFFSET_SF ? CFI_IS_CFA : CFI_AT_CFA,
			   factored(m, bytes_sleb(b)));
		return true;
	case OP_GNU_NEGATIVE_OFFSET:
		reg = bytes_uleb(b);
		set_offset(m, reg, CFI_AT_CFA, factored(m, (int64_t)-bytes_uleb(b)));
		return true;
	case OP_RESTORE_EXTENDED:
		restore(m, bytes_uleb(b));
		return true;
	case OP_UNDEFINED:
		set_how(m, bytes_uleb(b), CFI_UNDEFINED);
		return true;
	case OP_SAME_VALUE:
		set_how(m, bytes_uleb(b), CFI_SAME);
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
		reg = bytes_uleb(b);
		define_cfa(m, reg, (int64_t)bytes_uleb(b));
		return true;
	case OP_DEF_CFA_SF:
		reg = bytes_uleb(b);
		define_cfa(m, reg, factored(m, bytes_sleb(b)));
		return true;
	case OP_DEF_CFA_REGISTER:
		if (has_cfa(m))
			m->row->cfa.reg = small_register(bytes_uleb(b));
		return true;
	case OP_DEF_CFA_OFFSET:
		if (has_cfa(m))
			m->row->cfa.offset = (int64_t)bytes_uleb(b);
		return true;
	case OP_DEF_CFA_OFFSET_SF:
		if (has_cfa(m))
			m->row->cfa.offset = factored(m, bytes_sleb(b));
		return true;
	case OP_DEF_CFA_EXPRESSION:
		m->row->cfa = read_expression(m, CFI_IS_EXPRESSION);
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
		advance(m, bytes_uint(&m->code, 1));
		return;
	case OP_ADVANCE2:
		advance(m, bytes_uint(&m->code, 2));
		return;
	case OP_ADVANCE4:
		advance(m, bytes_uint(&m->code, 4));
		return;
	case OP_ADVANCE8:
		advance(m, bytes_uint(&m->code, 8));
		return;
	case OP_REMEMBER_STATE:
		remember(m);
		return;
	case OP_RESTORE_STATE:
		recall(m);
		return;
	case OP_GNU_ARGS_SIZE:
		bytes_uleb(&m->code);
		return;
	}
	m->code.ok = false;
}

static void step(struct machine *m)
{
	uint8_t op = bytes_u8(&m->code);

	switch (op & 0xc0) {
	case OP_ADVANCE:
		advance(m, op & 0x3f);
		return;
	case OP_OFFSET:
		set_offset(m, op & 0x3f, CFI_AT_CFA, factored(m, (int64_t)bytes_uleb(&m->code)));
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

bool cfi_run_initial(struct cfi_cie *cie, const struct bytes *program)
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
