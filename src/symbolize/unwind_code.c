/* unwind_code.c - rules of code that has no call frame information, from its instructions: assembly
 * that was written by hand, as in x264 and libavcodec.
 *
 * A function gives the stack back before it returns. So from any instruction on, what is popped,
 * added and restored up to the `ret` says where the return address lies and where the preserved
 * registers are: what the instructions say is followed from each return backwards. Where two ways
 * to a return do not agree, where a jump's target is not known, or the stack pointer is made of
 * what is not followed, there is no rule. Nothing is run, and calls are taken to give the stack
 * back.
 *
 * Instructions are decoded by capstone; vector instructions that it does not know have their length
 * from their encoding (Intel SDM, volume 2, chapter 2: VEX and EVEX). */
#include <capstone/capstone.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "symbolize/unwind_impl.h"

#define PASSES	   8 /* over the code; jumps back are known from the second on */
#define OFFSET_MAX (1 << 20)
#define NO_REG	   255
#define NO_TARGET  UINT32_MAX

/* What an instruction does to the stack, as far as it is followed. */
enum step_kind {
	STEP_PLAIN,
	STEP_PUSH,	/* reg, or NO_REG */
	STEP_POP,	/* likewise */
	STEP_MOVE,	/* rsp += value */
	STEP_FROM_REG,	/* rsp = reg + value */
	STEP_FROM_SLOT, /* rsp = *(rsp + value) */
	STEP_LEAVE,
	STEP_STORE, /* *(rsp + value) = reg */
	STEP_LOAD,  /* reg = *(rsp + value) */
	STEP_COPY,  /* reg = other + value */
	STEP_CALL,
	STEP_RETURN,
	STEP_JUMP,
	STEP_BRANCH,
	STEP_STOP, /* nothing is known of what follows */
};

struct step {
	uint32_t at; /* offset in the code */
	uint32_t target;
	int32_t value;
	uint16_t writes; /* general registers, by DWARF's numbers */
	uint8_t kind, reg, other;
};

/* What holds before an instruction. */
struct flow {
	uint8_t cfa; /* CFA_NONE, CFA_REG, CFA_DEREF (of rsp) */
	uint8_t reg;
	int16_t saved[UNWIND_SAVED];
	int32_t offset;
	int32_t add;
};

struct code {
	const uint8_t *bytes;
	size_t len;
	uint64_t address;
	VEC(struct step) steps;
	struct flow *flows; /* one for each step, and one that is nothing */
	uint32_t *step_at;  /* by offset: number of the step + 1 */
};

/* ---- registers ---- */

#define ALL_SIZES(q, d, w, b)                                                                      \
	case X86_REG_##q:                                                                          \
	case X86_REG_##d:                                                                          \
	case X86_REG_##w:                                                                          \
	case X86_REG_##b

static uint8_t general_register(unsigned reg)
{
	switch (reg) {
	case X86_REG_AH:
		ALL_SIZES(RAX, EAX, AX, AL) : return UNWIND_RAX;
	case X86_REG_DH:
		ALL_SIZES(RDX, EDX, DX, DL) : return UNWIND_RDX;
	case X86_REG_CH:
		ALL_SIZES(RCX, ECX, CX, CL) : return UNWIND_RCX;
	case X86_REG_BH:
		ALL_SIZES(RBX, EBX, BX, BL) : return UNWIND_RBX;
		ALL_SIZES(RSI, ESI, SI, SIL) : return UNWIND_RSI;
		ALL_SIZES(RDI, EDI, DI, DIL) : return UNWIND_RDI;
		ALL_SIZES(RBP, EBP, BP, BPL) : return UNWIND_RBP;
		ALL_SIZES(RSP, ESP, SP, SPL) : return UNWIND_RSP;
		ALL_SIZES(R8, R8D, R8W, R8B) : return 8;
		ALL_SIZES(R9, R9D, R9W, R9B) : return 9;
		ALL_SIZES(R10, R10D, R10W, R10B) : return 10;
		ALL_SIZES(R11, R11D, R11W, R11B) : return 11;
		ALL_SIZES(R12, R12D, R12W, R12B) : return 12;
		ALL_SIZES(R13, R13D, R13W, R13B) : return 13;
		ALL_SIZES(R14, R14D, R14W, R14B) : return 14;
		ALL_SIZES(R15, R15D, R15W, R15B) : return 15;
	default:
		return NO_REG;
	}
}

static const uint8_t preserved[UNWIND_SAVED] = {UNWIND_RBX, UNWIND_RBP, 12, 13, 14, 15};

