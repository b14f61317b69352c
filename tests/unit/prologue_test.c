/* prologue_test.c - which first instructions of a function may make room for a jump, by examples,
 * and by running functions that were changed so.
 *
 * links: base symbolize */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "symbolize/prologue.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

#define NEED 14 /* jmp *0(%rip), and where to */

#define ENDBR64	    "\xf3\x0f\x1e\xfa"
#define PUSH_RBX    "\x53"
#define PUSH_RSP    "\x54"
#define PUSH_RBP    "\x55"
#define PUSH_R12    "\x41\x54"
#define PUSH_R15    "\x41\x57"
#define NOP	    "\x90"
#define NOP5	    "\x0f\x1f\x44\x00\x00"
#define NOP8	    "\x0f\x1f\x84\x00\x00\x00\x00\x00"
#define MOV_RBP_RSP "\x48\x89\xe5" /* mov %rsp,%rbp */
#define MOV_RAX_RDI "\x48\x89\xf8" /* mov %rdi,%rax */
#define SUB_RSP_8   "\x48\x83\xec\x08"
#define XOR_EDX	    "\x31\xd2"
#define RET	    "\xc3"
#define BODY	    MOV_RBP_RSP SUB_RSP_8 MOV_RAX_RDI MOV_RAX_RDI MOV_RAX_RDI /* 16 bytes */
#define REST	    NOP NOP NOP NOP NOP NOP RET

struct example {
	const char *what;
	const char *code;
	size_t len;
	uint32_t place;
	uint8_t kept, moved;
	int8_t pushed;
};
#define CODE(s) s, sizeof(s) - 1
#define REFUSED 0, 0, -1

static const struct example examples[] = {
	{"push first", CODE(PUSH_RBP BODY REST), 0, 1, 16, 5},
	{"exactly as much as is needed",
	 CODE(PUSH_RBX MOV_RBP_RSP SUB_RSP_8 MOV_RAX_RDI SUB_RSP_8 REST), 0, 1, 14, 3},
	{"push of a high register", CODE(PUSH_R15 BODY REST), 0, 2, 16, 15},
	{"push of r12 is none of rsp", CODE(PUSH_R12 BODY REST), 0, 2, 16, 12},
	{"push of rax", CODE("\x50" BODY REST), 0, 1, 16, 0},
	{"push of rdi", CODE("\x57" BODY REST), 0, 1, 16, 7},
	{"push of r8", CODE("\x41\x50" BODY REST), 0, 2, 16, 8},
	/* inside_plan() refuses it: a pop of it is no undoing */
	{"push of rsp", CODE(PUSH_RSP BODY REST), 0, 1, 16, 4},
	{"the place is behind endbr64", CODE(ENDBR64 PUSH_RBP BODY REST), 4, 5, 16, 5},
	{"the place is endbr64", CODE(ENDBR64 PUSH_RBP BODY REST), 0, 4, 14, -1},
	{"endbr64, then a high push", CODE(ENDBR64 PUSH_R15 BODY REST), 4, 6, 16, 15},
	{"nop first", CODE(NOP PUSH_RBP BODY REST), 0, 1, 14, -1},
	{"a nop of 5 bytes", CODE(NOP5 PUSH_RBP BODY REST), 0, 5, 14, -1},
	{"the place is behind nops", CODE(ENDBR64 NOP5 PUSH_RBP BODY REST), 9, 10, 16, 5},
	{"the place is amid a nop", CODE(ENDBR64 NOP5 PUSH_RBP BODY REST), 6, 9, 14, -1},
	{"a second push is moved", CODE(PUSH_R15 PUSH_R12 PUSH_RBP PUSH_RBX BODY REST), 0, 2, 14,
	 15},
	{"the function ends with what is moved", CODE(PUSH_RBP BODY), 0, 1, 16, 5},

	{"no code", CODE(""), 0, REFUSED},
	{"sub first", CODE(SUB_RSP_8 BODY REST), 0, REFUSED},
	{"mov first", CODE(MOV_RAX_RDI BODY REST), 0, REFUSED},
	{"mov before the place", CODE(MOV_RAX_RDI PUSH_RBP BODY REST), 3, REFUSED},
	{"push before the place", CODE(PUSH_RBP PUSH_RBX BODY REST), 1, REFUSED},
	{"a push of 16 bits", CODE("\x66\x55" BODY REST), 0, REFUSED},
	{"a push of a number", CODE("\x6a\x08" BODY REST), 0, REFUSED},
	{"a push from memory", CODE("\xff\x37" BODY REST), 0, REFUSED},
	{"pop first", CODE("\x5d" BODY REST), 0, REFUSED},
	{"int3 first", CODE("\xcc" PUSH_RBP BODY REST), 0, REFUSED},
	{"ret first", CODE(RET PUSH_RBP BODY REST), 0, REFUSED},
	{"not an instruction first", CODE("\x06" BODY REST), 0, REFUSED},
	{"not an instruction among the moved", CODE(PUSH_RBP MOV_RBP_RSP "\x06" BODY), 0, REFUSED},
	{"too short", CODE(PUSH_RBP MOV_RBP_RSP SUB_RSP_8 MOV_RAX_RDI MOV_RAX_RDI), 0, REFUSED},
	{"a push alone", CODE(PUSH_RBP), 0, REFUSED},
	{"cut amid the push", CODE("\x41"), 0, REFUSED},
	{"cut amid endbr64", CODE("\xf3\x0f\x1e"), 0, REFUSED},
	{"cut amid what is moved",
	 CODE(PUSH_RBP MOV_RBP_RSP SUB_RSP_8 MOV_RAX_RDI MOV_RAX_RDI "\x48\x89"), 0, REFUSED},
	{"the place is behind the end", CODE(ENDBR64 NOP5 NOP8), 17, REFUSED},
	{"the place is far behind the end", CODE(ENDBR64 NOP5 NOP8), UINT32_MAX, REFUSED},
};

