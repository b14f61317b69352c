/* prologue.c - decodes a function's first instructions.
 *
 * An instruction may be moved when it does the same anywhere: it neither jumps nor calls nor
 * returns, and has no operand relative to rip. None of the function's jumps may lead behind the
 * beginning of the jump that is put there: with the reservation of insn.c about jump tables. */
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
	for (uint8_t i = 0; i < insn->detail->x86.op_count; i++) {
		const cs_x86_op *op = &insn->detail->x86.operands[i];
		if (op->type == X86_OP_MEM &&
		    (op->mem.base == X86_REG_RIP || op->mem.base == X86_REG_EIP))
			return false;
	}
	return true;
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
	for (; end < kept + need; end = (size_t)(p - code)) {
		if (!cs_disasm_iter(handle, &p, &rest, &address, insn))
			return refuse("it is too short");
		if (!may_move(handle, insn))
			return refuse("its first instructions cannot be moved");
	}
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
