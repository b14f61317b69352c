/* options_test.c - command lines against an option table, and what is made from it.
 * links: cli base */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "base/human.h"
#include "cli/manual.h"
#include "cli/options.h"

static const struct opt_def table[] = {
	{'o', "output", "FILE", "Where to write.", NULL, OPT_FILE},
	{'n', "top", "N", "How many.", NULL, 0},
	{'s', "sort", "KEY", "By what.", "total|self", 0},
	{'l', "layer", "LAYER", "Which.", NULL, OPT_REPEAT},
	{'v', "verbose", NULL, "More.", NULL, 0},
	{'q', "quiet", NULL, "Less; \\ and - stay as they are.", NULL, 0},
	{0, "timeline", "WHEN", "Time line.", "on|off", OPT_OPTIONAL_VALUE},
	{0},
};
static const char *const paragraphs[] = {".dot at the start", "second", NULL};
static const struct cmd_example examples[] = {{"eacgm try a", "Tries."}, {0}};
static const struct command cmd = {
	.name = "try",
	.synopsis = "FILE [OPTION...]",
	.summary = "try things",
	.description = paragraphs,
	.options = table,
	.examples = examples,
	.max_args = 1,
};
static const struct command cmd_rest = {
	.name = "run", .synopsis = "-- CMD", .options = table, .takes_rest = true};

static int parse_as(struct args *a, const struct command *c, const char *line, struct err *e)
{
	static char copy[512];
	static char *argv[64];
	int argc = 0;
	snprintf(copy, sizeof(copy), "%s", line);
	for (char *p = strtok(copy, " "); p; p = strtok(NULL, " "))
		argv[argc++] = p;
	argv[argc] = NULL;
	return args_parse(a, c, argc, argv, e);
}

static void fails_with(const struct command *c, const char *line, const char *sentence)
{
	struct args a;
	struct err e = {0};
	assert_int_equal(parse_as(&a, c, line, &e), -EINVAL);
	assert_string_equal(e.msg, sentence);
	args_free(&a);
}

static void forms_of_options(void **state)
{
	(void)state;
	struct args a;
	struct err e;
	const char *const lines[] = {"-o x --top 5 -v file", "--output x -n5 -v file",
				     "file --output=x --top=5 --verbose", "-vn5 -ox file",
				     "-vo x -n 5 -- file"};
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		uint64_t top = 0;
		assert_int_equal(parse_as(&a, &cmd, lines[i], &e), 0);
		assert_string_equal(args_get(&a, "output"), "x");
		assert_int_equal(args_u64(&a, "top", 0, 10, &top, &e), 0);
		assert_int_equal(top, 5);
		assert_true(args_has(&a, "verbose"));
		assert_false(args_has(&a, "quiet"));
		assert_null(args_get(&a, "sort"));
		assert_int_equal(a.words.len, 1);
		assert_string_equal(a.words.data[0], "file");
		assert_null(a.rest);
		args_free(&a);
	}
}

static void repeated_optional_and_odd_values(void **state)
{
	(void)state;
	struct args a;
	struct err e;
	assert_int_equal(parse_as(&a, &cmd, "-l a --layer=b -l c --timeline -o - -", &e), 0);
	assert_int_equal(args_count(&a, "layer"), 3);
	assert_string_equal(args_nth(&a, "layer", 0), "a");
	assert_string_equal(args_nth(&a, "layer", 2), "c");
	assert_null(args_nth(&a, "layer", 3));
	assert_string_equal(args_get(&a, "layer"), "c");
	assert_string_equal(args_get(&a, "timeline"), "");
	assert_string_equal(args_get(&a, "output"), "-");
	assert_string_equal(a.words.data[0], "-");
	args_free(&a);
	assert_int_equal(parse_as(&a, &cmd, "--timeline=off --output=", &e), 0);
	assert_string_equal(args_get(&a, "timeline"), "off");
	assert_string_equal(args_get(&a, "output"), "");
	args_free(&a);
}

static void rest_is_untouched(void **state)
{
	(void)state;
	struct args a;
	struct err e;
	assert_int_equal(parse_as(&a, &cmd_rest, "-v -- prog --top -x -- y", &e), 0);
	assert_int_equal(a.rest_len, 5);
	assert_string_equal(a.rest[0], "prog");
	assert_string_equal(a.rest[1], "--top");
	assert_string_equal(a.rest[3], "--");
	assert_null(a.rest[5]);
	assert_false(args_has(&a, "top"));
	args_free(&a);
	fails_with(&cmd_rest, "--", "no command after '--'");
	fails_with(&cmd_rest, "prog", "unexpected argument 'prog': a command comes after '--'");
}