static void assert_refused(const struct prologue *p)
{
	assert_int_equal(p->moved, 0);
	assert_int_equal(p->kept, 0);
	assert_int_equal(p->pushed, -1);
	assert_non_null(p->why);
	assert_true(p->why[0] != 0);
}

static void test_examples(void **state)
{
	int failed = 0;
	(void)state;
	for (size_t i = 0; i < COUNT(examples); i++) {
		const struct example *x = &examples[i];
		struct prologue p = prologue_find((const uint8_t *)x->code, x->len, x->place, NEED);
		if (p.kept == x->kept && p.moved == x->moved && p.pushed == x->pushed &&
		    !p.why == !!p.moved)
			continue;
		print_error("%s: kept %u, moved %u, pushed %d (%s); expected %u, %u, %d\n", x->what,
			    p.kept, p.moved, p.pushed, p.why ? p.why : "no reason", x->kept,
			    x->moved, x->pushed);
		failed++;
	}
	assert_int_equal(failed, 0);
}

/* Instructions that do something else elsewhere, or do not go on to the next one. */
struct instruction {
	const char *what, *code;
	size_t len;
};
static const struct instruction unmovable[] = {
	{"call", CODE("\xe8\x00\x01\x00\x00")},
	{"call through a register", CODE("\xff\xd0")},
	{"call through memory", CODE("\xff\x10")},
	{"call through a place by rip", CODE("\xff\x15\x00\x01\x00\x00")},
	{"jmp", CODE("\xe9\x00\x01\x00\x00")},
	{"short jmp", CODE("\xeb\x40")},
	{"jmp through a register", CODE("\xff\xe0")},
	{"notrack jmp", CODE("\x3e\xff\xe0")},
	{"jmp through memory", CODE("\xff\x20")},
	{"je", CODE("\x74\x40")},
	{"long je that is said to be likely", CODE("\x3e\x0f\x84\x00\x01\x00\x00")},
	{"jrcxz", CODE("\xe3\x40")},
	{"jecxz", CODE("\x67\xe3\x40")},
	{"xbegin", CODE("\xc7\xf8\x00\x01\x00\x00")},
	{"ret", CODE(RET)},
	{"ret with a number", CODE("\xc2\x08\x00")},
	{"rep ret", CODE("\xf3\xc3")},
	{"int3", CODE("\xcc")},
	{"int", CODE("\xcd\x80")},
	{"iretq", CODE("\x48\xcf")},
	{"syscall", CODE("\x0f\x05")},
	{"ud2", CODE("\x0f\x0b")},
	{"hlt", CODE("\xf4")},
	{"vmovaps from a place by rip", CODE("\xc5\xf8\x28\x05\x00\x01\x00\x00")},
	{"EVEX vmovaps from a place by rip", CODE("\x62\xf1\x7c\x48\x28\x05\x00\x01\x00\x00")},
	{"mov from a place by fs and rip", CODE("\x64\x48\x8b\x05\x00\x01\x00\x00")},
	/* with a REX prefix these would be others */
	{"mov of ah to a place by rip", CODE("\x88\x25\x00\x01\x00\x00")},
	{"add of a place by rip to dh", CODE("\x02\x35\x00\x01\x00\x00")},
	{"pop to a place by rip", CODE("\x8f\x05\x00\x01\x00\x00")},
	{"add of a place by rip to r11", CODE("\x4c\x03\x1d\x00\x01\x00\x00")},
};

