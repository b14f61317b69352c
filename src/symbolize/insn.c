/* insn.c - chooses where in a function a probe costs least.
 *
 * What the kernel emulates and what it refuses: arch/x86/kernel/uprobes.c
 * (branch_setup_xol_ops, push_setup_xol_ops, uprobe_init_insn, good_insns_64,
 * good_2byte_insns). Kernels differ a little; where they do, the stricter one counts: a
 * 16-bit nop (66 90) and other long nops are refused or single-stepped before 6.9 and 6.18.
 * The 5-byte nop is made a call by kernels of 6.18 on, and stepped by earlier ones.
 *
 * Instructions are decoded by capstone. Most functions begin with a push, which nothing
 * later can beat, and are answered without it.
 *
 * The jump scan sees only the bytes that it is given, and only direct jumps: a jump table
 * or a jump from another function (a .cold part) into the first instructions is not seen.
 * Compilers make neither into a function's prologue, as long as that has no jump to such a part. */
#include "symbolize/insn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "symbolize/insn_impl.h"

#define MAX_CANDIDATES 32

/* First opcode bytes that the kernel refuses in 64-bit code, one bit each (uprobes.c lists
 * the reasons: invalid, in/out, int, iret, hlt, cli, EVEX). Row r covers 0xr0..0xrf. */
static const uint16_t refused_1byte[16] = {
	0x40c0, 0xc0c0, 0x8080, 0x8080, 0x0000, 0x0000, 0xf007, 0x0000,
	0x0004, 0x0400, 0x0000, 0x0000, 0xf000, 0x0070, 0xf4f0, 0x0c12,
};

/* The same for the byte after 0f: system instructions, sysenter and syscall, ud2. */
static const uint16_t refused_2byte[16] = {
	0x0be3, 0, 0, 0x00b1, 0, 0, 0, 0x0300, 0, 0, 0x4000, 0, 0, 0, 0, 0,
};

/* What is in front of an instruction's operands, as far as the kernel's rules need it. */
struct opcode {
	bool bad_prefix; /* lock or a segment other than fs, gs */
	bool has_16bit;	 /* 66 */
	bool has_repeat; /* f2, f3 */
	uint8_t nlegacy;
	uint8_t rex;	  /* 0 = none */
	bool two_bytes;	  /* 0f xx */
	bool three_bytes; /* 0f 38 xx, 0f 3a xx */
	bool vex;
	uint8_t byte; /* the one that says which instruction it is */
};

static bool bit(const uint16_t *rows, uint8_t byte)
{
	return rows[byte >> 4] >> (byte & 15) & 1;
}

static size_t read_prefixes(const uint8_t *code, size_t len, struct opcode *op)
{
	size_t i;

	for (i = 0; i < len; i++) {
		switch (code[i]) {
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0xf0:
			op->bad_prefix = true;
			break;
		case 0x66:
			op->has_16bit = true;
			break;
		case 0xf2:
		case 0xf3:
			op->has_repeat = true;
			break;
		case 0x64:
		case 0x65:
		case 0x67:
			break;
		default:
			op->nlegacy = i;
			return i;
		}
	}
	return len;
}

static bool read_opcode(const uint8_t *code, size_t len, struct opcode *ret)
{
	struct opcode op = {0};
	size_t i = read_prefixes(code, len, &op);

	if (i < len && (code[i] & 0xf0) == 0x40)
		op.rex = code[i++];
	if (i < len && (code[i] == 0xc4 || code[i] == 0xc5)) {
		op.vex = true;
		i += code[i] == 0xc4 ? 3 : 2;
	} else if (i + 1 < len && code[i] == 0x0f) {
		i++;
		op.two_bytes = true;
		if (code[i] == 0x38 || code[i] == 0x3a) {
			op.two_bytes = false;
			op.three_bytes = true;
			i++;
		}
	}
	if (i >= len)
		return false;
	op.byte = code[i];
	*ret = op;
	return true;
}

