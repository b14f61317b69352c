/* inside_jump_test.c - jumps between a function and its island, near ones and far ones: what is
 * written, and that where it leads is known again.
 *
 * links: base symbolize probe parser */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "probe/inside_jump.h"

#define AT 0x7f0012345678UL

/* jmp rel32, and nothing that anybody runs. */
static void is_near(uint64_t address, uint64_t to)
{
	uint8_t jump[CALL_JUMP_BYTES];
	int32_t distance;
	inside_put_jump(address, to, jump);
	assert_int_equal(jump[0], 0xe9);
	memcpy(&distance, jump + 1, sizeof(distance));
	assert_true(address + 5 + (uint64_t)(int64_t)distance == to);
	for (size_t i = 5; i < CALL_JUMP_BYTES; i++)
		assert_int_equal(jump[i], 0xcc);
	assert_true(inside_jump_leads_to(address, jump) == to);
}

/* jmp *0(%rip), and the address. */
static void is_far(uint64_t address, uint64_t to)
{
	static const uint8_t code[] = {0xff, 0x25, 0, 0, 0, 0};
	uint8_t jump[CALL_JUMP_BYTES];
	inside_put_jump(address, to, jump);
	assert_memory_equal(jump, code, sizeof(code));
	assert_memory_equal(jump + sizeof(code), &to, sizeof(to));
	assert_true(inside_jump_leads_to(address, jump) == to);
}

static void near_ones_are_direct(void **state)
{
	(void)state;
	is_near(AT, AT + 0x100000);
	is_near(AT, AT - 0x100000);
	is_near(AT, AT + CALL_JUMP_BYTES);
}

/* The last that a signed distance of 32 bits from the jump's end reaches, and one beyond. */
static void what_is_too_far_has_the_address(void **state)
{
	(void)state;
	is_near(AT, AT + 5 + INT32_MAX);
	is_far(AT, AT + 5 + INT32_MAX + 1UL);
	is_near(AT, AT + 5 - (1UL << 31));
	is_far(AT, AT + 5 - (1UL << 31) - 1);
	is_far(0x400000, AT);
	is_far(AT, 0x400000);
}

static void others_code_is_no_jump_of_ours(void **state)
{
	(void)state;
	/* jmp *0x10(%rip); call rel32; nop */
	static const uint8_t code[][CALL_JUMP_BYTES] = {
		{0xff, 0x25, 0x10}, {0xe8, 1}, {0x90, 0x90, 0x90}};
	for (size_t i = 0; i < sizeof(code) / sizeof(code[0]); i++)
		assert_true(inside_jump_leads_to(AT, code[i]) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(near_ones_are_direct),
		cmocka_unit_test(what_is_too_far_has_the_address),
		cmocka_unit_test(others_code_is_no_jump_of_ours),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
