/* insn_test.c - where probes are placed in prologues as compilers write them.
 *
 * links: base symbolize */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "symbolize/insn.h"

#define ENDBR64	    "\xf3\x0f\x1e\xfa"
#define PUSH_RBP    "\x55"
#define PUSH_R15    "\x41\x57"
#define NOP5	    "\x0f\x1f\x44\x00\x00"
#define SUB_RSP_8   "\x48\x83\xec\x08"
#define MOV_RAX_RDI "\x48\x89\xf8" /* mov %rdi,%rax */
#define MOV_RDI_RSI "\x48\x89\xf7" /* mov %rsi,%rdi: spoils an argument */
#define XOR_EDX	    "\x31\xd2"	   /* xor %edx,%edx: spoils an argument */
#define CMP_RDI_0   "\x48\x83\xff\x00"
#define RET	    "\xc3"
#define FILL	    "\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90"

struct example {
	const char *what;
	const char *code;
	size_t len;
	uint32_t offset;
	enum insn_cost cost;
	const char *text;
};
#define CODE(s) s, sizeof(s) - 1

static const struct example examples[] = {
	{"push first", CODE(PUSH_RBP MOV_RAX_RDI RET FILL), 0, INSN_EMULATED, "push"},
	{"push of a high register", CODE(PUSH_R15 MOV_RAX_RDI RET), 0, INSN_EMULATED, "push"},
	{"after endbr64", CODE(ENDBR64 PUSH_RBP MOV_RAX_RDI RET), 4, INSN_EMULATED, "push"},
	{"endbr64 and nothing better", CODE(ENDBR64 SUB_RSP_8 PUSH_RBP RET), 0, INSN_STEPPED,
	 "endbr64"},
	{"a 5-byte nop wins", CODE(ENDBR64 NOP5 PUSH_RBP RET), 4, INSN_NOP5, "nop"},
	{"harmless moves are passed", CODE(MOV_RAX_RDI PUSH_RBP RET), 3, INSN_EMULATED, "push"},
	{"not past a written argument", CODE(MOV_RDI_RSI PUSH_RBP RET), 0, INSN_STEPPED, "mov"},
	{"not past a written half of one", CODE(XOR_EDX PUSH_RBP RET), 0, INSN_STEPPED, "xor"},
	{"not past a moved stack pointer", CODE(SUB_RSP_8 PUSH_RBP RET), 0, INSN_STEPPED, "sub"},
	{"not past a pop", CODE("\x58" PUSH_RBP RET), 0, INSN_STEPPED, "pop"},
	{"not past a return", CODE(RET PUSH_RBP), 0, INSN_STEPPED, "ret"},
	{"not past an indirect jump", CODE("\xff\xe0" PUSH_RBP), 0, INSN_STEPPED, "jmp"},
	{"at a conditional jump", CODE(CMP_RDI_0 "\x74\x10" PUSH_RBP), 4, INSN_EMULATED, "je"},
	{"at a long conditional jump", CODE(CMP_RDI_0 "\x0f\x84\x10\x01\x00\x00" PUSH_RBP), 4,
	 INSN_EMULATED, "je"},
	{"at a call", CODE(MOV_RAX_RDI "\xe8\x00\x01\x00\x00" RET), 3, INSN_EMULATED, "call"},
	{"at a jump", CODE("\xe9\x00\x01\x00\x00"), 0, INSN_EMULATED, "jmp"},
	{"at a nop", CODE("\x90" RET FILL), 0, INSN_EMULATED, "nop"},
	/* jne at 8, 2 bytes: to 4 and to 5 */
	{"a loop back to the place", CODE(CMP_RDI_0 "\x90" MOV_RAX_RDI "\x75\xfa" RET), 0,
	 INSN_STEPPED, "cmp"},
	{"a loop that lands past it", CODE(CMP_RDI_0 "\x90" MOV_RAX_RDI "\x75\xfb" RET), 4,
	 INSN_EMULATED, "nop"},
	/* mov $0xfc75,%eax at 5 holds bytes that would be a jne to 4 */
	{"bytes like a loop", CODE(CMP_RDI_0 "\x90\xb8\x75\xfc\x00\x00" RET FILL), 4, INSN_EMULATED,
	 "nop"},
	{"lock is refused", CODE("\xf0\x48\xff\x07"), 0, INSN_FORBIDDEN, "lock inc"},
	{"what follows it is not", CODE("\xf0\x48\xff\x07" RET), 4, INSN_STEPPED, "ret"},
	{"hlt is refused", CODE("\xf4" RET), 0, INSN_FORBIDDEN, "hlt"},
	{"int3 is refused", CODE("\xcc" PUSH_RBP), 0, INSN_FORBIDDEN, "int3"},
	{"syscall is refused", CODE("\x0f\x05" RET), 0, INSN_FORBIDDEN, "syscall"},
	{"lar is refused, the push after it not", CODE("\x0f\x02\xc0" PUSH_RBP), 3, INSN_EMULATED,
	 "push"},
	{"a 16-bit nop is refused by older kernels", CODE("\x66\x90" PUSH_RBP RET), 2,
	 INSN_EMULATED, "push"},
	{"a segment prefix on a jump is refused", CODE("\x3e\xff\xe0"), 0, INSN_FORBIDDEN, NULL},
	{"AVX is stepped", CODE("\xc5\xf8\x77" RET), 0, INSN_STEPPED, "vzeroupper"},
	{"AVX-512 is refused", CODE("\x62\xf1\x7c\x48\x28\xc1"), 0, INSN_FORBIDDEN, NULL},
	{"no code", CODE(""), 0, INSN_FORBIDDEN, "(bad)"},
	{"not an instruction", CODE("\x06\x06\x06"), 0, INSN_FORBIDDEN, "(bad)"},
};