static void mistakes_have_sentences(void **state)
{
	(void)state;
	fails_with(&cmd, "--foo", "unknown option '--foo'");
	fails_with(&cmd, "--foo=1", "unknown option '--foo'");
	fails_with(&cmd, "--laers x", "unknown option '--laers', did you mean '--layer'?");
	fails_with(&cmd, "--out x", "unknown option '--out', did you mean '--output'?");
	fails_with(&cmd, "-x", "unknown option '-x'");
	fails_with(&cmd, "-vx", "unknown option '-x'");
	fails_with(&cmd, "-o", "option '-o' needs a value: FILE");
	fails_with(&cmd, "a --output", "option '--output' needs a value: FILE");
	fails_with(&cmd, "--verbose=1", "option '--verbose' takes no value");
	fails_with(&cmd, "-v --verbose", "option '--verbose' is given twice");
	fails_with(&cmd, "-s max", "option '-s' takes one of total|self, not 'max'");
	fails_with(&cmd, "-s tot", "option '-s' takes one of total|self, not 'tot'");
	fails_with(&cmd, "--timeline=maybe",
		   "option '--timeline' takes one of on|off, not 'maybe'");
	fails_with(&cmd, "a b", "unexpected argument 'b'");
	struct command two = cmd;
	two.min_args = 1;
	fails_with(&two, "", "too few arguments: usage is 'eacgm try FILE [OPTION...]'");
	struct args a;
	struct err e;
	assert_int_equal(parse_as(&a, &cmd, "--help", &e), 1);
	args_free(&a);
	assert_int_equal(parse_as(&a, &cmd, "x -vh", &e), 1);
	args_free(&a);
}

static void numbers_are_checked(void **state)
{
	(void)state;
	const char *const bad[] = {"-1", "x", "5x", "11", "0x5", "18446744073709551616", "+5", ""};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct args a;
		struct err e;
		char line[64];
		uint64_t top = 77;
		snprintf(line, sizeof(line), "--top=%s", bad[i]);
		assert_int_equal(parse_as(&a, &cmd, line, &e), 0);
		assert_int_equal(args_u64(&a, "top", 1, 10, &top, &e), -EINVAL);
		assert_int_equal(top, 77);
		assert_non_null(strstr(e.msg, "'--top' takes a number of 1 to 10"));
		args_free(&a);
	}
}

static void numbers_with_a_fraction(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		double value; /* 77: it is none */
	} cases[] = {{"0.5", 0.5}, {"1e-9", 1e-9}, {"3", 3},	{".5", 0.5},  {"-1", 77},
		     {"", 77},	   {"nan", 77},	   {"inf", 77}, {"0x1", 77},  {" 1", 77},
		     {"1e", 77},   {"5 s", 77},	   {"11", 77},	{"1e999", 77}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct args a;
		struct err e = {0};
		const char *argv[] = {"--top", cases[i].text};
		double top = 77;
		assert_int_equal(args_parse(&a, &cmd, 2, (char **)argv, &e), 0);
		int rc = args_real(&a, "top", 0, 10, &top, &e);
		assert_int_equal(rc, cases[i].value == 77 ? -EINVAL : 0);
		assert_true(top == cases[i].value);
		assert_true(!rc || strstr(e.msg, "'--top' takes a number of 0 to 10"));
		args_free(&a);
	}
}

static void times_with_a_unit(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t ns; /* 77: it is none */
	} cases[] = {{"1.5", 1500000000},
		     {"0", 0},
		     {".5s", 500000000},
		     {"200ms", 200000000},
		     {"1e3us", 1000000},
		     {"123456789012345ns", 123456789012345},
		     {"1.037", 1037000000},
		     {"2m", 120000000000},
		     {"0.5h", 1800000000000},
		     {"", 77},
		     {"s", 77},
		     {"-1", 77},
		     {" 1", 77},
		     {"5 s", 77},
		     {"5sec", 77},
		     {"5S", 77},
		     {"0x1", 77},
		     {"nan", 77},
		     {"inf", 77},
		     {"1e", 77},
		     {"3e5h", 77},
		     {"1e999", 77}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct args a;
		struct err e = {0};
		const char *argv[] = {"--top", cases[i].text};
		uint64_t ns = 77;
		assert_int_equal(args_parse(&a, &cmd, 2, (char **)argv, &e), 0);
		int rc = args_time(&a, "top", 0, TIME_TEXT_MOST_NS, &ns, &e);
		if (rc != (cases[i].ns == 77 ? -EINVAL : 0) || ns != cases[i].ns)
			fail_msg("'%s': %d, %llu", cases[i].text, rc, (unsigned long long)ns);
		assert_true(!rc || strstr(e.msg, "'--top' takes a time of 0 to 1e+09 s"));
		rc = args_time(&a, "top", 1, 1000, &ns, &e);
		assert_true(rc == -EINVAL || ns == 77);
		args_free(&a);
	}
}

