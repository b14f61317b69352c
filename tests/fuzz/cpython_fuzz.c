/* cpython_fuzz.c - hostile CPython structures: debug offsets and the characters of strings.
 *
 * The first byte chooses: 'x' an image of _Py_DebugOffsets (the 'x' belongs to it), else it is
 * a string's width, the second byte the room for the text.
 *
 * links: base symbolize */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbolize/cpython.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

static void check_layout(const struct py_layout *l)
{
	check(l->frame_code <= 256);
	check(l->code_firstlineno >= 16 && l->code_firstlineno < 4096);
	check(l->code_filename >= 16 && l->code_filename < 4096);
	check(l->code_name >= 16 && l->code_name < 4096);
	check(l->code_qualname >= 16 && l->code_qualname < 4096);
	check(l->str_length >= 16 && l->str_length < l->str_ascii_data);
	check(l->str_state >= 16 && l->str_state < l->str_ascii_data);
	check(l->str_compact_data > l->str_ascii_data && l->str_compact_data <= 272);
}

/* The length of the well-formed character at s (Unicode 15, table 3-7), 0 when it is not. */
static size_t utf8_length(const uint8_t *s, size_t len)
{
	size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (n == 0 || n > len || s[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct py_layout layout;
	struct err e;
	char *text;
	size_t room, len;

	if (size < 2)
		return 0;
	if (data[0] == 'x') {
		if (cpython_layout_from_offsets(data, size, &layout, &e) == 0)
			check_layout(&layout);
		return 0;
	}
	room = data[1];
	text = malloc(room ? room : 1);
	check(text != NULL);
	len = cpython_string_utf8(data + 2, size - 2, data[0], text, room);
	check(room == 0 ? len == 0 : len < room && strlen(text) == len);
	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_length((const uint8_t *)text + i, len - i);
		check(n > 0);
	}
	free(text);
	return 0;
}