/* Capstone has these in no group of jumps. */
static const struct instruction loops[] = {
	{"loop", CODE("\xe2\x40")},
	{"loope", CODE("\xe1\x40")},
	{"loopne", CODE("\xe0\x40")},
};

static const struct instruction by_eip[] = {
	{"lea of a place by eip", CODE("\x67\x8d\x05\x00\x01\x00\x00")},
	{"mov from a place by eip", CODE("\x67\x8b\x05\x00\x01\x00\x00")},
};

/* Each as the first and as the last of what would be moved. */
static void assert_unmovable(const struct instruction *list, size_t n)
{
	int failed = 0;
	for (size_t i = 0; i < n; i++)
		for (size_t before = 0; before < NEED; before += NEED - 1) {
			uint8_t code[64];
			memset(code, 0x90, sizeof(code));
			code[0] = 0x55;
			memcpy(code + 1 + before, list[i].code, list[i].len);
			struct prologue p = prologue_find(code, sizeof(code), 0, NEED);
			if (!p.moved && p.why)
				continue;
			print_error("%s, %zu bytes behind the push: %u bytes would be moved\n",
				    list[i].what, before, p.moved);
			failed++;
		}
	assert_int_equal(failed, 0);
}

static void test_unmovable(void **state)
{
	(void)state;
	assert_unmovable(unmovable, COUNT(unmovable));
}

static void test_unmovable_loops(void **state)
{
	(void)state;
	assert_unmovable(loops, COUNT(loops));
}

static void test_unmovable_by_eip(void **state)
{
	(void)state;
	assert_unmovable(by_eip, COUNT(by_eip));
}

/* What follows the moved bytes may be anything. */
static void test_behind_moved(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(unmovable); i++) {
		uint8_t code[64];
		memset(code, 0x90, sizeof(code));
		code[0] = 0x55;
		memcpy(code + 1 + NEED, unmovable[i].code, unmovable[i].len);
		struct prologue p = prologue_find(code, sizeof(code), 0, NEED);
		assert_int_equal(p.kept, 1);
		assert_int_equal(p.moved, NEED);
	}
}

/* ---- operands relative to rip ---- */

/* Behind movabs of the place, which 0x100 behind the instruction is. */
struct by_rip {
	const char *what, *code;
	size_t len;
	const char *moved;
	size_t moved_len;
};
static const struct by_rip by_rip[] = {
	{"mov from", CODE("\x48\x8b\x05\x00\x01\x00\x00"), CODE("\x49\x8b\x03")},
	{"mov to", CODE("\x48\x89\x05\x00\x01\x00\x00"), CODE("\x49\x89\x03")},
	{"mov of r15", CODE("\x4c\x89\x3d\x00\x01\x00\x00"), CODE("\x4d\x89\x3b")},
	{"mov of 32 bits", CODE("\x8b\x0d\x00\x01\x00\x00"), CODE("\x41\x8b\x0b")},
	{"mov of a number", CODE("\xc7\x05\x00\x01\x00\x00\x78\x56\x34\x12"),
	 CODE("\x41\xc7\x03\x78\x56\x34\x12")},
	{"mov of 16 bits and a number", CODE("\x66\xc7\x05\x00\x01\x00\x00\x34\x12"),
	 CODE("\x66\x41\xc7\x03\x34\x12")},
	{"lea", CODE("\x48\x8d\x05\x00\x01\x00\x00"), CODE("\x49\x8d\x03")},
	{"cmp of a byte", CODE("\x80\x3d\x00\x01\x00\x00\x05"), CODE("\x41\x80\x3b\x05")},
	{"cmp of 32 bits", CODE("\x81\x3d\x00\x01\x00\x00\x78\x56\x34\x12"),
	 CODE("\x41\x81\x3b\x78\x56\x34\x12")},
	{"push", CODE("\xff\x35\x00\x01\x00\x00"), CODE("\x41\xff\x33")},
	{"movss", CODE("\xf3\x0f\x10\x05\x00\x01\x00\x00"), CODE("\xf3\x41\x0f\x10\x03")},
	{"movzx", CODE("\x0f\xb6\x05\x00\x01\x00\x00"), CODE("\x41\x0f\xb6\x03")},
	{"pshufb", CODE("\x66\x0f\x38\x00\x05\x00\x01\x00\x00"), CODE("\x66\x41\x0f\x38\x00\x03")},
	{"lock inc", CODE("\xf0\xff\x05\x00\x01\x00\x00"), CODE("\xf0\x41\xff\x03")},
};