static void names_that_are_close(void **state)
{
	(void)state;
	const char *const names[] = {"record", "report", "export", "doctor"};
	assert_string_equal(closest_name("recrod", names, 4), "record");
	assert_string_equal(closest_name("rep", names, 4), "report");
	assert_string_equal(closest_name("exprot", names, 4), "export");
	assert_null(closest_name("banana", names, 4));
	assert_null(closest_name("x", names, 4));
	assert_null(closest_name("a-word-of-more-than-thirty-one-letters", names, 4));
}

static char *rendered(void (*render)(FILE *))
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	render(f);
	fclose(f);
	return text;
}

static const struct command *const all[] = {&cmd, &cmd_rest};
static const struct program program = {"sum", paragraphs, all, 2, "9.9"};

static void render_help(FILE *f)
{
	help_command(f, &cmd, 60);
}

static void render_man(FILE *f)
{
	man_command(f, &cmd, &program);
}

static void render_completion(FILE *f)
{
	completion_bash(f, &program);
}

/* Whatever the table holds is in all three. */
static void tables_are_rendered(void **state)
{
	(void)state;
	char *help = rendered(render_help), *man = rendered(render_man),
	     *completion = rendered(render_completion);
	for (const struct opt_def *o = table; o->name; o++) {
		char name[64];
		snprintf(name, sizeof(name), "--%s", o->name);
		assert_non_null(strstr(help, name));
		assert_non_null(strstr(completion, name));
		snprintf(name, sizeof(name), "\\-\\-%s", o->name);
		assert_non_null(strstr(man, name));
	}
	assert_non_null(strstr(help, "--timeline[=WHEN]"));
	assert_non_null(strstr(man, "Less; \\e and \\- stay"));
	assert_non_null(strstr(man, "\n\\&.dot at the start\n"));
	assert_non_null(strstr(completion, "try:--sort|try:-s) COMPREPLY=($(compgen -W "
					   "'total self'"));
	for (char *line = strtok(help, "\n"); line; line = strtok(NULL, "\n"))
		assert_true(strlen(line) <= 60);
	free(help);
	free(man);
	free(completion);
}

static void numbers_for_people(void **state)
{
	(void)state;
	char s[HUMAN_BYTES], fit[64];
	assert_string_equal(human_ns(s, 0), "0");
	assert_string_equal(human_ns(s, 999), "999 ns");
	assert_string_equal(human_ns(s, 1000), "1.00 µs");
	assert_string_equal(human_ns(s, 9994), "9.99 µs");
	assert_string_equal(human_ns(s, 9996), "10.0 µs");
	assert_string_equal(human_ns(s, 99960), "100 µs");
	assert_string_equal(human_ns(s, 999499), "999 µs");
	assert_string_equal(human_ns(s, 999500), "1.00 ms");
	assert_string_equal(human_ns(s, 1234567890), "1.23 s");
	assert_string_equal(human_ns(s, 1234567890123), "1,234 s");
	assert_string_equal(human_ns(s, UINT64_MAX), "18,446,744,073 s");
	assert_string_equal(human_bytes(s, 999), "999 B");
	assert_string_equal(human_bytes(s, 1500000), "1.50 MB");
	assert_string_equal(human_bytes(s, UINT64_MAX), "18.4 EB");
	assert_string_equal(human_count(s, 0), "0");
	assert_string_equal(human_count(s, 1234567), "1,234,567");
	assert_string_equal(human_count(s, UINT64_MAX), "18,446,744,073,709,551,615");
	assert_string_equal(human_times(s, 2.104), "2.1");
	assert_string_equal(human_times(s, 999.4), "999");
	assert_string_equal(human_times(s, 1690.6), "1,691");
	assert_string_equal(human_times(s, INFINITY), "many");
	assert_int_equal(text_fit(fit, sizeof(fit), "short", 10), 5);
	assert_int_equal(text_fit(fit, sizeof(fit), "abcdefghijklmnop", 10), 10);
	assert_string_equal(fit, "abc…klmnop");
	assert_int_equal(text_fit(fit, sizeof(fit), "a\x1b[1m\xff", 10), 6);
	assert_string_equal(fit, "a?[1m\xef\xbf\xbd");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms_of_options),
		cmocka_unit_test(repeated_optional_and_odd_values),
		cmocka_unit_test(rest_is_untouched),
		cmocka_unit_test(mistakes_have_sentences),
		cmocka_unit_test(numbers_are_checked),
		cmocka_unit_test(numbers_with_a_fraction),
		cmocka_unit_test(times_with_a_unit),
		cmocka_unit_test(names_that_are_close),
		cmocka_unit_test(tables_are_rendered),
		cmocka_unit_test(numbers_for_people),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
