/* prologue.h - how a jump may be put into a function's beginning, by its instructions.
 *
 * The first instructions stay, up to and with the one that a uprobe would be put on: a breakpoint
 * there, whoever's, goes on working. The jump takes the place of the next ones, which run
 * elsewhere: as they are, byte by byte, but for operands relative to rip, whose address is loaded
 * into r11 first, and long conditional jumps. Pure: bytes in, bytes and numbers out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROLOGUE_BYTES 48 /* of a function that are kept and moved, at most */
#define PROLOGUE_RIPS  2  /* of its moved instructions that are relative to rip */
/* What prologue_move() writes at most: an operand gets movabs (10) and a prefix (1), and loses the
 * distance (4); of a jump of 6 bytes come 16. */
#define PROLOGUE_MOVED (PROLOGUE_BYTES + PROLOGUE_RIPS * 10)

/* Instructions with an operand relative to rip, and conditional jumps, in their order. */
struct rip_operands {
	uint8_t n;
	struct rip_operand {
		uint8_t at;    /* offset in the function */
		uint8_t len;   /* of the instruction */
		uint8_t rex;   /* where in it its REX prefix is, or would be; of a jump 0 */
		uint8_t modrm; /* where in it that byte is, of a jump the second of its opcode; the
				* distance, 4 bytes, is behind it */
	} list[PROLOGUE_RIPS];
};

struct prologue {
	uint8_t kept;  /* bytes that stay */
	uint8_t moved; /* bytes behind them that run elsewhere; 0: no jump may be put there */
	int8_t pushed; /* the register that the kept ones push (0 rax .. 15 r15); -1: they do
			* nothing */
	struct rip_operands rips; /* among the moved */
	const char *why;	  /* where moved is 0 */
};

/* code: the function's bytes, len: its size (or as many as there are); place: where in it a uprobe
 * would be; need: bytes that the jump has. */
struct prologue prologue_find(const uint8_t *code, size_t len, uint32_t place, size_t need);

/* Writes what does the same elsewhere as code's first len bytes, the kept and the moved ones, do at
 * address; r11 has any value behind it. Returns the number of bytes. rips: of prologue_find() for
 * this code, or such as prologue_rips_hold(). */
size_t prologue_move(const struct rip_operands *rips, const uint8_t *code, size_t len,
		     uint64_t address, uint8_t ret[PROLOGUE_MOVED]);

/* Whether they lie, without touching, between begin and end, which is at most PROLOGUE_BYTES: what
 * somebody else answered. */
bool prologue_rips_hold(const struct rip_operands *rips, size_t begin, size_t end);
