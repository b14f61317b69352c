/* hostile_strings.c - linked with a program that writes recordings, with --wrap of rec_string and
 * rec_string_z, so that names in them hold what a terminal obeys: an escape sequence, its 8-bit
 * form, DEL, a turn of the text's direction, a line break, and a byte that is no UTF-8. Words that
 * eacgm itself writes and goes by (layers, roles, names of counters) stay as they are: they have no
 * capital, dot, slash or space.
 */
#include <stdio.h>
#include <string.h>

#include "recording/recording.h"

#define HOSTILE "\033[31m\302\233\177\342\200\256\r\n\377"

uint32_t __real_rec_string(struct rec_writer *w, const char *s, size_t len);
uint32_t __wrap_rec_string(struct rec_writer *w, const char *s, size_t len);
uint32_t __wrap_rec_string_z(struct rec_writer *w, const char *s);

static bool is_own_word(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (strchr("./ :ABCDEFGHIJKLMNOPQRSTUVWXYZ", s[i]))
			return false;
	return true;
}

/* What a GPU or process is called in counters is eacgm's own, too. */
static bool is_entity(const char *s, size_t len)
{
	return len > 4 && (!memcmp(s, "gpu ", 4) || !memcmp(s, "pid ", 4));
}

uint32_t __wrap_rec_string(struct rec_writer *w, const char *s, size_t len)
{
	char text[512];
	if (is_own_word(s, len) || is_entity(s, len))
		return __real_rec_string(w, s, len);
	int n = snprintf(text, sizeof(text), "%.*s" HOSTILE, (int)len, s);
	return __real_rec_string(w, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

uint32_t __wrap_rec_string_z(struct rec_writer *w, const char *s)
{
	return s ? __wrap_rec_string(w, s, strlen(s)) : 0;
}
