/* inside_jump.c - see inside_jump.h. Intel's manual, volume 2, JMP: E9 cd and FF /4. */
#include <string.h>

#include "probe/inside_jump.h"

#define NEAR_BYTES 5
#define INT3	   0xcc

static const uint8_t far_code[] = {0xff, 0x25, 0, 0, 0, 0};

_Static_assert(sizeof(far_code) + sizeof(uint64_t) == CALL_JUMP_BYTES, "no less");

void inside_put_jump(uint64_t address, uint64_t to, uint8_t ret[CALL_JUMP_BYTES])
{
	int64_t distance = (int64_t)(to - (address + NEAR_BYTES));
	int32_t near = (int32_t)distance;
	if (near == distance) {
		memset(ret, INT3, CALL_JUMP_BYTES);
		ret[0] = 0xe9;
		memcpy(ret + 1, &near, sizeof(near));
	} else {
		memcpy(ret, far_code, sizeof(far_code));
		memcpy(ret + sizeof(far_code), &to, sizeof(to));
	}
}

uint64_t inside_jump_leads_to(uint64_t address, const uint8_t jump[CALL_JUMP_BYTES])
{
	uint64_t to = 0;
	int32_t near;
	if (jump[0] == 0xe9) {
		memcpy(&near, jump + 1, sizeof(near));
		to = address + NEAR_BYTES + (uint64_t)(int64_t)near;
	} else if (!memcmp(jump, far_code, sizeof(far_code))) {
		memcpy(&to, jump + sizeof(far_code), sizeof(to));
	}
	return to;
}
