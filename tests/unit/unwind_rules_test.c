/* unwind_rules_test.c - rows of a table that are left in its file are found once their page is
 * loaded, and until then nowhere; room is given back whole. Needs root.
 * links: probe symbolize parser base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <cmocka.h>

#include "probe/unwind_rules.h"

#define SEGMENTS 2
#define RULES_AT 24

/* Three pages, of which the second has no rows; two rules. */
static uint32_t words[RULES_AT + 2 * UNWIND_RULE_WORDS] = {
	[UNWIND_HEAD_WORDS] = 0, 2, 2, 5, 0x10000, 0x20010, 0x10000, 0x20020, 0x10030,
};

static struct unwind_table table = {words, sizeof(words) / sizeof(words[0])};

static void make_table(void)
{
	struct unwind_table_head h = {.text_start = 0x40000,
				      .npages = 3,
				      .nrows = 5,
				      .nrules = 2,
				      .pages_at = UNWIND_HEAD_WORDS,
				      .rows_at = UNWIND_HEAD_WORDS + 4,
				      .rules_at = RULES_AT,
				      .words = (uint32_t)table.len};
	memcpy(words, &h, sizeof(h));
	for (uint32_t i = RULES_AT; i < table.len; i++)
		words[i] = 1000 + i;
}

static int file_of(const void *bytes, size_t len)
{
	int fd = memfd_create("table", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	return fd;
}

static void setup(struct unwind_pool *p)
{
	if (geteuid() != 0)
		skip(); /* needs root */
	DECLARE_LIBBPF_OPTS(bpf_map_create_opts, flags, .map_flags = BPF_F_MMAPABLE);
	int inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "words", 4, sizeof(struct unwind_words),
				   UNWIND_SEGMENT_WORDS / UNWIND_WORDS, &flags);
	DECLARE_LIBBPF_OPTS(bpf_map_create_opts, opts, .inner_map_fd = (uint32_t)inner);
	int array = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "pool", 4, 4, SEGMENTS, &opts);
	close(inner);
	assert_true(array >= 0);
	unwind_pool_init(p, array);
	make_table();
}

static void teardown(struct unwind_pool *p)
{
	assert_int_equal(p->used_words, 0);
	close(p->map);
	unwind_pool_free(p);
}

static uint32_t entry(const struct unwind_pool *p, const struct unwind_rules *r, uint32_t page,
		      uint32_t word)
{
	return unwind_pool_word(p, r->ref.pages_at + page * UNWIND_PAGE_WORDS + word);
}

static void has_rows(const struct unwind_pool *p, const struct unwind_rules *r, uint32_t page,
		     uint32_t first, uint32_t n)
{
	uint32_t at = entry(p, r, page, 0);
	assert_int_equal(entry(p, r, page, 1), n);
	assert_false(unwind_rules_lack(p, r, page));
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(unwind_pool_word(p, at + i),
				 words[UNWIND_HEAD_WORDS + 4 + first + i]);
}

static void has_rules(const struct unwind_pool *p, const struct unwind_rules *r)
{
	assert_int_equal(r->ref.rules_at % UNWIND_RULE_WORDS, 0);
	assert_int_equal(r->ref.text_start, 0x40000);
	assert_int_equal(r->ref.npages, 3);
	for (uint32_t i = 0; i < 2 * UNWIND_RULE_WORDS; i++)
		assert_int_equal(unwind_pool_word(p, r->ref.rules_at + i), 1000 + RULES_AT + i);
}

static void without_a_file_all_rows_are_there(void **state)
{
	(void)state;
	struct unwind_pool p;
	setup(&p);
	struct unwind_rules *r = unwind_rules_put(&p, &table, -1);
	assert_non_null(r);
	has_rules(&p, r);
	has_rows(&p, r, 0, 0, 2);
	has_rows(&p, r, 1, 2, 0);
	has_rows(&p, r, 2, 2, 3);
	unwind_rules_give(&p, r);
	teardown(&p);
}

static void rows_come_page_by_page(void **state)
{
	(void)state;
	struct unwind_pool p;
	setup(&p);
	struct unwind_rules *r = unwind_rules_put(&p, &table, file_of(words, sizeof(words)));
	assert_non_null(r);
	has_rules(&p, r);
	assert_true(unwind_rules_lack(&p, r, 0));
	assert_true(unwind_rules_lack(&p, r, 2));
	has_rows(&p, r, 1, 2, 0);
	assert_false(unwind_rules_lack(&p, r, 3)); /* there is no such page */
	assert_true(unwind_rules_load(&p, r, 2));
	has_rows(&p, r, 2, 2, 3);
	assert_true(unwind_rules_lack(&p, r, 0));
	unwind_rules_give(&p, r);
	teardown(&p);
}

static void a_page_that_cannot_be_read_has_no_rows(void **state)
{
	(void)state;
	struct unwind_pool p;
	setup(&p);
	struct unwind_rules *r = unwind_rules_put(&p, &table, file_of(words, 17 * 4));
	assert_non_null(r);
	assert_true(unwind_rules_load(&p, r, 2));
	has_rows(&p, r, 2, 0, 0);
	unwind_rules_give(&p, r);
	teardown(&p);
}

static void where_there_is_no_room_a_page_stays_absent(void **state)
{
	(void)state;
	struct unwind_pool p;
	uint32_t at, size = SEGMENTS * UNWIND_SEGMENT_WORDS;
	setup(&p);
	assert_true(unwind_pool_reserve(&p, SEGMENTS));
	struct unwind_rules *r = unwind_rules_put(&p, &table, file_of(words, sizeof(words)));
	assert_non_null(r);
	uint32_t left = size - (uint32_t)p.used_words;
	assert_true(unwind_pool_take(&p, left, &at));
	assert_false(unwind_rules_load(&p, r, 0));
	assert_true(unwind_rules_lack(&p, r, 0));
	assert_null(unwind_rules_put(&p, &table, -1));
	unwind_pool_give(&p, at, left);
	assert_true(unwind_rules_load(&p, r, 0));
	has_rows(&p, r, 0, 0, 2);
	unwind_rules_give(&p, r);
	teardown(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_file_all_rows_are_there),
		cmocka_unit_test(rows_come_page_by_page),
		cmocka_unit_test(a_page_that_cannot_be_read_has_no_rows),
		cmocka_unit_test(where_there_is_no_room_a_page_stays_absent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
