/* report_page.h - what the files that print the report share: cells, rows, names that fit. */
#pragma once

#include <stdio.h>

#include "report/report.h"

#define BOLD  "\033[1m"
#define DIM   "\033[2m"
#define RED   "\033[31m"
#define RESET "\033[0m"

enum { COLUMN_CALLS = 13, COLUMN_TIME = 9 };

struct page {
	FILE *out;
	const struct report *r;
	const char *section; /* that is printed; NULL: none */
};

/* Only what these lines need: *ret is to be freed by vec_free of its losses. */
void report_make_verdict(struct report *ret, const struct row_source *source,
			 const struct report_options *options);

/* The lines of the header that are the recording's verdict. */
void report_verdict_text(FILE *out, const struct report *r);

/* Text in a style where colour is asked for. */
void page_styled(const struct page *p, const char *style, const char *text);

/* Text at the right of a column. */
void page_right(const struct page *p, const char *text, size_t columns);

/* Likewise; 0 is "-". */
void page_ns(const struct page *p, uint64_t ns, size_t columns);
void page_count(const struct page *p, uint64_t n, size_t columns);
void page_bytes(const struct page *p, uint64_t n, size_t columns);

/* Columns that are left of a line, for a name: 16 at least. */
size_t page_room(const struct page *p, size_t used);

/* The last column of a row, cut to what is left of the width, and the row's end. */
void page_rest(const struct page *p, const char *text, size_t used);

/* A sentence behind the columns that are used of its first line, in lines of the page's width;
 * those that follow are indented. Ends the last one. */
void page_wrapped(const struct page *p, size_t used, size_t indent, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Text of several lines, with no line wider than the page: what is wider goes on in a line of its
 * own, from the last blank on that fits; malloc'ed. */
char *page_folded(const struct page *p, const char *text);

/* Of n rows those that --top asks for. */
size_t page_shown(const struct page *p, size_t n);

/* Behind a table whose first column is so wide: "... and 3 more", where not all is shown. */
void page_more(const struct page *p, uint64_t all, uint64_t shown, size_t columns);
