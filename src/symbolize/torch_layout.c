/* torch_layout.c - reads the offset of a tensor's sizes from the code of functions that ask for
 * them.
 *
 * Inlined, at::Tensor::sizes() loads the number of dimensions from [impl + O], compares it with
 * five and takes the sizes from impl + O + 8, where they are or where the pointer to them is. A
 * function in which this holds for one O alone tells it; what most functions tell is believed.
 *
 * What follows the sizes has been the same since PyTorch 1.9 (c10/core/TensorImpl.h:
 * sizes_and_strides_, storage_offset_, numel_, data_type_). BPF checks the sizes of every tensor
 * against numel_ before it believes them. */
#include "symbolize/torch_layout.h"

#include <capstone/capstone.h>

#define MAX_FUNCTION_BYTES 2048
#define INLINE_SIZES	   5  /* C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE */
#define MAX_BETWEEN	   24 /* instructions from the load to the comparison */
#define LEAST_OFFSET	   24 /* vtable, reference counts, storage */
#define MAX_OFFSET	   256
#define SIZES_BYTES	   (8 + 2 * 8 * INLINE_SIZES)

/* Public functions that do little but ask tensors for their sizes. */
static const char *const askers[] = {
	"_ZN2at6native12is_same_sizeERKNS_6TensorES3_",
	"_ZN2at6native4sizeERKNS_6TensorEl",
	"_ZN2at6native6strideERKNS_6TensorEl",
	"_ZN2at6native7view_asERKNS_6TensorES3_",
	"_ZN2at6native9expand_asERKNS_6TensorES3_",
	"_ZN2at6native10reshape_asERKNS_6TensorES3_",
};

static bool is_field(const cs_x86_op *op, uint32_t offset)
{
	return op->type == X86_OP_MEM && op->mem.base != X86_REG_INVALID &&
	       op->mem.base != X86_REG_RIP && op->mem.base != X86_REG_RSP &&
	       op->mem.disp == (int64_t)offset;
}

/* The offset of the 64-bit field that an operand is, 0 when it is none. */
static uint32_t field_of(const cs_x86_op *op)
{
	int64_t disp = op->mem.disp;
	if (op->type != X86_OP_MEM || op->size != 8 || op->mem.index != X86_REG_INVALID ||
	    disp < LEAST_OFFSET || disp > MAX_OFFSET || disp % 8 || !is_field(op, (uint32_t)disp))
		return 0;
	return (uint32_t)disp;
}

/* "more than five" is written as > 5 or as >= 6. */
static bool is_limit(const cs_x86_op *op)
{
	return op->type == X86_OP_IMM && (op->imm == INLINE_SIZES || op->imm == INLINE_SIZES + 1);
}

static bool is_compared(const cs_insn *insns, size_t n, x86_reg reg)
{
	for (size_t i = 0; i < n && i < MAX_BETWEEN; i++) {
		const cs_x86 *x = &insns[i].detail->x86;
		if (x->op_count < 1 || x->operands[0].type != X86_OP_REG ||
		    x->operands[0].reg != reg)
			continue;
		if (insns[i].id == X86_INS_CMP)
			return x->op_count == 2 && is_limit(&x->operands[1]);
		if (x->operands[0].access & CS_AC_WRITE)
			return false;
	}
	return false;
}

static bool is_used(const cs_insn *insns, size_t n, uint32_t offset)
{
	for (size_t i = 0; i < n; i++) {
		const cs_x86 *x = &insns[i].detail->x86;
		if ((insns[i].id == X86_INS_MOV || insns[i].id == X86_INS_LEA) &&
		    x->op_count == 2 && is_field(&x->operands[1], offset))
			return true;
	}
	return false;
}

/* The offset that an instruction loads, or compares in memory, as the number of dimensions. */
static uint32_t count_at(const cs_insn *insns, size_t n)
{
	const cs_x86 *x = &insns[0].detail->x86;
	if (x->op_count != 2)
		return 0;
	if (insns[0].id == X86_INS_CMP && is_limit(&x->operands[1]))
		return field_of(&x->operands[0]);
	if (insns[0].id == X86_INS_MOV && x->operands[0].type == X86_OP_REG &&
	    is_compared(insns + 1, n - 1, x->operands[0].reg))
		return field_of(&x->operands[1]);
	return 0;
}

/* The one offset that the code takes for that of the sizes; 0 when there is none or another. */
static uint32_t offset_in(const cs_insn *insns, size_t n)
{
	uint32_t found = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t offset = count_at(insns + i, n - i);
		if (!offset || offset == found || !is_used(insns, n, offset + 8))
			continue;
		if (found)
			return 0;
		found = offset;
	}
	return found;
}

static uint32_t sizes_in(const struct elf_file *f, const char *asker)
{
	struct elf_symbol symbol;
	if (!elf_file_find(f, asker, &symbol) || !symbol.size)
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

#define ASKERS (sizeof(askers) / sizeof(askers[0]))

/* The offset that most of the functions tell; 0 where none does, or two are told as often. */
static uint32_t most_told(const uint32_t told[ASKERS])
{
	uint32_t best = 0;
	size_t best_votes = 0;
	for (size_t i = 0; i < ASKERS; i++) {
		size_t votes = 0;
		for (size_t k = 0; told[i] && k < ASKERS; k++)
			votes += told[k] == told[i];
		if (votes > best_votes) {
			best = told[i];
			best_votes = votes;
		} else if (votes && votes == best_votes && told[i] != best) {
			best = 0;
		}
	}
	return best;
}

void torch_layout_find(const struct elf_file *f, struct torch_layout *ret)
{
	uint32_t told[ASKERS];
	*ret = (struct torch_layout){0};
	for (size_t i = 0; i < ASKERS; i++)
		told[i] = sizes_in(f, askers[i]);
	uint32_t sizes = most_told(told);
	if (!sizes)
		return;
	ret->sizes = sizes;
	ret->numel = sizes + SIZES_BYTES + 8;
	ret->scalar = sizes + SIZES_BYTES + 16;
}
