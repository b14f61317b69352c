/* prologue_fuzz.c - a function's first instructions, and where in it jumps are to go.
 *
 * The first byte is the place (bits 0-5), and says whether a jump's real size is asked for (bit 7)
 * or one of 1 to 2 bytes (bit 6). The rest is code.
 *
 * links: base symbolize */
#include <stdlib.h>

#include "symbolize/insn.h"
#include "symbolize/prologue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

static void look(const uint8_t *code, size_t len, uint32_t place, size_t need)
{
	struct prologue p = prologue_find(code, len, place, need);
	check(!p.moved == !!p.why && p.pushed >= -1 && p.pushed < 16);
	if (!p.moved)
		return;
	check(p.kept > place && p.moved >= need);
	check((size_t)p.kept + p.moved <= PROLOGUE_BYTES && (size_t)p.kept + p.moved <= len);
	/* what would do as the whole function does for what is kept and moved */
	struct prologue again = prologue_find(code, (size_t)p.kept + p.moved, place, need);
	check(again.kept == p.kept && again.moved == p.moved && again.pushed == p.pushed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	size_t need = data[0] & 0x80 ? 14 : 1 + (data[0] >> 6 & 1);
	look(data + 1, size - 1, data[0] & 0x3f, need);
	struct insn_place place = insn_choose(data + 1, size - 1, 1);
	if (place.cost != INSN_FORBIDDEN)
		look(data + 1, size - 1, place.offset, need);
	return 0;
}