#define ADDRESS 0x123456789abcdULL

static bool moves_by_rip(const struct by_rip *x, size_t before)
{
	static const uint8_t movabs[] = {0x49, 0xbb};
	uint8_t code[64], moved[PROLOGUE_MOVED], expected[PROLOGUE_MOVED], *at = expected;
	size_t ahead = 1 + before;
	uint64_t to = ADDRESS + ahead + x->len + 0x100;
	memset(code, 0x90, sizeof(code));
	code[0] = 0x55;
	memcpy(code + ahead, x->code, x->len);
	struct prologue p = prologue_find(code, sizeof(code), 0, NEED);
	size_t both = (size_t)p.kept + p.moved;
	if (!p.moved || p.rips.n != 1 || !prologue_rips_hold(&p.rips, p.kept, both) ||
	    prologue_rips_hold(&p.rips, p.kept, ahead + x->len - 1) ||
	    prologue_rips_hold(&p.rips, ahead + 1, both))
		return false;
	memcpy(at, code, ahead);
	memcpy(at + ahead, movabs, 2);
	memcpy(at + ahead + 2, &to, 8);
	memcpy(at + ahead + 10, x->moved, x->moved_len);
	size_t n = ahead + 10 + x->moved_len, rest = both - ahead - x->len;
	memcpy(at + n, code + ahead + x->len, rest);
	return prologue_move(&p.rips, code, both, ADDRESS, moved) == n + rest &&
	       !memcmp(moved, expected, n + rest);
}

static void test_by_rip(void **state)
{
	int failed = 0;
	(void)state;
	for (size_t i = 0; i < COUNT(by_rip); i++)
		for (size_t before = 0; before < NEED; before++) {
			if (moves_by_rip(&by_rip[i], before))
				continue;
			if (failed++ < 5)
				print_error("%s, %zu bytes behind the push\n", by_rip[i].what,
					    before);
		}
	assert_int_equal(failed, 0);
}

/* Two may be among what is moved; r11 is not the function's there. */
static void test_many_by_rip(void **state)
{
	static const uint8_t cmp[] = {0x83, 0x3d, 0x00, 0x01, 0x00, 0x00, 0x05};
	static const uint8_t push[] = {0xff, 0x35, 0x00, 0x01, 0x00, 0x00};
	static const uint8_t from_r11[] = {0x4c, 0x89, 0xd8};	  /* mov %r11,%rax */
	static const uint8_t by_r11[] = {0x43, 0x8b, 0x04, 0x18}; /* mov (%r8,%r11),%eax */
	uint8_t code[64];
	(void)state;
	memset(code, 0x90, sizeof(code));
	code[0] = 0x55;
	memcpy(code + 1, cmp, sizeof(cmp));
	memcpy(code + 8, cmp, 7);
	struct prologue p = prologue_find(code, sizeof(code), 0, NEED);
	assert_int_equal(p.moved, NEED);
	assert_int_equal(p.rips.n, 2);
	assert_int_equal(p.rips.list[1].at, 8);
	memcpy(code + 1, push, 6);
	memcpy(code + 7, push, 6);
	memcpy(code + 13, push, 6);
	p = prologue_find(code, sizeof(code), 0, NEED);
	assert_refused(&p);
	for (size_t before = 0; before < 2; before++) {
		memset(code + 1, 0x90, sizeof(code) - 1);
		memcpy(code + (before ? 1 : 8), from_r11, 3);
		assert_int_equal(prologue_find(code, sizeof(code), 0, NEED).moved, NEED);
		memcpy(code + (before ? 4 : 1), cmp, 7);
		p = prologue_find(code, sizeof(code), 0, NEED);
		assert_refused(&p);
	}
	memset(code + 1, 0x90, sizeof(code) - 1);
	memcpy(code + 1, cmp, sizeof(cmp));
	memcpy(code + 8, by_r11, 4);
	p = prologue_find(code, sizeof(code), 0, NEED);
	assert_refused(&p);
}