static enum insn_cost cost_of(const uint8_t *code, size_t len)
{
	static const uint8_t nop5[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
	bool branch, plain;
	struct opcode op;

	if (!read_opcode(code, len, &op) || op.bad_prefix)
		return INSN_FORBIDDEN;
	if (len == sizeof(nop5) && memcmp(code, nop5, len) == 0)
		return INSN_NOP5;
	plain = !op.two_bytes && !op.three_bytes && !op.vex;
	branch = (plain && (op.byte == 0xe8 || op.byte == 0xe9 || op.byte == 0xeb ||
			    (op.byte & 0xf0) == 0x70)) ||
		 (op.two_bytes && (op.byte & 0xf0) == 0x80);
	if (op.has_16bit && (branch || (plain && op.byte == 0x90)))
		return INSN_FORBIDDEN;
	if (branch)
		return INSN_EMULATED;
	if (len == 1 && plain && op.byte == 0x90)
		return INSN_EMULATED;
	if (plain && (op.byte & 0xf8) == 0x50 && (len == 1 || (len == 2 && op.rex == 0x41)))
		return INSN_EMULATED;
	if (plain && op.byte == 0x8e) /* mov ss masks exceptions */
		return INSN_FORBIDDEN;
	if (op.three_bytes)
		return INSN_STEPPED;
	if (bit(op.two_bytes ? refused_2byte : refused_1byte, op.byte))
		return INSN_FORBIDDEN;
	return INSN_STEPPED;
}

/* A write to any part of these spoils later places: the stack pointer, since the return
 * address and stack arguments are found by it, and the six argument registers. */
static bool spoils(unsigned int reg)
{
	switch (reg) {
	case X86_REG_RSP:
	case X86_REG_ESP:
	case X86_REG_SP:
	case X86_REG_SPL:
	case X86_REG_RDI:
	case X86_REG_EDI:
	case X86_REG_DI:
	case X86_REG_DIL:
	case X86_REG_RSI:
	case X86_REG_ESI:
	case X86_REG_SI:
	case X86_REG_SIL:
	case X86_REG_RDX:
	case X86_REG_EDX:
	case X86_REG_DX:
	case X86_REG_DL:
	case X86_REG_DH:
	case X86_REG_RCX:
	case X86_REG_ECX:
	case X86_REG_CX:
	case X86_REG_CL:
	case X86_REG_CH:
	case X86_REG_R8:
	case X86_REG_R8D:
	case X86_REG_R8W:
	case X86_REG_R8B:
	case X86_REG_R9:
	case X86_REG_R9D:
	case X86_REG_R9W:
	case X86_REG_R9B:
		return true;
	default:
		return false;
	}
}

/* Whether a place after this instruction is still as good as the function's start. */
static bool harmless(csh handle, const cs_insn *insn)
{
	cs_regs reads, writes;
	uint8_t nreads = 0, nwrites = 0;
	static const unsigned int leaving[] = {CS_GRP_JUMP, CS_GRP_CALL, CS_GRP_RET, CS_GRP_INT,
					       CS_GRP_IRET};

	for (size_t i = 0; i < sizeof(leaving) / sizeof(leaving[0]); i++)
		if (cs_insn_group(handle, insn, leaving[i]))
			return false;
	if (insn->id == X86_INS_SYSCALL || insn->id == X86_INS_UD2 || insn->id == X86_INS_HLT)
		return false;
	if (cs_regs_access(handle, insn, reads, &nreads, writes, &nwrites) != CS_ERR_OK)
		return false;
	for (uint8_t i = 0; i < nwrites; i++)
		if (spoils(writes[i]))
			return false;
	return true;
}

/* Whether bytes at `at` read as a direct jump into (0, place]. */
static bool looks_like_jump(const uint8_t *code, size_t len, size_t at, uint32_t place)
{
	const uint8_t *p = code + at;
	size_t rest = len - at;
	int64_t target;

	if (rest >= 2 && (p[0] == 0xeb || (p[0] & 0xf0) == 0x70 || (p[0] & 0xfc) == 0xe0)) {
		target = (int64_t)at + 2 + (int8_t)p[1];
	} else if (rest >= 5 && p[0] == 0xe9) {
		int32_t offset;

		memcpy(&offset, p + 1, sizeof(offset));
		target = (int64_t)at + 5 + offset;
	} else if (rest >= 6 && p[0] == 0x0f && (p[1] & 0xf0) == 0x80) {
		int32_t offset;

		memcpy(&offset, p + 2, sizeof(offset));
		target = (int64_t)at + 6 + offset;
	} else {
		return false;
	}
	return target > 0 && target <= place;
}

/* Whether a jump in the code lands in (0, place]. Bytes that look like one are rare; only
 * then the code is decoded to see whether they are an instruction of their own. */
bool insn_jumped_into(csh handle, const uint8_t *code, size_t len, uint32_t place)
{
	const uint8_t *p = code;
	size_t rest = len, at;
	uint64_t address = 0;
	bool found = false;
	cs_insn *insn;

	for (at = 0; at < len && !looks_like_jump(code, len, at, place); at++)
		;
	if (at == len)
		return false;
	insn = cs_malloc(handle);
	if (!insn)
		return true;
	while (!found && cs_disasm_iter(handle, &p, &rest, &address, insn)) {
		if (!(cs_insn_group(handle, insn, CS_GRP_JUMP) || insn_is_loop(insn)) ||
		    insn->detail->x86.op_count != 1 ||
		    insn->detail->x86.operands[0].type != X86_OP_IMM)
			continue;
		found = insn->detail->x86.operands[0].imm > 0 &&
			insn->detail->x86.operands[0].imm <= (int64_t)place;
	}
	cs_free(insn, 1);
	/* Data between the instructions ended the decoding: what is after it is unknown. */
	return found || rest > 16;
}

static struct insn_place choose(csh handle, cs_insn *insn, const uint8_t *code, size_t len)
{
	struct insn_place best = {.cost = INSN_FORBIDDEN, .text = "(bad)"};
	const uint8_t *p = code;
	uint64_t address = 0;
	size_t rest = len;

