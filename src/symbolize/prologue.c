/* prologue.c - decodes a function's first instructions.
 *
 * An instruction may be moved when it does the same anywhere: it neither jumps nor calls nor
 * returns. An operand relative to rip becomes (%r11), which no call's beginning has anything in
 * (psABI: it is scratch), where none of the moved instructions uses r11, and where the encoding is
 * that of the base instruction set. A conditional jump of 32 bits becomes the opposite one over a
 * jump to where it led, wherever that is. None of the function's jumps may lead behind the
 * beginning of the jump that is put there: with the reservation of insn.c about jump tables.
 *
 * Encodings: Intel SDM volume 2, chapter 2 (2.1 prefixes and ModRM, 2.2.1 REX). */
#include "symbolize/prologue.h"

#include <string.h>

#include "symbolize/insn_impl.h"

static struct prologue refuse(const char *why)
{
	return (struct prologue){.pushed = -1, .why = why};
}

static bool is_push(const cs_insn *insn, int8_t *ret)
{
	const uint8_t *b = insn->bytes;
	if (insn->size == 1 && (b[0] & 0xf8) == 0x50)
		*ret = (int8_t)(b[0] & 7);
	else if (insn->size == 2 && b[0] == 0x41 && (b[1] & 0xf8) == 0x50)
		*ret = (int8_t)(8 + (b[1] & 7));
	else
		return false;
	return true;
}

static bool does_nothing(const cs_insn *insn)
{
	return insn->id == X86_INS_ENDBR64 || insn->id == X86_INS_NOP;
}

static bool may_move(csh handle, const cs_insn *insn)
{
	static const unsigned leaving[] = {CS_GRP_JUMP, CS_GRP_CALL, CS_GRP_RET, CS_GRP_INT,
					   CS_GRP_IRET};
	for (size_t i = 0; i < sizeof(leaving) / sizeof(leaving[0]); i++)
		if (cs_insn_group(handle, insn, leaving[i]))
			return false;
	if (insn_is_loop(insn) || insn->id == X86_INS_SYSCALL || insn->id == X86_INS_UD2 ||
	    insn->id == X86_INS_HLT)
		return false;
	return true;
}

/* The long form alone: its distance lies where that of a ModRM byte would. */
static bool is_long_condition(const cs_insn *insn)
{
	return insn->size == 6 && insn->bytes[0] == 0x0f && (insn->bytes[1] & 0xf0) == 0x80;
}

static bool has_rip(const cs_insn *insn)
{
	for (uint8_t i = 0; i < insn->detail->x86.op_count; i++) {
		const cs_x86_op *op = &insn->detail->x86.operands[i];
		if (op->type == X86_OP_MEM &&
		    (op->mem.base == X86_REG_RIP || op->mem.base == X86_REG_EIP))
			return true;
	}
	return false;
}

static bool is_r11(unsigned reg)
{
	return reg == X86_REG_R11 || reg == X86_REG_R11D || reg == X86_REG_R11W ||
	       reg == X86_REG_R11B;
}

static bool uses_r11(const cs_insn *insn)
{
	for (uint8_t i = 0; i < insn->detail->x86.op_count; i++) {
		const cs_x86_op *op = &insn->detail->x86.operands[i];
		if (op->type == X86_OP_REG && is_r11(op->reg))
			return true;
		if (op->type == X86_OP_MEM && (is_r11(op->mem.base) || is_r11(op->mem.index)))
			return true;
	}
	return false;
}

/* Any REX prefix makes these the low bytes of others. */
static bool uses_high_byte(const cs_insn *insn)
{
	for (uint8_t i = 0; i < insn->detail->x86.op_count; i++) {
		const cs_x86_op *op = &insn->detail->x86.operands[i];
		if (op->type == X86_OP_REG && (op->reg == X86_REG_AH || op->reg == X86_REG_BH ||
					       op->reg == X86_REG_CH || op->reg == X86_REG_DH))
			return true;
	}
	return false;
}