/* Its place in preserved; -1 where a call may change it. */
static int preserved_index(uint8_t reg)
{
	for (int i = 0; i < UNWIND_SAVED; i++)
		if (preserved[i] == reg)
			return i;
	return -1;
}

/* ---- decoding ---- */

/* A whole register, not a part of it. */
static uint8_t whole_register(const cs_x86_op *op)
{
	return op->type == X86_OP_REG && op->size == 8 ? general_register(op->reg) : NO_REG;
}

/* [rsp + disp], eight bytes. */
static bool is_slot(const cs_x86_op *op)
{
	return op->type == X86_OP_MEM && op->mem.base == X86_REG_RSP &&
	       op->mem.index == X86_REG_INVALID && op->mem.segment == X86_REG_INVALID &&
	       llabs(op->mem.disp) < OFFSET_MAX;
}

static void decode_move(struct step *s, const cs_x86 *x)
{
	uint8_t to = whole_register(&x->operands[0]), from = whole_register(&x->operands[1]);
	if (to != NO_REG && from != NO_REG) {
		s->kind = to == UNWIND_RSP ? STEP_FROM_REG : STEP_COPY;
		s->reg = to == UNWIND_RSP ? from : to;
		s->other = from;
	} else if (to != NO_REG && is_slot(&x->operands[1])) {
		s->kind = to == UNWIND_RSP ? STEP_FROM_SLOT : STEP_LOAD;
		s->reg = to;
		s->value = (int32_t)x->operands[1].mem.disp;
	} else if (from != NO_REG && is_slot(&x->operands[0])) {
		s->kind = STEP_STORE;
		s->reg = from;
		s->value = (int32_t)x->operands[0].mem.disp;
	}
}

static void decode_lea(struct step *s, const cs_x86 *x)
{
	const x86_op_mem *m = &x->operands[1].mem;
	uint8_t to = whole_register(&x->operands[0]), from = general_register(m->base);
	if (to == NO_REG || from == NO_REG || m->index != X86_REG_INVALID ||
	    llabs(m->disp) >= OFFSET_MAX)
		return;
	s->kind = to != UNWIND_RSP ? STEP_COPY : from == UNWIND_RSP ? STEP_MOVE : STEP_FROM_REG;
	s->reg = to == UNWIND_RSP ? from : to;
	s->other = from;
	s->value = (int32_t)m->disp;
}

static void decode_add(struct step *s, const cs_x86 *x, int sign)
{
	if (whole_register(&x->operands[0]) != UNWIND_RSP || x->operands[1].type != X86_OP_IMM ||
	    llabs(x->operands[1].imm) >= OFFSET_MAX)
		return;
	s->kind = STEP_MOVE;
	s->value = (int32_t)(sign * x->operands[1].imm);
}

static void decode_jump(const struct code *c, struct step *s, const cs_insn *insn, bool branch)
{
	const cs_x86_op *op = &insn->detail->x86.operands[0];
	s->kind = branch ? STEP_BRANCH : STEP_STOP;
	s->target = NO_TARGET;
	if (insn->detail->x86.op_count != 1 || op->type != X86_OP_IMM)
		return;
	uint64_t to = (uint64_t)op->imm - c->address;
	s->kind = branch	? STEP_BRANCH
		  : to < c->len ? STEP_JUMP
				: STEP_RETURN; /* a call at the end */
	s->target = to < c->len ? (uint32_t)to : NO_TARGET;
}

static uint16_t written(csh handle, const cs_insn *insn)
{
	cs_regs reads, writes;
	uint8_t nreads = 0, nwrites = 0;
	uint16_t mask = 0;
	if (cs_regs_access(handle, insn, reads, &nreads, writes, &nwrites) != CS_ERR_OK)
		return UINT16_MAX;
	for (uint8_t i = 0; i < nwrites; i++) {
		uint8_t reg = general_register(writes[i]);
		mask |= reg == NO_REG ? 0 : 1u << reg;
	}
	return mask;
}

