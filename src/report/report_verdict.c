/* report_verdict.c - the header's lines about the recording itself, as sentences for timelines. */
#include <stdlib.h>
#include <string.h>

#include "report/report_page.h"

#define WIDTH 1000

/* "  cost       1.2 %" -> "cost: 1.2 %", behind what ret holds. */
static void add_line(struct buf *ret, const char *line)
{
	line += strspn(line, " ");
	size_t label = strcspn(line, " ");
	const char *rest = line + label + strspn(line + label, " ");
	buf_printf(ret, "%.*s: %s\n", (int)label, line, rest);
}

char *report_verdict(const struct row_source *source)
{
	const struct report_options options = {.width = WIDTH};
	struct report r;
	struct buf lines = {0};
	char *text = NULL, *line;
	size_t len;
	report_make_verdict(&r, source, &options);
	FILE *out = open_memstream(&text, &len);
	report_verdict_text(out, &r);
	fclose(out);
	for (char *rest = text; (line = strsep(&rest, "\n"));)
		if (*line)
			add_line(&lines, line);
	buf_byte(&lines, 0);
	vec_free(&r.losses);
	free(text);
	return (char *)lines.data;
}
