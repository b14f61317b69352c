/* plan_question_test.c - whatever changes what a file is found to hold changes the bytes that stand
 * for the question, and nothing else does.
 *
 * links: base symbolize probe parser */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <cmocka.h>

#include "probe/file_facts.h"
#include "probe/plan.h"

#define PATH "/usr/lib/liba.so"

static const char base[] = "catalog: 1\nlayer: cuda\n"
			   "libraries: [\"liba.so\"]\n"
			   "probes:\n"
			   "  - id: a.one\n"
			   "    symbols: [\"one\", \"two*\"]\n"
			   "    signature: (u64 a, size n) -> int\n";

static void parse(struct catalog *c, const char *text)
{
	struct err e = {""};
	if (catalog_parse(c, text, strlen(text), "test", &e))
		fail_msg("%s", e.msg);
}

static struct buf question_of(const struct plan *p, const char *path)
{
	struct library_names names = {0};
	struct buf b = {0};
	library_names_add(&names, p->catalog);
	plan_question(p, &names, path, &b);
	library_names_free(&names);
	return b;
}

static bool same(struct buf a, struct buf b)
{
	bool equal = a.len == b.len && !memcmp(a.data, b.data, a.len);
	buf_free(&a);
	buf_free(&b);
	return equal;
}

/* Whether the text asks what base asks. */
static bool asks_the_same(const char *text)
{
	struct catalog one = {0}, two = {0};
	struct plan p = {.catalog = &one, .layers = ~0u}, q = {.catalog = &two, .layers = ~0u};
	parse(&one, base);
	parse(&two, text);
	bool equal = same(question_of(&p, PATH), question_of(&q, PATH));
	catalog_free(&one);
	catalog_free(&two);
	return equal;
}

#define HEAD	"catalog: 1\nlayer: cuda\nlibraries: [\"liba.so\"]\nprobes:\n  - id: a.one\n"
#define SYMBOLS "    symbols: [\"one\", \"two*\"]\n"
#define ARGS	"    signature: (u64 a, size n) -> int\n"

static void test_entries(void **state)
{
	static const char *const others[] = {
		"catalog: 1\nlayer: nccl\nlibraries: [\"liba.so\"]\nprobes:\n  - id: "
		"a.one\n" SYMBOLS ARGS,
		"catalog: 1\nlayer: cuda\nlibraries: [\"lib?.so\"]\nprobes:\n  - id: "
		"a.one\n" SYMBOLS ARGS,
		HEAD "    symbols: [\"one\"]\n" ARGS,
		HEAD "    symbols: [\"onet\", \"wo*\"]\n" ARGS,
		HEAD SYMBOLS "    exclude: [\"two1\"]\n" ARGS,
		HEAD SYMBOLS "    signature: (u64 a, size n) -> u64\n",
		HEAD SYMBOLS "    signature: (u32 a, size n) -> int\n",
		HEAD SYMBOLS "    signature: (u64 a, size m) -> int\n",
		HEAD SYMBOLS "    signature: (u64 a) -> int\n",
		HEAD SYMBOLS ARGS "    name: other\n",
		HEAD SYMBOLS ARGS "    role: launch\n",
		HEAD SYMBOLS ARGS "    cost: high\n",
		HEAD SYMBOLS ARGS "    stack: 1/100\n",
		HEAD SYMBOLS ARGS "    enabled: false\n",
	};
	(void)state;
	assert_true(asks_the_same(base));
	assert_true(asks_the_same(HEAD SYMBOLS ARGS "    about: One sentence.\n"));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (asks_the_same(others[i]))
			fail_msg("the same as:\n%s", others[i]);
}

/* Entries about other files change nothing, unless those before are counted otherwise. */
static void test_other_files(void **state)
{
	struct catalog c = {0};
	struct plan p = {.catalog = &c, .layers = ~0u};
	struct err e;
	(void)state;
	parse(&c, base);
	struct buf before = question_of(&p, PATH);
	assert_int_equal(catalog_add_spec(&c, "libb.so:three(u64 a) -> int", &e), 0);
	assert_true(same(before, question_of(&p, PATH)));
	before = question_of(&p, PATH);
	assert_int_equal(catalog_add_spec(&c, "liba.so:three(u64 a) -> int", &e), 0);
	assert_false(same(before, question_of(&p, PATH)));
	assert_false(same(question_of(&p, PATH), question_of(&p, "/lib/liba.so")));
	catalog_free(&c);
}

static void test_options(void **state)
{
	struct catalog c = {0};
	const struct plan p = {.catalog = &c, .layers = ~0u};
	struct plan q[6] = {p, p, p, p, p, p};
	(void)state;
	parse(&c, base);
	q[0].frequent = true;
	q[1].all_entries = true;
	q[2].stacks = true;
	q[3].allocators = true;
	q[4].layers = 1u << LAYER_PYTHON;
	q[5].callers = true;
	assert_true(same(question_of(&p, PATH), question_of(&p, PATH)));
	for (int i = 0; i < 6; i++)
		assert_false(same(question_of(&p, PATH), question_of(&q[i], PATH)));
	/* layers that have nothing to do with the file */
	q[4].layers = 1u << LAYER_CUDA;
	assert_true(same(question_of(&p, PATH), question_of(&q[4], PATH)));
	catalog_free(&c);
}