static void decode_step(const struct code *c, csh handle, const cs_insn *insn, struct step *s)
{
	const cs_x86 *x = &insn->detail->x86;
	bool wide = !x->op_count || x->operands[0].size == 8 || x->operands[0].type == X86_OP_IMM;
	switch (insn->id) {
	case X86_INS_PUSH:
	case X86_INS_PUSHFQ:
		s->kind = wide ? STEP_PUSH : STEP_STOP;
		s->reg = x->op_count ? whole_register(&x->operands[0]) : NO_REG;
		return;
	case X86_INS_POP:
	case X86_INS_POPFQ:
		s->kind = wide ? STEP_POP : STEP_STOP;
		s->reg = x->op_count ? whole_register(&x->operands[0]) : NO_REG;
		return;
	case X86_INS_RET:
		s->kind = STEP_RETURN;
		return;
	case X86_INS_LEAVE:
		s->kind = STEP_LEAVE;
		return;
	case X86_INS_JMP:
		decode_jump(c, s, insn, false);
		return;
	case X86_INS_CALL:
		s->kind = STEP_CALL;
		return;
	case X86_INS_INT3:
	case X86_INS_UD2:
	case X86_INS_HLT:
		s->kind = STEP_STOP;
		return;
	case X86_INS_MOV:
		decode_move(s, x);
		break;
	case X86_INS_LEA:
		decode_lea(s, x);
		break;
	case X86_INS_ADD:
		decode_add(s, x, 1);
		break;
	case X86_INS_SUB:
		decode_add(s, x, -1);
		break;
	default:
		if (cs_insn_group(handle, insn, CS_GRP_JUMP))
			decode_jump(c, s, insn, true);
	}
	s->writes = written(handle, insn);
}

/* The bytes of ModRM, SIB and displacement. short_disp: 4-byte ones are as they are in any case. */
static size_t modrm_len(const uint8_t *p, size_t len)
{
	if (!len)
		return 1;
	uint8_t mod = p[0] >> 6, rm = p[0] & 7;
	size_t n = 1;
	if (mod == 3)
		return n;
	bool no_base = mod == 0 && rm == 5;
	if (rm == 4) {
		no_base = mod == 0 && len > 1 && (p[1] & 7) == 5;
		n++;
	}
	return n + (mod == 1 ? 1 : mod == 2 || no_base ? 4 : 0);
}

