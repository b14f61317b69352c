/* insn.h - where in a function a probe costs least, by its first instructions.
 *
 * The kernel emulates some instructions (nop, push, jmp, call, jcc) and single-steps
 * all others, which costs ten times as much (arch/x86/kernel/uprobes.c). A place is
 * allowed only while the return address is still on top of the stack, no argument
 * register has been written, and no jump in the function lands between its start and
 * the place (the probe would be hit too often). Pure: bytes in, offset out. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum insn_cost {
	INSN_NOP5,	/* 5-byte nop: the kernel may turn it into a call */
	INSN_EMULATED,	/* nop, push, call, jmp, jcc */
	INSN_STEPPED,	/* single-stepped: slow */
	INSN_FORBIDDEN, /* the kernel refuses it, or it cannot be decoded */
};

struct insn_place {
	uint32_t offset; /* bytes past the function's start */
	enum insn_cost cost;
	char text[32]; /* the mnemonic there: "push", "endbr64" */
};

/* Chooses the place in the function whose first len bytes are given (its size, or as
 * many as there are, at least 16). need_return: a return probe will sit there too; the
 * stack rule holds without it as well, since stack arguments are found by it, so the answer
 * is the same today. */
struct insn_place insn_choose(const uint8_t *code, size_t len, int need_return);

/* Finds the direct calls of the code at target in code that begins at that address: their addresses
 * go to ret, the lowest first. Returns how many there are, which may be more than most; -EILSEQ
 * where the code cannot be decoded from its beginning to its end, so that some may be missing. */
int insn_find_calls(const uint8_t *code, size_t len, uint64_t address, uint64_t target,
		    uint64_t *ret, int most);
