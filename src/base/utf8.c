/* utf8.c - well-formedness of UTF-8, after table 3-7 of the Unicode standard. */
#include "utf8.h"

#include <stdint.h>

/* The length of the well-formed character at s, 0 when there is none. */
static size_t char_length(const uint8_t *s, size_t len)
{
	if (s[0] >= 0x01 && s[0] <= 0x7f)
		return 1;
	size_t n = s[0] >= 0xc2 && s[0] <= 0xdf	  ? 2
		   : (s[0] & 0xf0) == 0xe0	  ? 3
		   : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
						  : 0;
	if (!n || n > len)
		return 0;
	uint8_t low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
	uint8_t high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

bool utf8_valid(const char *s, size_t len)
{
	const uint8_t *p = (const uint8_t *)s;
	for (size_t i = 0; i < len;) {
		size_t n = char_length(p + i, len - i);
		if (!n)
			return false;
		i += n;
	}
	return true;
}

void utf8_append(struct buf *out, const char *s, size_t len)
{
	const uint8_t *p = (const uint8_t *)s;
	for (size_t i = 0; i < len;) {
		size_t n = char_length(p + i, len - i);
		if (n)
			buf_add(out, p + i, n);
		else
			buf_add(out, "\xef\xbf\xbd", 3);
		i += n ? n : 1;
	}
	buf_byte(out, 0);
	out->len--;
}
