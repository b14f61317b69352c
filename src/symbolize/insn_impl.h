/* insn_impl.h - shared by insn.c and prologue.c. */
#pragma once

#include <capstone/capstone.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* loop and its kin, which capstone does not count among the jumps. */
static inline bool insn_is_loop(const cs_insn *insn)
{
	return insn->id == X86_INS_LOOP || insn->id == X86_INS_LOOPE || insn->id == X86_INS_LOOPNE;
}

/* Whether a direct jump in the code lands in (0, place], or that cannot be told. */
bool insn_jumped_into(csh handle, const uint8_t *code, size_t len, uint32_t place);