/* A jump on a condition becomes the opposite one over a jump to the same place. */
static void test_conditions(void **state)
{
	static const uint8_t jump[] = {14, 0xff, 0x25, 0, 0, 0, 0};
	uint8_t code[64], moved[PROLOGUE_MOVED];
	(void)state;
	for (size_t before = 0; before < NEED; before++)
		for (uint8_t condition = 0; condition < 16; condition++) {
			/* what follows it is not covered: a .cold part may come back to there */
			bool may = before + 6 >= NEED;
			const uint8_t jcc[] = {0x0f, 0x80 | condition, 0, 1, 0, 0};
			size_t at = 1 + before;
			uint64_t to = ADDRESS + at + sizeof(jcc) + 0x100;
			memset(code, 0x90, sizeof(code));
			code[0] = 0x55;
			memcpy(code + at, jcc, sizeof(jcc));
			struct prologue p = prologue_find(code, sizeof(code), 0, NEED);
			size_t both = (size_t)p.kept + p.moved;
			if (!may) {
				assert_refused(&p);
				continue;
			}
			assert_int_equal(p.rips.n, 1);
			assert_true(prologue_rips_hold(&p.rips, p.kept, both));
			assert_int_equal(prologue_move(&p.rips, code, both, ADDRESS, moved),
					 both + 10);
			assert_memory_equal(moved, code, at);
			assert_int_equal(moved[at], 0x70 | (condition ^ 1));
			assert_memory_equal(moved + at + 1, jump, sizeof(jump));
			assert_memory_equal(moved + at + 8, &to, sizeof(to));
			assert_memory_equal(moved + at + 16, code + at + 6, both - at - 6);
		}
}

/* ---- jumps back ---- */

struct jump {
	const char *what, *code;
	size_t len, distance; /* bytes of the distance, which ends it */
};
static const struct jump jumps[] = {
	{"short jmp", CODE("\xeb"), 1},
	{"short jne", CODE("\x75"), 1},
	{"jmp", CODE("\xe9"), 4},
	{"jne", CODE("\x0f\x85"), 4},
	{"jne that is said to be likely", CODE("\x3e\x75"), 1},
	{"bnd jmp", CODE("\xf2\xe9"), 4},
	{"jrcxz", CODE("\xe3"), 1},
};
static const struct jump jumps_of_loops[] = {
	{"loop", CODE("\xe2"), 1},
	{"loope", CODE("\xe1"), 1},
	{"loopne", CODE("\xe0"), 1},
};

static bool accepts_jump(const struct jump *j, size_t at, size_t to)
{
	static const uint8_t begin[5] = ENDBR64 PUSH_RBP;
	uint8_t code[128];
	size_t end = at + j->len + j->distance;
	int32_t distance = (int32_t)to - (int32_t)end;
	memset(code, 0x90, sizeof(code));
	memcpy(code, begin, sizeof(begin));
	memcpy(code + at, j->code, j->len);
	memcpy(code + at + j->len, &distance, j->distance);
	return prologue_find(code, sizeof(code), 4, NEED).moved == NEED;
}

/* To the function's beginning, and behind what is moved, everything may jump. */
static void assert_jumps(const struct jump *list, size_t n)
{
	int failed = 0;
	for (size_t i = 0; i < n; i++)
		for (size_t at = 5 + NEED; at < 100; at += 27)
			for (size_t to = 0; to < 30; to++) {
				bool allowed = to == 0 || to >= 5 + NEED;
				if (accepts_jump(&list[i], at, to) == allowed)
					continue;
				if (failed++ < 5)
					print_error("%s at %zu to %zu: %s\n", list[i].what, at, to,
						    allowed ? "refused" : "accepted");
			}
	assert_int_equal(failed, 0);
}

static void test_jumps_back(void **state)
{
	(void)state;
	assert_jumps(jumps, COUNT(jumps));
}

static void test_loops_back(void **state)
{
	(void)state;
	assert_jumps(jumps_of_loops, COUNT(jumps_of_loops));
}

/* A number that looks like a jump back is none. */
static void test_like_a_jump(void **state)
{
	/* mov $0xf775,%eax: 75 f7 reads as jne to 10 */
	static const char code[] = PUSH_RBP BODY "\xb8\x75\xf7\x00\x00" REST;
	(void)state;
	assert_int_equal(prologue_find((const uint8_t *)CODE(code), 0, NEED).moved, 16);
}

/* ---- bounds ---- */

