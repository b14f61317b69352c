/* prologue.h - how a jump may be put into a function's beginning, by its instructions.
 *
 * The first instructions stay, up to and with the one that a uprobe would be put on: a breakpoint
 * there, whoever's, goes on working. The jump takes the place of the next ones, which run
 * elsewhere: they may be moved as they are, byte by byte. Pure: bytes in, numbers out. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PROLOGUE_BYTES 48 /* of a function that are kept and moved, at most */

struct prologue {
	uint8_t kept;	 /* bytes that stay */
	uint8_t moved;	 /* bytes behind them that run elsewhere; 0: no jump may be put there */
	int8_t pushed;	 /* the register that the kept ones push (0 rax .. 15 r15); -1: they do
			  * nothing */
	const char *why; /* where moved is 0 */
};

/* code: the function's bytes, len: its size (or as many as there are); place: where in it a uprobe
 * would be; need: bytes that the jump has. */
struct prologue prologue_find(const uint8_t *code, size_t len, uint32_t place, size_t need);
