/* prologue_fuzz.c - a function's first instructions, and where in it jumps are to go.
 *
 * The first byte is the place (bits 0-5), and says whether a jump's real size is asked for (bit 7)
 * or one of 1 to 2 bytes (bit 6). The rest is code, and is also taken for somebody's answer about
 * where in it operands are.
 *
 * links: base symbolize */
#include <stdlib.h>
#include <string.h>

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
	size_t both = (size_t)p.kept + p.moved;
	uint8_t moved[PROLOGUE_MOVED];
	check(prologue_rips_hold(&p.rips, p.kept, both));
	check(prologue_move(&p.rips, code, both, (uint64_t)code, moved) <= sizeof(moved));
	/* what would do as the whole function does for what is kept and moved */
	struct prologue again = prologue_find(code, both, place, need);
	check(again.kept == p.kept && again.moved == p.moved && again.pushed == p.pushed);
}

static void look_at_answer(const uint8_t *data, size_t size)
{
	struct rip_operands rips;
	uint8_t code[PROLOGUE_BYTES] = {0}, moved[PROLOGUE_MOVED];
	if (size < sizeof(rips) + 1)
		return;
	memcpy(&rips, data, sizeof(rips));
	size_t len = data[sizeof(rips)] % (PROLOGUE_BYTES + 1), rest = size - sizeof(rips);
	memcpy(code, data + sizeof(rips), rest < sizeof(code) ? rest : sizeof(code));
	if (prologue_rips_hold(&rips, code[0] & 7, len))
		check(prologue_move(&rips, code, len, UINT64_MAX, moved) <= sizeof(moved));
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
	look_at_answer(data + 1, size - 1);
	return 0;
}