/* 48 bytes are kept and moved at most. */
static void test_longest(void **state)
{
	static const uint8_t two[2] = XOR_EDX, three[3] = MOV_RAX_RDI;
	uint8_t code[128];
	(void)state;
	for (uint32_t place = 0; place < 100; place++) {
		memset(code, 0x90, sizeof(code));
		struct prologue p = prologue_find(code, sizeof(code), place, NEED);
		if (place + 1 + NEED > PROLOGUE_BYTES) {
			assert_refused(&p);
			continue;
		}
		assert_int_equal(p.kept, place + 1);
		assert_int_equal(p.moved, NEED);
	}
	/* 34 kept, 14 needed: by instructions of 2 and of 3 bytes */
	memset(code, 0x90, sizeof(code));
	for (int i = 0; i < 7; i++)
		memcpy(code + 34 + 2 * i, two, sizeof(two));
	assert_int_equal(prologue_find(code, sizeof(code), 33, NEED).moved, 14);
	for (int i = 0; i < 5; i++)
		memcpy(code + 34 + 3 * i, three, sizeof(three));
	struct prologue p = prologue_find(code, sizeof(code), 33, NEED);
	assert_refused(&p);
	for (int i = 0; i < 5; i++)
		memcpy(code + 33 + 3 * i, three, sizeof(three));
	assert_int_equal(prologue_find(code, sizeof(code), 32, NEED).moved, 15);
}

/* However long the function is said to be: nothing behind it is read or moved. */
static void test_cut_anywhere(void **state)
{
	static const char whole[] = ENDBR64 PUSH_R15 PUSH_R12 BODY REST;
	(void)state;
	for (size_t len = 0; len < sizeof(whole); len++) {
		uint8_t *code = test_malloc(len); /* cmocka guards its ends */
		memcpy(code, whole, len);
		struct prologue p = prologue_find(code, len, 4, NEED);
		if (len < 21)
			assert_refused(&p);
		else
			assert_int_equal(p.kept + p.moved, 21);
		test_free(code);
	}
}

static void assert_sound(const uint8_t *code, size_t len, uint32_t place, size_t need)
{
	struct prologue p = prologue_find(code, len, place, need);
	if (!p.moved) {
		assert_refused(&p);
		return;
	}
	assert_null(p.why);
	assert_true(p.kept > place && p.moved >= need && p.moved < need + 15);
	assert_true((size_t)p.kept + p.moved <= PROLOGUE_BYTES);
	assert_true((size_t)p.kept + p.moved <= len);
	assert_in_range(p.pushed + 1, 0, 16);
}

static void test_any_bytes(void **state)
{
	uint8_t code[40];
	(void)state;
	memset(code, 0x90, sizeof(code));
	for (unsigned int i = 0; i < 0x10000; i += 3) {
		code[0] = (uint8_t)(i >> 8);
		code[1] = (uint8_t)i;
		assert_sound(code, sizeof(code), i % 4, NEED);
	}
	code[0] = 0x55;
	for (unsigned int i = 0; i < 0x10000; i += 3) {
		code[1] = (uint8_t)(i >> 8);
		code[2] = (uint8_t)i;
		assert_sound(code, sizeof(code), 0, 1 + i % 20);
	}
}

/* ---- run ---- */

/* Functions as compilers write them, which nothing but their arguments has to do with: they may
 * lie anywhere. What they return depends on every argument, also on the stack. */
