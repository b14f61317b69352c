/* inside_jump.h - the jumps between a probed function and its island (wire/call_ring.h). Pure. */
#pragma once

#include <stdint.h>

#include "wire/call_ring.h"

/* The bytes of a jump that lies at `address` and leads to `to`. Where it reaches that far (2 GiB)
 * it is jmp rel32, whose target the processor knows when it decodes it, and int3 behind it. Else it
 * is jmp *0(%rip) and the address, which the processor has to wait for, as data from a page of
 * code, unless it remembers where it led last time: not after ten microseconds of PyTorch. */
void inside_put_jump(uint64_t address, uint64_t to, uint8_t ret[CALL_JUMP_BYTES]);

/* Where one of these leads that lies at `address`; 0: it is none. */
uint64_t inside_jump_leads_to(uint64_t address, const uint8_t jump[CALL_JUMP_BYTES]);
