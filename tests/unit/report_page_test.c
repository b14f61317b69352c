/* report_page_test.c - sentences and rows of the report keep to the page's width, and lose no word.
 * links: cli */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/human.h"
#include "report/report_page.h"

struct written {
	char *text;
	size_t len;
	struct report_options options;
	struct report report;
	struct page page;
};

static void begin(struct written *w, unsigned width)
{
	*w = (struct written){.options = {.width = width}};
	w->report.options = &w->options;
	w->page = (struct page){open_memstream(&w->text, &w->len), &w->report, NULL};
}

/* The longest line in columns; *text is the caller's. */
static size_t end(struct written *w)
{
	size_t longest = 0;
	fclose(w->page.out);
	assert_true(w->len && w->text[w->len - 1] == '\n');
	for (char *line = w->text, *next; *line; line = next) {
		next = strchr(line, '\n');
		*next++ = 0;
		size_t n = text_columns(line);
		longest = n > longest ? n : longest;
	}
	return longest;
}

static void sentences_are_wrapped(void **state)
{
	static const char text[] = " in number 553 of communicator 0x1346aa92431c9b87: 1 of 2 "
				   "ranks entered it, and nothing went on for 14.9 µs";
	struct written w;
	(void)state;
	for (unsigned width = 60; width <= 200; width++) {
		char all[512] = "";
		begin(&w, width);
		fputs("  hang", w.page.out);
		page_wrapped(&w.page, 6, 4, "%s", text);
		assert_true(end(&w) <= width);
		for (size_t at = 0; at < w.len; at += strlen(w.text + at) + 1) {
			size_t indent = strspn(w.text + at, " ");
			assert_int_equal(indent, at ? 4 : 2);
			strcat(strcat(all, at ? " " : ""), w.text + at + indent);
		}
		assert_memory_equal(all, "hang", 4);
		assert_string_equal(all + 4, text);
		free(w.text);
	}
}

static void a_word_is_never_cut(void **state)
{
	struct written w;
	(void)state;
	begin(&w, 60);
	page_wrapped(&w.page, 0, 2, "  %s %s", "short",
		     "/a/path/that/is/longer/than/the/page/is/wide/and/that/has/no/blank/at/all");
	end(&w);
	assert_string_equal(w.text, "  short");
	assert_string_equal(w.text + strlen(w.text) + 1,
			    "  /a/path/that/is/longer/than/the/page/is/wide/and/that/has/no/blank/"
			    "at/all");
	free(w.text);
}

static void rows_are_cut_to_the_width(void **state)
{
	struct written w;
	(void)state;
	for (unsigned width = 60; width <= 170; width++) {
		begin(&w, width);
		fprintf(w.page.out, "%42s", "1.23 ms");
		page_rest(&w.page,
			  "import torch._dynamo.convert_frame.of_a_long_name.and_more.of_it.and_"
			  "more.and_more.and_more.and_more.and_more.and_more.and_more.and_more",
			  42);
		size_t columns = end(&w);
		assert_int_equal(columns, width);
		free(w.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sentences_are_wrapped),
		cmocka_unit_test(a_word_is_never_cut),
		cmocka_unit_test(rows_are_cut_to_the_width),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