static void test_examples(void **state)
{
	int failed = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		const struct example *x = &examples[i];
		struct insn_place p = insn_choose((const uint8_t *)x->code, x->len, 1);

		if (p.offset == x->offset && p.cost == x->cost &&
		    (!x->text || strcmp(p.text, x->text) == 0))
			continue;
		print_error("%s: place %u, cost %d, \"%s\"; expected %u, %d, \"%s\"\n", x->what,
			    p.offset, p.cost, p.text, x->offset, x->cost, x->text ? x->text : "");
		failed++;
	}
	assert_int_equal(failed, 0);
}

/* Every pair of leading bytes: the place is always within the code. */
static void test_any_bytes(void **state)
{
	uint8_t code[18];

	(void)state;
	memset(code, 0x90, sizeof(code));
	for (unsigned int i = 0; i < 0x10000; i++) {
		struct insn_place p;

		code[0] = i >> 8;
		code[1] = i & 0xff;
		p = insn_choose(code, sizeof(code), 0);
		assert_in_range(p.cost, INSN_NOP5, INSN_FORBIDDEN);
		assert_in_range(p.offset, 0, sizeof(code) - 1);
	}
}

static void test_calls(void **state)
{
	/* at 0x1000: call 0x1010; movabs whose number looks like such a call; call 0x2000;
	 * call 0x1010 */
	static const uint8_t code[] = {0xe8, 0x0b, 0x00, 0x00, 0x00, 0x48, 0xb8, 0xe8, 0x04,
				       0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xe8, 0xec, 0x0f,
				       0x00, 0x00, 0xe8, 0xf7, 0xff, 0xff, 0xff, 0xc3};
	uint64_t at[2] = {0};

	(void)state;
	assert_int_equal(insn_find_calls(code, sizeof(code), 0x1000, 0x1010, at, 2), 2);
	assert_int_equal(at[0], 0x1000);
	assert_int_equal(at[1], 0x1014);
	assert_int_equal(insn_find_calls(code, sizeof(code), 0x1000, 0x1010, at, 1), 2);
	assert_int_equal(insn_find_calls(code, sizeof(code), 0x1000, 0x3000, at, 2), 0);
	assert_int_equal(insn_find_calls(code, 0, 0x1000, 0x1010, at, 2), 0);
	assert_int_equal(insn_find_calls((const uint8_t *)"\x06\xc3", 2, 0, 0, at, 2), -EILSEQ);
	assert_int_equal(insn_find_calls(code, 12, 0x1000, 0x1010, at, 2), -EILSEQ);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_examples),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
