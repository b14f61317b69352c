/* unwind_pool_test.c - words lie where BPF looks for them; room comes in as few steps as can be,
 * since the kernel is waited for at each. Needs root.
 * links: probe symbolize parser base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <cmocka.h>

#include "probe/unwind_pool.h"

#define SEGMENTS 8

/* An array of segments as bpf/stack_tables.h has it. */
static int make_array(void)
{
	DECLARE_LIBBPF_OPTS(bpf_map_create_opts, flags, .map_flags = BPF_F_MMAPABLE);
	int inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "words", 4, sizeof(struct unwind_words),
				   UNWIND_SEGMENT_WORDS / UNWIND_WORDS, &flags);
	DECLARE_LIBBPF_OPTS(bpf_map_create_opts, opts, .inner_map_fd = (uint32_t)inner);
	int array = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "pool", 4, 4, SEGMENTS, &opts);
	close(inner);
	return array;
}

static void setup(struct unwind_pool *p)
{
	if (geteuid() != 0)
		skip(); /* needs root */
	int array = make_array();
	assert_true(array >= 0);
	unwind_pool_init(p, array);
}

static void teardown(struct unwind_pool *p)
{
	close(p->map);
	unwind_pool_free(p);
}

/* As a program reads it: by the array's element, which is a map's number. */
static uint32_t word_at(const struct unwind_pool *p, uint32_t at)
{
	struct unwind_words words;
	uint32_t segment = at / UNWIND_SEGMENT_WORDS, id;
	uint32_t element = at % UNWIND_SEGMENT_WORDS / UNWIND_WORDS;
	assert_int_equal(bpf_map_lookup_elem(p->map, &segment, &id), 0);
	int fd = bpf_map_get_fd_by_id(id);
	assert_true(fd >= 0);
	assert_int_equal(bpf_map_lookup_elem(fd, &element, &words), 0);
	close(fd);
	return words.w[at % UNWIND_WORDS];
}

static uint32_t *numbers(uint32_t len)
{
	uint32_t *words = calloc(len, sizeof(*words));
	assert_non_null(words);
	for (uint32_t i = 0; i < len; i++)
		words[i] = i * 3 + 1;
	return words;
}

static void words_longer_than_a_segment_are_found(void **state)
{
	(void)state;
	struct unwind_pool p;
	setup(&p);
	uint32_t len = 2 * UNWIND_SEGMENT_WORDS + 100, at;
	uint32_t *words = numbers(len);
	assert_true(unwind_pool_reserve(&p, 1));
	assert_true(unwind_pool_put(&p, words, len, &at));
	assert_int_equal(p.nsegments, 4); /* all that is missing at once, however it lies */
	for (uint32_t i = 0; i < len; i += 65521)
		assert_int_equal(word_at(&p, at + i), words[i]);
	assert_int_equal(word_at(&p, at + len - 1), words[len - 1]);
	free(words);
	teardown(&p);
}

static void what_was_reserved_is_used_first(void **state)
{
	(void)state;
	struct unwind_pool p;
	uint32_t at[3];
	setup(&p);
	uint32_t *words = numbers(UNWIND_SEGMENT_WORDS);
	assert_true(unwind_pool_reserve(&p, 2));
	assert_true(unwind_pool_put(&p, words, UNWIND_SEGMENT_WORDS, &at[0]));
	assert_true(unwind_pool_put(&p, words, UNWIND_SEGMENT_WORDS, &at[1]));
	assert_int_equal(p.nsegments, 2);
	unwind_pool_give(&p, at[0], UNWIND_SEGMENT_WORDS);
	assert_true(unwind_pool_put(&p, words, UNWIND_SEGMENT_WORDS, &at[2]));
	assert_int_equal(at[2], at[0]);
	assert_int_equal(p.nsegments, 2);
	free(words);
	teardown(&p);
}

static void one_that_spares_gets_no_more_than_it_needs(void **state)
{
	(void)state;
	struct unwind_pool p;
	uint32_t at;
	setup(&p);
	p.spares = true;
	for (uint32_t i = 1; i <= 6; i++) {
		assert_true(unwind_pool_take(&p, UNWIND_SEGMENT_WORDS, &at));
		assert_int_equal(p.nsegments, i);
	}
	teardown(&p);
}

static void there_is_no_more_than_the_array_holds(void **state)
{
	(void)state;
	struct unwind_pool p;
	setup(&p);
	assert_false(unwind_pool_reserve(&p, SEGMENTS + 1));
	assert_int_equal(p.nsegments, 0);
	assert_true(unwind_pool_reserve(&p, SEGMENTS));
	assert_false(unwind_pool_reserve(&p, 1));
	assert_int_equal(p.nsegments, SEGMENTS);
	teardown(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_longer_than_a_segment_are_found),
		cmocka_unit_test(what_was_reserved_is_used_first),
		cmocka_unit_test(one_that_spares_gets_no_more_than_it_needs),
		cmocka_unit_test(there_is_no_more_than_the_array_holds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
