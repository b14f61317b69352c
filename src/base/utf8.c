/* utf8.c - well-formedness of UTF-8, after table 3-7 of the Unicode standard, and controls. */
#include "utf8.h"

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
	for (size_t i = 0; i < len; i++) {
		size_t from = i, n;
		while (i < len && (n = char_length(p + i, len - i)))
			i += n;
		buf_add(out, p + from, i - from);
		if (i < len)
			buf_add(out, "\xef\xbf\xbd", 3);
	}
	buf_byte(out, 0);
	out->len--;
}

/* E2 80 and E2 81: U+200E, U+200F, U+2028 to U+202E; U+2066 to U+2069 */
static bool is_general_control(uint8_t second, uint8_t third)
{
	if (second == 0x80)
		return third == 0x8e || third == 0x8f || (third >= 0xa8 && third <= 0xae);
	return second == 0x81 && third >= 0xa6 && third <= 0xa9;
}

size_t utf8_control(const uint8_t *s, size_t len)
{
	if (s[0] < 0x20 || s[0] == 0x7f)
		return 1;
	if (len >= 2 && ((s[0] == 0xc2 && s[1] < 0xa0) || (s[0] == 0xd8 && s[1] == 0x9c)))
		return 2; /* U+0080 to U+009F, U+061C */
	return len >= 3 && s[0] == 0xe2 && is_general_control(s[1], s[2]) ? 3 : 0;
}

void utf8_append_clean(struct buf *out, const char *s, size_t len, char instead)
{
	size_t from = out->len;
	utf8_append(out, s, len);
	uint8_t *to = out->data + from;
	const uint8_t *end = out->data + out->len;
	for (const uint8_t *p = to; p < end;) {
		size_t n = utf8_control(p, (size_t)(end - p));
		*to++ = n ? (uint8_t)instead : *p;
		p += n ? n : 1;
	}
	*to = 0;
	out->len = (size_t)(to - out->data);
}
