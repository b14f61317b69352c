/* web_page.c - puts the page's pieces and its data together. */
#include "web/web_page.h"

#include "web/web_parts.h"

#define REAL_DIGITS 9 /* as the report's JSON has them */

static void add_text(struct buf *to, const char *text)
{
	buf_add(to, text, strlen(text));
}

bool web_page_is_there(void)
{
	return web_part_head[0];
}

void web_page_begin(struct buf *to, const char *connect)
{
	add_text(to, web_part_head);
	add_text(to, connect);
	add_text(to, web_part_body);
}

static int add_escaped(const char *text, size_t size, void *to)
{
	static const char escape[] = "\\u003c";
	while (size) {
		const char *at = memchr(text, '<', size);
		size_t plain = at ? (size_t)(at - text) : size;
		buf_add(to, text, plain);
		if (at)
			buf_add(to, escape, sizeof(escape) - 1);
		text += plain + (at != NULL);
		size -= plain + (at != NULL);
	}
	return 0;
}

void web_page_data(struct buf *to, const char *id, const json_t *data)
{
	buf_printf(to, "<script type=\"application/json\" id=\"%s\">", id);
	json_dump_callback(data, add_escaped, to,
			   JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(REAL_DIGITS));
	add_text(to, "</script>\n");
}

void web_page_end(struct buf *to)
{
	add_text(to, web_part_tail);
}

void web_page_policy(struct buf *to, const char *connect)
{
	buf_printf(to, "%s%s; frame-ancestors 'none'", web_part_policy, connect);
	buf_byte(to, 0);
}
