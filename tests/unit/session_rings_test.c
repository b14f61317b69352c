/* session_rings_test.c - how large the rings of a session that is always on are.
 *
 * links: cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session/session_impl.h"

#define MB (1u << 20)

/* On few CPUs 2 MB each, on some 1 MB, and on many what 32 MB are enough for. */
static void rings_are_small_and_few_take_little(void **state)
{
	(void)state;
	const struct session_options always = {.always_on = true}, other = {.always_on = false};
	static const struct {
		long cpus;
		uint32_t bytes;
	} expected[] = {{1, 2 * MB}, {2, 2 * MB}, {8, 2 * MB},	{16, MB},
			{24, MB},    {32, MB},	  {64, MB / 2}, {128, MB / 4}};
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		assert_int_equal(session_ring_bytes(&always, expected[i].cpus), expected[i].bytes);
	assert_int_equal(session_ring_bytes(&other, 16), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rings_are_small_and_few_take_little),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
