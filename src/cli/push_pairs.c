/* push_pairs.c - copies of what was told, decoded, and what may be a header. */
#include "cli/push_pairs.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"

void pairs_free(struct pairs *p)
{
	for (size_t i = 0; i < p->len; i++) {
		free(p->names[i]);
		free(p->values[i]);
	}
	p->len = 0;
}

static int hex(char c)
{
	return isdigit((unsigned char)c)    ? c - '0'
	       : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
					    : -1;
}

/* Without what stands around it; percent: %41 is A. */
static char *copy_of(const char *text, size_t n, bool percent)
{
	while (n && (*text == ' ' || *text == '\t'))
		text++, n--;
	while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
		n--;
	char *ret = xcalloc(1, n + 1), *to = ret;
	for (size_t i = 0; i < n; i++) {
		bool coded = percent && text[i] == '%' && i + 2 < n && hex(text[i + 1]) >= 0 &&
			     hex(text[i + 2]) >= 0;
		*to++ = coded ? (char)(hex(text[i + 1]) * 16 + hex(text[i + 2])) : text[i];
		i += coded ? 2 : 0;
	}
	return ret;
}

/* One "name=value". */
int pairs_add(struct pairs *ret, const char *text, size_t n, bool percent, const char *what,
	      struct err *e)
{
	const char *equals = memchr(text, '=', n);
	if (!equals || equals == text)
		return err_set(e, EINVAL, "%s: '%.*s' is no NAME=VALUE", what,
			       (int)(n < 40 ? n : 40), text);
	if (ret->len == PUSH_PAIRS)
		return err_set(e, EINVAL, "%s: more than %d", what, PUSH_PAIRS);
	ret->names[ret->len] = copy_of(text, (size_t)(equals - text), percent);
	ret->values[ret->len] = copy_of(equals + 1, n - (size_t)(equals + 1 - text), percent);
	ret->len++;
	return 0;
}

/* "name=value,name=value". */
int pairs_add_list(struct pairs *ret, const char *text, const char *what, struct err *e)
{
	int rc = 0;
	while (text && *text && !rc) {
		size_t n = strcspn(text, ",");
		if (n)
			rc = pairs_add(ret, text, n, true, what, e);
		text += n + (text[n] == ',');
	}
	return rc;
}

/* A header's name is a token of RFC 9110, its value has no control characters. */
static int check_header(const char *name, const char *value, const char *what, struct err *e)
{
	static const char *const ours[] = {
		"Host",	      "Content-Type",	   "Content-Length", "Content-Encoding",
		"Connection", "Transfer-Encoding", "User-Agent"};
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (!strcasecmp(name, ours[i]))
			return err_set(e, EINVAL, "%s: '%s' is set by eacgm itself", what, name);
	bool good = *name;
	for (const char *s = name; *s; s++)
		good &= isalnum((unsigned char)*s) || strchr("!#$%&'*+-.^_`|~", *s);
	for (const char *s = value; *s; s++)
		good &= (unsigned char)*s >= ' ' && *s != 0x7f;
	return good ? 0 : err_set(e, EINVAL, "%s: '%.40s' cannot be a header", what, name);
}

int pairs_check_headers(const struct pairs *p, const char *what, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < p->len && !rc; i++)
		rc = check_header(p->names[i], p->values[i], what, e);
	return rc;
}

int pairs_add_headers(struct pairs *ret, const struct args *a, const char *option, struct err *e)
{
	char what[40];
	int rc = 0;
	snprintf(what, sizeof(what), "--%s", option);
	for (size_t i = 0; i < args_count(a, option) && !rc; i++) {
		const char *text = args_nth(a, option, i);
		rc = pairs_add(ret, text, strlen(text), false, what, e);
	}
	return rc ? rc : pairs_check_headers(ret, what, e);
}