/* Prefixes that mean the same to an operand at (%r11): no segment, no half addresses. */
static bool is_plain_prefix(uint8_t byte)
{
	return byte == 0x66 || byte == 0xf0 || byte == 0xf2 || byte == 0xf3;
}

/* One, two or three bytes. */
static size_t opcode_len(const uint8_t *b)
{
	return b[0] != 0x0f ? 1 : b[1] == 0x38 || b[1] == 0x3a ? 3 : 2;
}

static bool is_vector_encoding(uint8_t byte) /* VEX, EVEX, XOP or pop */
{
	return byte == 0xc4 || byte == 0xc5 || byte == 0x62 || byte == 0x8f;
}

static bool add_rip(struct rip_operands *rips, const cs_insn *insn, size_t at)
{
	const uint8_t *b = insn->bytes;
	size_t i = 0;
	if (rips->n == PROLOGUE_RIPS)
		return false;
	struct rip_operand *ret = &rips->list[rips->n++];
	while (i < insn->size && is_plain_prefix(b[i]))
		i++;
	*ret = (struct rip_operand){
		.at = (uint8_t)at, .len = (uint8_t)insn->size, .rex = (uint8_t)i};
	i += (b[i] & 0xf0) == 0x40;
	if (i + 1 >= insn->size || is_vector_encoding(b[i]) || uses_high_byte(insn))
		return false;
	i += opcode_len(b + i);
	ret->modrm = (uint8_t)i;
	return i + 5 <= insn->size && (b[i] & 0xc7) == 0x05;
}

static bool add_condition(struct rip_operands *rips, const cs_insn *insn, size_t at)
{
	if (rips->n == PROLOGUE_RIPS)
		return false;
	rips->list[rips->n++] =
		(struct rip_operand){.at = (uint8_t)at, .len = (uint8_t)insn->size, .modrm = 1};
	return true;
}

/* Whether it may run elsewhere; what has to be changed for that is added. covered: up to where
 * other bytes will stand. A jump on a condition has nothing of them behind it: a part of the
 * function that lies apart (.cold) comes back to there, and is not seen by the scan for jumps. */
static bool add_moved(csh handle, struct rip_operands *rips, const cs_insn *insn, size_t at,
		      size_t covered)
{
	if (is_long_condition(insn))
		return at + insn->size >= covered && add_condition(rips, insn, at);
	return may_move(handle, insn) && (!has_rip(insn) || add_rip(rips, insn, at));
}

static struct prologue find(csh handle, cs_insn *insn, const uint8_t *code, size_t len,
			    uint32_t place, size_t need)
{
	struct prologue ret = {.pushed = -1};
	const uint8_t *p = code;
	uint64_t address = 0;
	size_t rest = len;
	while ((size_t)(p - code) <= place) {
		if (!cs_disasm_iter(handle, &p, &rest, &address, insn))
			return refuse("it cannot be decoded");
		bool last = (size_t)(p - code) > place;
		if (!does_nothing(insn) && !(last && is_push(insn, &ret.pushed)))
			return refuse("it does not begin with a push or a nop");
	}
	size_t kept = (size_t)(p - code), end = kept;
	bool has_r11 = false;
	for (; end < kept + need; end = (size_t)(p - code)) {
		if (!cs_disasm_iter(handle, &p, &rest, &address, insn))
			return refuse("it is too short");
		has_r11 |= uses_r11(insn);
		if (!add_moved(handle, &ret.rips, insn, end, kept + need))
			return refuse("its first instructions cannot be moved");
	}
	if (has_r11 && ret.rips.n)
		return refuse("its first instructions use r11");
	if (end > PROLOGUE_BYTES)
		return refuse("its first instructions are too long");
	if (insn_jumped_into(handle, code, len, (uint32_t)end - 1))
		return refuse("it jumps back to its first instructions");
	ret.kept = (uint8_t)kept;
	ret.moved = (uint8_t)(end - kept);
	return ret;
}

