/* web_page.h - the page as one HTML file, with data in it or without. What the data are the page
 * knows (web/src/data.ts) and who puts them there; here they are JSON that cannot end its element.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buffer.h"

/* Why there is none, where web_page_is_there says so. */
#define WEB_PAGE_MISSING "this eacgm was built without the page (-Dweb=disabled)"

bool web_page_is_there(void);

/* connect: what its scripts may ask, as the Content-Security-Policy has it: "'none'", "'self'". */
void web_page_begin(struct buf *to, const char *connect);

/* A block of data, which the page finds by its id (letters and '-'). Whatever its strings hold is
 * text: no '<' is written, which JSON has in strings alone, where it may be written as \u003c. */
void web_page_data(struct buf *to, const char *id, const json_t *data);

void web_page_end(struct buf *to);

/* What a server says as Content-Security-Policy: that of the page, and that no other page may hold
 * it. Ends in a NUL. */
void web_page_policy(struct buf *to, const char *connect);