	for (int i = 0; i < MAX_CANDIDATES && best.cost != INSN_NOP5; i++) {
		uint32_t offset = p - code;
		enum insn_cost cost;

		if (!cs_disasm_iter(handle, &p, &rest, &address, insn))
			break;
		cost = cost_of(insn->bytes, insn->size);
		if (i == 0 || (cost < best.cost && !insn_jumped_into(handle, code, len, offset))) {
			best.offset = offset;
			best.cost = cost;
			snprintf(best.text, sizeof(best.text), "%s", insn->mnemonic);
		}
		if (!harmless(handle, insn))
			break;
	}
	return best;
}

struct insn_place insn_choose(const uint8_t *code, size_t len, int need_return)
{
	struct insn_place bad = {.cost = INSN_FORBIDDEN, .text = "(bad)"};
	struct insn_place place;
	cs_insn *insn;
	csh handle;

	(void)need_return; /* stack arguments need what a return probe needs, see insn.h */
	if (len && (code[0] & 0xf8) == 0x50)
		return (struct insn_place){.cost = INSN_EMULATED, .text = "push"};
	if (len > 1 && code[0] == 0x41 && (code[1] & 0xf8) == 0x50)
		return (struct insn_place){.cost = INSN_EMULATED, .text = "push"};
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK)
		return bad;
	cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON);
	insn = cs_malloc(handle);
	place = insn ? choose(handle, insn, code, len) : bad;
	if (insn)
		cs_free(insn, 1);
	cs_close(&handle);
	return place;
}

#define CALL_BYTES 5 /* e8 and a distance */

static bool calls(const uint8_t *code, uint64_t address, uint64_t target)
{
	int32_t distance;

	memcpy(&distance, code + 1, sizeof(distance));
	return code[0] == 0xe8 && address + CALL_BYTES + (uint64_t)(int64_t)distance == target;
}

static int find_calls(csh handle, cs_insn *insn, const uint8_t *code, size_t len, uint64_t address,
		      uint64_t target, uint64_t *ret, int most)
{
	int n = 0;

	while (len > 0 && cs_disasm_iter(handle, &code, &len, &address, insn)) {
		if (insn->size != CALL_BYTES || !calls(insn->bytes, insn->address, target))
			continue;
		if (n < most)
			ret[n] = insn->address;
		n++;
	}
	return len > 0 ? -EILSEQ : n;
}

int insn_find_calls(const uint8_t *code, size_t len, uint64_t address, uint64_t target,
		    uint64_t *ret, int most)
{
	csh handle;
	cs_insn *insn;
	int n;

	if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK)
		return -ENOMEM;
	insn = cs_malloc(handle);
	n = insn ? find_calls(handle, insn, code, len, address, target, ret, most) : -ENOMEM;
	if (insn)
		cs_free(insn, 1);
	cs_close(&handle);
	return n;
}