__asm__(".pushsection .text\n"
	"sample_frame:\n" /* of -O0: all by rbp, a loop behind the moved bytes */
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	sub $64, %rsp\n"
	"	mov %rdi, -8(%rbp)\n"
	"	mov %rsi, -16(%rbp)\n"
	"	mov %rdx, -24(%rbp)\n"
	"	mov %rcx, -32(%rbp)\n"
	"	mov %r8, -40(%rbp)\n"
	"	mov %r9, -48(%rbp)\n"
	"	xor %eax, %eax\n"
	"	mov $8, %ecx\n"
	"1:	imul $31, %rax, %rax\n"
	"	mov %rcx, %rdx\n"
	"	neg %rdx\n"
	"	add (%rbp,%rdx,8), %rax\n"
	"	dec %ecx\n"
	"	jnz 1b\n"
	"	imul $31, %rax, %rax\n"
	"	add 16(%rbp), %rax\n"
	"	imul $31, %rax, %rax\n"
	"	add 24(%rbp), %rax\n"
	"	leave\n"
	"	ret\n"
	"sample_frame_end:\n"
	"sample_saved:\n" /* of -O2: endbr64, many pushes, what it saved is found again */
	"	endbr64\n"
	"	push %r15\n"
	"	mov %rdi, %rax\n"
	"	push %r14\n"
	"	push %r13\n"
	"	push %r12\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	lea (%rdi,%rsi,2), %r15\n"
	"	lea (%rdx,%rcx,4), %r14\n"
	"	lea (%r8,%r9,8), %r13\n"
	"	mov 56(%rsp), %r12\n"
	"	mov 64(%rsp), %rbp\n"
	"	xor %r14, %r15\n"
	"	xor %r13, %r15\n"
	"	lea (%r15,%r12,2), %rbx\n"
	"	sub %rbp, %rbx\n"
	"	imul $17, %rbx, %rbx\n"
	"	add %rbx, %rax\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	pop %r12\n"
	"	pop %r13\n"
	"	pop %r14\n"
	"	pop %r15\n"
	"	ret\n"
	"sample_saved_end:\n"
	"sample_leaf:\n"			/* room for a patch first, no frame, the red zone */
	"	.byte 0x0f, 0x1f, 0x44, 0, 0\n" /* nop */
	"	mov %rdi, -8(%rsp)\n"
	"	mov 8(%rsp), %rax\n"
	"	lea (%rax,%rsi,8), %rax\n"
	"	sub 16(%rsp), %rax\n"
	"	xor -8(%rsp), %rax\n"
	"	add %rdx, %rax\n"
	"	rol $7, %rax\n"
	"	xor %rcx, %rax\n"
	"	rol $7, %rax\n"
	"	add %r8, %rax\n"
	"	rol $7, %rax\n"
	"	xor %r9, %rax\n"
	"	ret\n"
	"sample_leaf_end:\n"
	"sample_argument:\n" /* what it pushes is an argument, which it then overwrites */
	"	push %rdi\n"
	"	mov $5, %edi\n"
	"	imul %rsi, %rdi\n"
	"	mov %rdi, %rax\n"
	"	lea (%rax,%rdx,2), %rax\n"
	"	add (%rsp), %rax\n"
	"	imul $13, %rax, %rax\n"
	"	add %rcx, %rax\n"
	"	add %r8, %rax\n"
	"	xor %r9, %rax\n"
	"	sub 16(%rsp), %rax\n"
	"	xor 24(%rsp), %rax\n"
	"	pop %rdi\n"
	"	ret\n"
	"sample_argument_end:\n"
	"sample_flag:\n" /* as the CUDA driver's: a flag of the library is looked at first */
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	push %rbx\n"
	"	mov %rdi, %rbx\n"
	"	cmpl $0x1234, sample_data(%rip)\n"
	"	jne 1f\n"
	"	xor %rdx, %rsi\n"
	"1:	lea (%rsi,%rbx,2), %rax\n"
	"	imul $17, %rax, %rax\n"
	"	add %rcx, %rax\n"
	"	xor %r8, %rax\n"
	"	sub %r9, %rax\n"
	"	add 16(%rbp), %rax\n"
	"	xor 24(%rbp), %rax\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n"
	"sample_flag_end:\n"
	"sample_both:\n" /* two of them, and what is loaded is used */
	"	push %rbx\n"
	"	lea sample_data(%rip), %r10\n"
	"	add sample_data+8(%rip), %rdi\n"
	"	mov (%r10), %eax\n"
	"	imul %rsi, %rax\n"
	"	add %rdi, %rax\n"
	"	xor 24(%r10), %rax\n"
	"	imul $13, %rax, %rax\n"
	"	sub %rdx, %rax\n"
	"	xor %rcx, %rax\n"
	"	add %r8, %rax\n"
	"	sub %r9, %rax\n"
	"	xor 16(%rsp), %rax\n"
	"	add 24(%rsp), %rax\n"
	"	pop %rbx\n"
	"	ret\n"
	"sample_both_end:\n"
	"sample_check:\n" /* as CPython's loop: what seldom happens is far away */
	"	endbr64\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	sub $0x2d0, %rsp\n"
	"	test %rdi, %rdi\n"
	"	.byte 0x0f, 0x88\n" /* js */
	"	.long sample_check_cold - . - 4\n"
	"	lea 1(%rdi,%rsi,2), %rax\n"
	"sample_check_on:\n"
	"	imul $17, %rax, %rax\n"
	"	xor %rdx, %rax\n"
	"	add %rcx, %rax\n"
	"	xor %r8, %rax\n"
	"	sub %r9, %rax\n"
	"	add 16(%rbp), %rax\n"
	"	xor 24(%rbp), %rax\n"
	"	leave\n"
	"	ret\n"
	"sample_check_cold:\n" /* a part of its own, which comes back */
	"	lea (%rsi,%rdi,4), %rax\n"
	"	jmp sample_check_on\n"
	"sample_check_end:\n"
	".popsection\n"
	".pushsection .data\n"
	"	.balign 8\n"
	"sample_data:\n"
	"	.quad 0x1234, 0x123456789abcdef, 2, 0x5555555512345678\n"
	".popsection\n");

