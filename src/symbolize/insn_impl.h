/* insn_impl.h - shared by insn.c and prologue.c. */
#pragma once

#include <capstone/capstone.h>
#include <stdbool.h>

/* Whether a direct jump in the code lands in (0, place], or that cannot be told. */
bool insn_jumped_into(csh handle, const uint8_t *code, size_t len, uint32_t place);
