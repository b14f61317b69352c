/* otlp_answer_fuzz.c - what a hostile receiver may say: answers of OTLP, and when to try again; and
 * URLs that are wrong.
 *
 * The first byte chooses. Whatever comes, nothing is read beyond it, and what is returned is
 * bounded.
 *
 * links: serve base */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/http_url.h"
#include "serve/otlp_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

static void check_url(const char *text)
{
	struct http_url u;
	struct err e = {""};
	if (http_url_parse(&u, text, &e))
		check(e.msg[0] && !u.host[0]);
	else
		check(u.host[0] && u.port && (!u.path[0] || u.path[0] == '/') &&
		      !strpbrk(u.host, " \r\n") && !strpbrk(u.path, " \r\n"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	uint8_t which = *data++ % 3;
	size--;
	char why[64], *text = malloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	if (which == 0) {
		(void)otlp_answer_rejected((const uint8_t *)text, size, why, sizeof(why));
		check(strlen(why) < sizeof(why));
	} else if (which == 1) {
		check(http_retry_after(text, 1000000000ULL) <= HTTP_RETRY_MOST_NS);
	} else {
		check_url(text);
	}
	free(text);
	return 0;
}