/* Whether the names of a catalog's libraries match, which is what its entries say. */
static bool names_match(const struct catalog *c, const char *path)
{
	const struct plan p = {.catalog = c, .layers = ~0u};
	struct library_names names = {0};
	bool match, wanted = false;
	library_names_add(&names, c);
	match = library_names_match(&names, path);
	for (size_t i = 0; i < c->entries.len; i++)
		wanted |= plan_entry_wants(&p, &c->entries.data[i], path);
	assert_true(match == wanted);
	library_names_free(&names);
	return match;
}

static void test_names_of_libraries(void **state)
{
	static const char *const specs[] = {"liba.so:one()",	 "liba.so:two()",
					    "libb.so*:one()",	 "/opt/lib?.so:one()",
					    "lib[cd]e.so:one()", "lib\\*.so:one()"};
	static const char *const matching[] = {"/lib/liba.so",	 "liba.so",	 "/usr/libb.so",
					       "/usr/libb.so.1", "/opt/libx.so", "/x/libce.so",
					       "/x/lib*.so"};
	static const char *const others[] = {
		"/lib/liba.so.1", "/lib/liba.s", "/lib/lib",	"/lib/libx.so",
		"/x/libee.so",	  "/liba.so/x",	 "/x/libxy.so", ""};
	struct catalog c = {0};
	struct err e = {""};
	(void)state;
	assert_false(names_match(&c, "/lib/liba.so"));
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		assert_int_equal(catalog_add_spec(&c, specs[i], &e), 0);
	for (size_t i = 0; i < sizeof(matching) / sizeof(matching[0]); i++)
		assert_true(names_match(&c, matching[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(names_match(&c, others[i]));
	catalog_free(&c);
}

/* What the session has found so far is no part of an answer: it is the next session's too. */
static void test_answers_stand_alone(void **state)
{
	struct catalog c = {0};
	struct plan p = {.catalog = &c, .layers = ~0u};
	struct file_facts facts;
	struct buf first = {0}, second = {0};
	struct err e = {""};
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	(void)state;
	assert_int_equal(catalog_add_spec(&c, "liba.so:main(i32 n) -> int", &e), 0);
	assert_int_equal(file_facts_answer(&p, fd, (const uint8_t *)PATH, strlen(PATH), &first, &e),
			 0);
	assert_int_equal(file_facts_take(&facts, &p, PATH, first.data, first.len, &e), 0);
	assert_int_equal(p.probes.len, 1);
	file_facts_free(&facts);
	assert_int_equal(
		file_facts_answer(&p, fd, (const uint8_t *)PATH, strlen(PATH), &second, &e), 0);
	assert_true(same(first, second));
	plan_free(&p);
	catalog_free(&c);
	close(fd);
}

static void answer_of(struct plan *p, const char *path, struct buf *ret)
{
	struct err e = {""};
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(file_facts_answer(p, fd, (const uint8_t *)path, strlen(path), ret, &e), 0);
	close(fd);
}

/* A program is started again and again, or is in many containers: numbers of probes are bounded. */
static void test_numbers_are_used_again(void **state)
{
	static const char *const paths[] = {"/lib/liba.so", "/lib/libb.so", "/opt/liba.so"};
	struct catalog c = {0};
	struct plan p = {.catalog = &c, .layers = ~0u};
	struct err e = {""};
	(void)state;
	assert_int_equal(catalog_add_spec(&c, "lib?.so:main(i32 n) -> int", &e), 0);
	for (uint32_t turn = 0; turn < 9; turn++) {
		struct buf answer = {0};
		struct file_facts facts;
		const char *path = paths[turn % 3];
		answer_of(&p, path, &answer);
		assert_int_equal(file_facts_take(&facts, &p, path, answer.data, answer.len, &e), 0);
		assert_int_equal(p.probes.len, turn < 3 ? turn + 1 : 3);
		assert_int_equal(facts.plan.sites.data[0].probe, turn % 3);
		assert_int_equal(COOKIE_PROBE(facts.plan.sites.data[0].cookie), turn % 3);
		assert_string_equal(p.probes.data[turn % 3].library, path);
		/* one that is cut off leaves them as they are */
		assert_int_equal(file_facts_take(&facts, &p, path, answer.data, answer.len - 1, &e),
				 -EPROTO);
		assert_int_equal(p.probes.len, turn < 3 ? turn + 1 : 3);
		file_facts_free(&facts);
		buf_free(&answer);
	}
	plan_free(&p);
	catalog_free(&c);
}

/* What an answer says of a place's instruction is in what the programs are given: what they cost is
 * reckoned by it. */
static void test_cookies(void **state)
{
	const struct cat_entry en = {.layer = LAYER_CUDA};
	const struct probe_info info = {.id = 7, .entry = &en, .name_arg = -1};
	uint64_t emulated = plan_cookie(&info, SITE_SPAN, INSN_EMULATED);
	uint64_t stepped = plan_cookie(&info, SITE_SPAN, INSN_STEPPED);
	(void)state;
	assert_false(COOKIE_STEPPED(emulated));
	assert_true(COOKIE_STEPPED(stepped));
	assert_int_equal(COOKIE_PROBE(stepped), 7);
	assert_int_equal(stepped & ~COOKIE_IS_STEPPED, emulated);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cookies),
		cmocka_unit_test(test_entries),
		cmocka_unit_test(test_other_files),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_names_of_libraries),
		cmocka_unit_test(test_answers_stand_alone),
		cmocka_unit_test(test_numbers_are_used_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
