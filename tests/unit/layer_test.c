/* layer_test.c - the table of layers: numbers that never change, names, traits.
 *
 * links: base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <linux/types.h>

#include <cmocka.h>

#include "base/layer.h"
#include "wire/event.h"

/* On the wire, and so in what BPF programs hold. */
_Static_assert(LAYER_CUDA == 0 && LAYER_NCCL == 1 && LAYER_TORCH == 2 && LAYER_PYTHON == 3 &&
		       LAYER_GPU == 4 && LAYER_HOST == 5 && LAYER_CPU == 6 && LAYER_USER == 7 &&
		       LAYER_HARDWARE == 8 && LAYER_STEP == 9,
	       "a layer's number never changes");
_Static_assert(LAYERS_MAX >= 32 && LAYERS_MAX <= 256, "a cookie has a byte for it, a set 32 bits");
_Static_assert(LAYER_NAMED < LAYERS_MAX, "files name layers too");

static void names(void **state)
{
	(void)state;
	for (enum layer i = 0; i < LAYER_NAMED; i++) {
		assert_true(strlen(layer_name(i)) && strlen(layer_name(i)) < LAYER_NAME_BYTES);
		assert_int_equal(layer_of_name(layer_name(i)), i);
	}
	assert_string_equal(layer_name(LAYER_NAMED), "");
	assert_int_equal(layer_of_name("mylib"), LAYER_NAMED);
	assert_int_equal(layer_of_name(""), LAYER_NAMED);
	assert_string_equal(LAYER_LIST, "cuda, nccl, torch, python, gpu, user, mpi, ");
	assert_string_equal(LAYER_CHOICES LAYER_ALL, "cuda|nccl|torch|python|gpu|user|mpi|all");
}

static void traits(void **state)
{
	(void)state;
	assert_int_equal(layers_with(LAYER_IS_WORK),
			 1u << LAYER_CUDA | 1u << LAYER_NCCL | 1u << LAYER_TORCH | 1u << LAYER_MPI);
	assert_int_equal(layers_with(LAYER_HAS_COLLECTIVES | LAYER_HAS_GPUS),
			 1u << LAYER_NCCL | 1u << LAYER_GPU);
	assert_true(layer_traits_of_name("torch") & LAYER_HAS_OPERATORS);
	assert_false(layer_traits_of_name("python") & (LAYER_IS_WORK | LAYER_NEEDS_GPU));
	/* what only files name is chosen and judged by its calls, and nothing else */
	assert_int_equal(layer_traits_of_name("mylib"), LAYER_IS_CHOSEN | LAYER_BY_CALLS);
	assert_int_equal(layer_traits(LAYERS_MAX - 1), LAYER_IS_CHOSEN | LAYER_BY_CALLS);
	/* each is judged in one way at most */
	for (enum layer i = 0; i <= LAYER_NAMED; i++) {
		unsigned ways =
			layer_traits(i) & (LAYER_BY_CALLS | LAYER_BY_COUNTERS | LAYER_BY_STEPS);
		assert_int_equal(ways & (ways - 1), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(traits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
