/* report_page.h - what the files that print the report share. */
#pragma once

#include <stdio.h>

#include "cli/report.h"

#define BOLD  "\033[1m"
#define DIM   "\033[2m"
#define RED   "\033[31m"
#define RESET "\033[0m"

enum { COLUMN_CALLS = 13, COLUMN_TIME = 9 };

struct page {
	FILE *out;
	const struct report *r;
};

/* Text in a style where colour is asked for. */
void page_styled(const struct page *p, const char *style, const char *text);

/* Text at the right of a column. */
void page_right(const struct page *p, const char *text, size_t columns);

/* Prints what samples say, where there are any. */
void report_profile_text(const struct page *p);

/* Prints what concerns GPUs: tables, each only where there is something. */
void report_gpu_text(const struct page *p);