/* The length of an instruction by its VEX or EVEX encoding; 0 where it has none. */
static size_t vector_len(const uint8_t *p, size_t len)
{
	size_t prefix = len < 6 ? 0 : p[0] == 0xc5 ? 2 : p[0] == 0xc4 ? 3 : p[0] == 0x62 ? 4 : 0;
	if (!prefix)
		return 0;
	uint8_t map = prefix == 2 ? 1 : p[1] & 7, opcode = p[prefix];
	bool has_imm =
		map == 3 || (map == 1 && ((opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 ||
					  (opcode >= 0xc4 && opcode <= 0xc6)));
	return prefix + 1 + modrm_len(p + prefix + 1, len - prefix - 1) + has_imm;
}

/* What cannot be decoded at all is passed over byte by byte, and nothing is known before it. */
static void decode(struct code *c, csh handle, cs_insn *insn)
{
	size_t at = 0;
	while (at < c->len) {
		const uint8_t *p = c->bytes + at;
		size_t rest = c->len - at;
		uint64_t address = c->address + at;
		struct step s = {
			.at = (uint32_t)at, .reg = NO_REG, .other = NO_REG, .target = NO_TARGET};
		size_t len = 0;
		if (cs_disasm_iter(handle, &p, &rest, &address, insn)) {
			decode_step(c, handle, insn, &s);
			len = insn->size;
		} else if (!(len = vector_len(c->bytes + at, c->len - at))) {
			s.kind = STEP_STOP;
			len = 1;
		}
		*vec_push(&c->steps) = s;
		c->step_at[at] = (uint32_t)c->steps.len;
		at += len;
	}
}

/* ---- following ---- */

static const struct flow at_return = {
	.cfa = CFA_REG,
	.reg = UNWIND_RSP,
	.offset = 8,
	.saved = {UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME}};

static bool by_stack(const struct flow *f)
{
	return f->cfa == CFA_REG && f->reg == UNWIND_RSP;
}

/* The stack pointer was lower by so much. */
static void raise_stack(struct flow *f, int32_t by)
{
	if (by_stack(f) || f->cfa == CFA_DEREF)
		f->offset += by;
}

/* The place rsp + at as an offset from the CFA, or 1: it cannot be told. */
static int32_t slot_of(const struct flow *f, int32_t at)
{
	return by_stack(f) ? at - f->offset : 1;
}

/* The register is read from the stack, and is the caller's from there on. */
static void restored(struct flow *f, uint8_t reg, int32_t slot)
{
	int i = preserved_index(reg);
	if (i >= 0 && f->saved[i] == UNWIND_SAME)
		f->saved[i] =
			slot < 0 && slot >= INT16_MIN && !(slot & 1) ? (int16_t)slot : UNWIND_LOST;
}

/* The register is put on the stack: what is restored from there later is still in it. */
static void stored(struct flow *f, uint8_t reg, int32_t slot)
{
	for (int i = 0; i < UNWIND_SAVED; i++)
		if (f->saved[i] == slot)
			f->saved[i] = preserved[i] == reg ? UNWIND_SAME : UNWIND_LOST;
}

/* Registers that get values which are not followed. */
static void overwritten(struct flow *f, uint16_t writes)
{
	if (writes & 1u << UNWIND_RSP ? f->cfa == CFA_DEREF || by_stack(f)
				      : f->cfa == CFA_REG && writes & 1u << f->reg)
		f->cfa = CFA_NONE;
	for (int i = 0; i < UNWIND_SAVED; i++)
		if (writes & 1u << preserved[i] && f->saved[i] == UNWIND_SAME)
			f->saved[i] = UNWIND_LOST;
}

/* reg = other + value: who is found by reg is found by the other before. */
static void copied(struct flow *f, const struct step *s)
{
	int i = preserved_index(s->reg);
	if (f->cfa == CFA_REG && f->reg == s->reg && !by_stack(f)) {
		f->reg = s->other;
		f->offset += s->value;
	}
	if (i >= 0 && f->saved[i] == UNWIND_SAME)
		f->saved[i] = UNWIND_LOST;
}

static void loaded(struct flow *f, const struct step *s)
{
	if (f->cfa == CFA_REG && f->reg == s->reg) {
		*f = (struct flow){.cfa = CFA_DEREF,
				   .reg = UNWIND_RSP,
				   .offset = s->value,
				   .add = f->offset,
				   .saved = {f->saved[0], f->saved[1], f->saved[2], f->saved[3],
					     f->saved[4], f->saved[5]}};
		return;
	}
	restored(f, s->reg, slot_of(f, s->value));
}

static void popped(struct flow *f, const struct step *s)
{
	struct step load = {.reg = s->reg};
	raise_stack(f, 8);
	if (s->reg == UNWIND_RSP)
		f->cfa = CFA_NONE;
	else if (s->reg != NO_REG)
		loaded(f, &load);
}

static void pushed(struct flow *f, const struct step *s)
{
	stored(f, s->reg, slot_of(f, 0));
	if (f->cfa == CFA_DEREF && !f->offset) {
		f->cfa = s->reg == NO_REG ? CFA_NONE : CFA_REG;
		f->reg = s->reg;
		f->offset = f->add + (s->reg == UNWIND_RSP ? -8 : 0);
		f->add = 0;
		return;
	}
	raise_stack(f, -8);
}

static void put(struct flow *f, const struct step *s)
{
	stored(f, s->reg, slot_of(f, s->value));
	if (f->cfa != CFA_DEREF || f->offset != s->value)
		return;
	f->cfa = CFA_REG;
	f->reg = s->reg;
	f->offset = f->add;
	f->add = 0;
}

static void stack_from_register(struct flow *f, const struct step *s)
{
	if (f->cfa == CFA_DEREF)
		f->cfa = CFA_NONE;
	if (!by_stack(f))
		return;
	f->reg = s->reg;
	f->offset += s->value;
}

static void stack_from_slot(struct flow *f, const struct step *s)
{
	if (f->cfa == CFA_DEREF)
		f->cfa = CFA_NONE;
	if (!by_stack(f))
		return;
	f->cfa = CFA_DEREF;
	f->add = f->offset;
	f->offset = s->value;
}

static void left(struct flow *f)
{
	struct step from_rbp = {.reg = UNWIND_RBP}, pop = {.reg = UNWIND_RBP};
	popped(f, &pop);
	stack_from_register(f, &from_rbp);
}

/* From what holds after an instruction to what holds before it. */
static void step_back(struct flow *f, const struct step *s)
{
	static const uint16_t changed_by_calls = 1u << UNWIND_RAX | 1u << UNWIND_RDX |
						 1u << UNWIND_RCX | 1u << UNWIND_RSI |
						 1u << UNWIND_RDI | 0xf00;
	switch (s->kind) {
	case STEP_PUSH:
		pushed(f, s);
		break;
	case STEP_POP:
		popped(f, s);
		break;
	case STEP_MOVE:
		raise_stack(f, s->value);
		break;
	case STEP_FROM_REG:
		stack_from_register(f, s);
		break;
	case STEP_FROM_SLOT:
		stack_from_slot(f, s);
		break;
	case STEP_LEAVE:
		left(f);
		break;
	case STEP_STORE:
		put(f, s);
		break;
	case STEP_LOAD:
		loaded(f, s);
		break;
	case STEP_COPY:
		copied(f, s);
		break;
	default:
		overwritten(f, s->kind == STEP_CALL ? changed_by_calls : s->writes);
	}
	if (abs(f->offset) > OFFSET_MAX || abs(f->add) > OFFSET_MAX)
		f->cfa = CFA_NONE;
}

static bool same_cfa(const struct flow *a, const struct flow *b)
{
	return a->cfa == b->cfa && a->reg == b->reg && a->offset == b->offset && a->add == b->add;
}

/* Two ways to a return: they have to agree. */
static struct flow meet(const struct flow *a, const struct flow *b)
{
	struct flow f = *a;
	if (a->cfa == CFA_NONE || b->cfa == CFA_NONE)
		return a->cfa == CFA_NONE ? *b : *a;
	if (!same_cfa(a, b))
		f.cfa = CFA_NONE;
	for (int i = 0; i < UNWIND_SAVED; i++)
		if (a->saved[i] != b->saved[i])
			f.saved[i] = UNWIND_LOST;
	return f;
}

static const struct flow *flow_at(const struct code *c, uint32_t target)
{
	uint32_t step = target == NO_TARGET ? 0 : c->step_at[target];
	return &c->flows[step ? step - 1 : c->steps.len];
}

static struct flow flow_before(const struct code *c, size_t i)
{
	const struct step *s = &c->steps.data[i];
	struct flow f = c->flows[i + 1];
	if (s->kind == STEP_STOP)
		return (struct flow){0};
	if (s->kind == STEP_RETURN)
		return at_return;
	if (s->kind == STEP_JUMP)
		return *flow_at(c, s->target);
	if (s->kind == STEP_BRANCH)
		f = meet(&f, flow_at(c, s->target));
	if (f.cfa == CFA_NONE)
		return (struct flow){0};
	step_back(&f, s);
	if (f.cfa == CFA_NONE)
		return (struct flow){0};
	return f;
}

static bool same_flow(const struct flow *a, const struct flow *b)
{
	for (int i = 0; i < UNWIND_SAVED; i++)
		if (a->saved[i] != b->saved[i])
			return false;
	return a->cfa == b->cfa && a->reg == b->reg && a->offset == b->offset && a->add == b->add;
}

static void follow(struct code *c)
{
	bool changed = true;
	for (int pass = 0; pass < PASSES && changed; pass++) {
		changed = false;
		for (size_t i = c->steps.len; i-- > 0;) {
			struct flow f = flow_before(c, i);
			changed |= !same_flow(&f, &c->flows[i]);
			c->flows[i] = f;
		}
	}
}

/* ---- rules ---- */

static bool rule_of(const struct flow *f, struct unwind_rule *ret)
{
	*ret = (struct unwind_rule){.cfa = f->cfa,
				    .reg = f->reg,
				    .offset = f->offset,
				    .add = f->add,
				    .ra = -8,
				    .by_code = 1};
	memcpy(ret->saved, f->saved, sizeof(ret->saved));
	return f->cfa != CFA_NONE && (!by_stack(f) || f->offset >= 8);
}

static void tell(const struct code *c, unwind_code_visit visit, void *ctx)
{
	struct unwind_rule rule;
	for (size_t i = 0; i < c->steps.len; i++) {
		bool known = rule_of(&c->flows[i], &rule);
		visit(ctx, c->address + c->steps.data[i].at, known ? &rule : NULL);
	}
}

static void run(struct code *c, csh handle, unwind_code_visit visit, void *ctx)
{
	cs_insn *insn = cs_malloc(handle);
	if (!insn)
		return;
	c->step_at = xcalloc(c->len, sizeof(*c->step_at));
	decode(c, handle, insn);
	cs_free(insn, 1);
	c->flows = xcalloc(c->steps.len + 1, sizeof(*c->flows));
	follow(c);
	tell(c, visit, ctx);
	free(c->flows);
	free(c->step_at);
	vec_free(&c->steps);
}

void unwind_code_run(const uint8_t *bytes, size_t len, uint64_t address, unwind_code_visit visit,
		     void *ctx)
{
	struct code c = {.bytes = bytes, .len = len, .address = address};
	csh handle;
	if (len >= NO_TARGET || cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK)
		return;
	cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON);
	run(&c, handle, visit, ctx);
	cs_close(&handle);
}