struct prologue prologue_find(const uint8_t *code, size_t len, uint32_t place, size_t need)
{
	csh handle;
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK)
		return refuse("no memory");
	cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON);
	cs_insn *insn = cs_malloc(handle);
	struct prologue ret =
		insn ? find(handle, insn, code, len, place, need) : refuse("no memory");
	if (insn)
		cs_free(insn, 1);
	cs_close(&handle);
	return ret;
}

/* ---- moving ---- */

static uint8_t *put(uint8_t *at, const void *bytes, size_t n)
{
	memcpy(at, bytes, n);
	return at + n;
}

static uint64_t target_of(const struct rip_operand *r, const uint8_t *insn, uint64_t address)
{
	int32_t distance;
	memcpy(&distance, insn + r->modrm + 1, sizeof(distance));
	return address + r->at + r->len + (uint64_t)(int64_t)distance;
}

static bool is_condition(const struct rip_operand *r, const uint8_t *insn)
{
	return !r->rex && r->modrm == 1 && insn[0] == 0x0f;
}

/* The opposite short jump over jmp *0(%rip), and where to. */
static uint8_t *put_condition(uint8_t *at, const struct rip_operand *r, const uint8_t *insn,
			      uint64_t address)
{
	static const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0};
	uint64_t to = target_of(r, insn, address);
	*at++ = 0x70 | ((insn[1] & 0x0f) ^ 1);
	*at++ = sizeof(jump) + sizeof(to);
	at = put(at, jump, sizeof(jump));
	return put(at, &to, sizeof(to));
}

/* movabs $to,%r11; the instruction, with (%r11) for its operand. */
static uint8_t *put_rip(uint8_t *at, const struct rip_operand *r, const uint8_t *insn,
			uint64_t address)
{
	static const uint8_t movabs[] = {0x49, 0xbb};
	bool has_rex = (insn[r->rex] & 0xf0) == 0x40;
	uint8_t rex = has_rex ? insn[r->rex] | 1 : 0x41, modrm = (insn[r->modrm] & 0x38) | 3;
	size_t opcode = r->rex + has_rex, end = (size_t)r->modrm + 5;
	uint64_t to = target_of(r, insn, address);
	at = put(at, movabs, sizeof(movabs));
	at = put(at, &to, sizeof(to));
	at = put(at, insn, r->rex);
	*at++ = rex;
	at = put(at, insn + opcode, r->modrm - opcode);
	*at++ = modrm;
	return put(at, insn + end, r->len - end); /* a number in it */
}

size_t prologue_move(const struct rip_operands *rips, const uint8_t *code, size_t len,
		     uint64_t address, uint8_t ret[PROLOGUE_MOVED])
{
	uint8_t *at = ret;
	size_t from = 0;
	for (size_t i = 0; i < rips->n; i++) {
		const struct rip_operand *r = &rips->list[i];
		at = put(at, code + from, r->at - from);
		at = is_condition(r, code + r->at) ? put_condition(at, r, code + r->at, address)
						   : put_rip(at, r, code + r->at, address);
		from = (size_t)r->at + r->len;
	}
	at = put(at, code + from, len - from);
	return (size_t)(at - ret);
}

bool prologue_rips_hold(const struct rip_operands *rips, size_t begin, size_t end)
{
	if (end > PROLOGUE_BYTES || rips->n > PROLOGUE_RIPS)
		return false;
	for (size_t i = 0; i < rips->n; i++) {
		const struct rip_operand *r = &rips->list[i];
		/* the opcode lies between the prefix and the byte */
		if (r->at < begin || (size_t)r->at + r->len > end || r->rex >= r->modrm ||
		    r->modrm + 5 > r->len)
			return false;
		begin = (size_t)r->at + r->len;
	}
	return true;
}
