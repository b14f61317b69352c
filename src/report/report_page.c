/* report_page.c - cells of the report's tables and the text around them. What they say is in the
 * other files named report_*.c. */
#include "report/report_page.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/human.h"

#define FOLD_INDENT 6
#define LEAST_NAME  16 /* columns of a name, however narrow the page is */

void page_styled(const struct page *p, const char *style, const char *text)
{
	if (p->r->options->colour)
		fputs(style, p->out);
	text_printf(p->out, "%s", text);
	if (p->r->options->colour)
		fputs(RESET, p->out);
}

void page_right(const struct page *p, const char *text, size_t columns)
{
	size_t n = text_columns(text);
	text_printf(p->out, "%*s%s", n < columns ? (int)(columns - n) : 0, "", text);
}

void page_ns(const struct page *p, uint64_t ns, size_t columns)
{
	char text[HUMAN_BYTES];
	page_right(p, ns ? human_ns(text, ns) : "-", columns);
}

void page_count(const struct page *p, uint64_t n, size_t columns)
{
	char text[HUMAN_BYTES];
	page_right(p, n ? human_count(text, n) : "-", columns);
}

void page_bytes(const struct page *p, uint64_t n, size_t columns)
{
	char text[HUMAN_BYTES];
	page_right(p, n ? human_bytes(text, n) : "-", columns);
}

size_t page_room(const struct page *p, size_t used)
{
	unsigned width = p->r->options->width;
	return width > used + LEAST_NAME ? width - used : LEAST_NAME;
}

void page_rest(const struct page *p, const char *text, size_t used)
{
	char fitted[1024];
	text_fit(fitted, sizeof(fitted), text, page_room(p, used + 2));
	fprintf(p->out, "  %s\n", fitted);
}

/* One word; before it a line ends, or the blank that was between it and the last. Returns the
 * columns that are used then. */
static size_t put_word(const struct page *p, const char *word, size_t used, size_t indent,
		       bool blank)
{
	size_t columns = text_columns(word);
	if (used > indent && used + blank + columns > p->r->options->width) {
		fprintf(p->out, "\n%*s", (int)indent, "");
		used = indent;
		blank = false;
	}
	fprintf(p->out, "%s%s", blank ? " " : "", word);
	return used + blank + columns;
}

void page_wrapped(const struct page *p, size_t used, size_t indent, const char *fmt, ...)
{
	char text[2048], clean[2048], *rest = NULL;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text_fit(clean, sizeof(clean), text, sizeof(clean) / 4);
	bool blank = false;
	used += (size_t)fprintf(p->out, "%*s", (int)strspn(clean, " "), "");
	for (char *word = strtok_r(clean, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		used = put_word(p, word, used, indent, blank);
		blank = true;
	}
	fputc('\n', p->out);
}

/* The bytes of a line's first columns, styles not counted; *ret_whole: the line has no more. */
static size_t bytes_of_columns(const char *line, size_t len, size_t columns, bool *ret_whole)
{
	size_t i = 0;
	for (size_t used = 0; i < len; i++) {
		bool styled = line[i] == '\033';
		if (styled)
			i += strcspn(line + i, "m");
		else if (((unsigned char)line[i] & 0xc0) != 0x80 && used++ == columns)
			break;
	}
	*ret_whole = i >= len;
	return i < len ? i : len;
}

static void fold_line(struct buf *ret, const char *line, size_t len, size_t columns)
{
	size_t indent = 0;
	bool whole = false;
	while (len) {
		size_t fits = bytes_of_columns(line, len, columns - indent, &whole), cut = fits;
		while (!whole && cut && line[cut] != ' ')
			cut--;
		if (strspn(line, " ") >= cut) /* one long word */
			cut = fits;
		size_t shown = cut;
		while (!whole && shown && line[shown - 1] == ' ')
			shown--;
		buf_printf(ret, "%*s%.*s\n", (int)indent, "", (int)shown, line);
		line += cut;
		len -= cut;
		indent = FOLD_INDENT;
		for (; len && *line == ' '; len--)
			line++;
	}
}

char *page_folded(const struct page *p, const char *text)
{
	struct buf ret = {0};
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		if (len)
			fold_line(&ret, line, len, p->r->options->width);
		else
			buf_byte(&ret, '\n');
		line += len + (line[len] == '\n');
	}
	buf_byte(&ret, 0);
	return (char *)ret.data;
}

size_t page_shown(const struct page *p, size_t n)
{
	uint64_t top = p->r->options->top;
	return top && n > top ? (size_t)top : n;
}

void page_more(const struct page *p, uint64_t all, uint64_t shown, size_t columns)
{
	char how[64] = "--top 0 shows all";
	if (p->section && p->r->options->brief)
		snprintf(how, sizeof(how), "--section %s", p->section);
	if (all > shown)
		fprintf(p->out, "%*s... and %" PRIu64 " more (%s)\n", (int)columns - 3, "",
			all - shown, how);
}