typedef uint64_t function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			  uint64_t);

extern const uint8_t sample_frame[], sample_frame_end[], sample_saved[], sample_saved_end[],
	sample_leaf[], sample_leaf_end[], sample_argument[], sample_argument_end[], sample_flag[],
	sample_flag_end[], sample_both[], sample_both_end[], sample_check[], sample_check_end[];

static const struct sample {
	const char *what;
	const uint8_t *code, *end;
	uint32_t place;
	uint8_t kept, moved; /* moved: 0 = not known */
	int8_t pushed;
} samples[] = {
	{"frame", sample_frame, sample_frame_end, 0, 1, 15, 5},
	{"saved", sample_saved, sample_saved_end, 4, 6, 15, 15},
	{"saved, the place is endbr64", sample_saved, sample_saved_end, 0, 4, 17, -1},
	{"leaf", sample_leaf, sample_leaf_end, 0, 5, 14, -1},
	{"argument", sample_argument, sample_argument_end, 0, 1, 16, 7},
	{"flag", sample_flag, sample_flag_end, 0, 1, 17, 5},
	{"both", sample_both, sample_both_end, 0, 1, 14, 3},
	{"check", sample_check, sample_check_end, 4, 5, 19, 5},
};

static uint64_t call(const uint8_t *code, uint64_t seed)
{
	function *f;
	uint64_t a[8];
	memcpy(&f, &code, sizeof(f));
	for (int i = 0; i < 8; i++)
		a[i] = seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
}

static uint8_t *put_jump(uint8_t *at, const uint8_t *to)
{
	static const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0};
	memcpy(at, jump, sizeof(jump));
	memcpy(at + sizeof(jump), &to, sizeof(to));
	return at + sizeof(jump) + sizeof(to);
}

static uint8_t *put_pop(uint8_t *at, int8_t reg)
{
	if (reg >= 8)
		*at++ = 0x41;
	if (reg >= 0)
		*at++ = (uint8_t)(0x58 | (reg & 7));
	return at;
}

static uint8_t *make_page(void)
{
	uint8_t *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(page != MAP_FAILED);
	memset(page, 0xcc, 4096);
	return page;
}

static void make_code(uint8_t *page)
{
	assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
}

/* A copy of the function, whose jump leads to an island that undoes its first bytes, and goes on
 * to what does all that the function does. Both are run: the island, and the function by its jump.
 */
static void run_sample(const struct sample *s)
{
	size_t len = (size_t)(s->end - s->code);
	struct prologue p = prologue_find(s->code, len, s->place, NEED);
	assert_int_equal(p.kept, s->kept);
	assert_int_equal(p.moved, s->moved);
	assert_int_equal(p.pushed, s->pushed);
	size_t both = (size_t)p.kept + p.moved;
	uint8_t *copy = make_page(), *island = make_page(), *at;
	memcpy(copy, s->code, len);
	at = put_pop(island, p.pushed);
	const uint8_t *original = at;
	at += prologue_move(&p.rips, s->code, both, (uint64_t)s->code, at);
	put_jump(at, copy + both);
	/* nobody is to run what is left of the moved bytes */
	memset(copy + p.kept, 0xcc, p.moved);
	put_jump(copy + p.kept, island);
	make_code(copy);
	make_code(island);
	for (uint64_t seed = 0; seed < 100; seed++) {
		uint64_t expected = call(s->code, seed);
		assert_int_equal(call(original, seed), expected);
		assert_int_equal(call(copy, seed), expected);
	}
	munmap(copy, 4096);
	munmap(island, 4096);
}

static void test_run(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(samples); i++) {
		print_message("%s\n", samples[i].what);
		run_sample(&samples[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_examples),	cmocka_unit_test(test_unmovable),
		cmocka_unit_test(test_unmovable_loops), cmocka_unit_test(test_unmovable_by_eip),
		cmocka_unit_test(test_behind_moved),	cmocka_unit_test(test_jumps_back),
		cmocka_unit_test(test_loops_back),	cmocka_unit_test(test_like_a_jump),
		cmocka_unit_test(test_longest),		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_any_bytes),	cmocka_unit_test(test_run),
		cmocka_unit_test(test_by_rip),		cmocka_unit_test(test_many_by_rip),
		cmocka_unit_test(test_conditions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
