/* nccl_layout.c - reads field offsets from the code of NCCL's three getters.
 *
 * What is looked for is a load of 32 bits from [register + offset] followed at once by a
 * store of the same register to [another register]: `*rank = comm->rank`. The last such
 * pair counts; several that differ mean that the code is not understood. */
#include "symbolize/nccl_layout.h"

#include <capstone/capstone.h>

#define MAX_FUNCTION_BYTES 4096
#define LEAST_OFFSET	   256 /* the object begins with large arrays; frames have no such offsets */
#define MAX_BETWEEN	   3   /* instructions from the load to the store */
#define MAX_OFFSET	   (16 << 20)

static bool is_load(const cs_insn *i, x86_reg *ret_reg, uint32_t *ret_offset)
{
	const cs_x86 *x = &i->detail->x86;
	if (i->id != X86_INS_MOV || x->op_count != 2 || x->operands[0].type != X86_OP_REG ||
	    x->operands[1].type != X86_OP_MEM || x->operands[0].size != 4)
		return false;
	const x86_op_mem *m = &x->operands[1].mem;
	if (m->base == X86_REG_INVALID || m->base == X86_REG_RIP || m->base == X86_REG_RSP ||
	    m->index != X86_REG_INVALID || m->disp < LEAST_OFFSET || m->disp > MAX_OFFSET)
		return false;
	*ret_reg = x->operands[0].reg;
	*ret_offset = (uint32_t)m->disp;
	return true;
}

static bool is_store(const cs_insn *i, x86_reg reg)
{
	const cs_x86 *x = &i->detail->x86;
	return i->id == X86_INS_MOV && x->op_count == 2 && x->operands[0].type == X86_OP_MEM &&
	       x->operands[1].type == X86_OP_REG && x->operands[1].reg == reg &&
	       x->operands[0].mem.disp == 0 && x->operands[0].mem.index == X86_REG_INVALID &&
	       x->operands[0].mem.base != X86_REG_RSP && x->operands[0].mem.base != X86_REG_RIP;
}

static uint32_t offset_in(const cs_insn *insns, size_t n)
{
	uint32_t found = 0;
	for (size_t i = 0; i < n; i++) {
		x86_reg reg;
		uint32_t offset;
		if (!is_load(&insns[i], &reg, &offset))
			continue;
		for (size_t k = i + 1; k < n && k <= i + MAX_BETWEEN; k++) {
			if (!is_store(&insns[k], reg))
				continue;
			if (found && found != offset)
				return 0;
			found = offset;
		}
	}
	return found;
}

static uint32_t copied_field(const struct elf_file *f, const char *getter)
{
	struct elf_symbol symbol;
	if (!elf_file_find(f, getter, &symbol) || !symbol.size)
		return 0;
	size_t len = symbol.size < MAX_FUNCTION_BYTES ? symbol.size : MAX_FUNCTION_BYTES;
	const uint8_t *code = elf_file_bytes(f, symbol.address, len);
	csh cs;
	if (!code || cs_open(CS_ARCH_X86, CS_MODE_64, &cs) != CS_ERR_OK)
		return 0;
	cs_option(cs, CS_OPT_DETAIL, CS_OPT_ON);
	cs_insn *insns;
	size_t n = cs_disasm(cs, code, len, symbol.address, 0, &insns);
	uint32_t offset = n ? offset_in(insns, n) : 0;
	if (n)
		cs_free(insns, n);
	cs_close(&cs);
	return offset;
}

void nccl_layout_find(const struct elf_file *f, struct nccl_layout *ret)
{
	ret->rank = copied_field(f, "ncclCommUserRank");
	ret->size = copied_field(f, "ncclCommCount");
	ret->device = copied_field(f, "ncclCommCuDevice");
}
