/* human.c - formats numbers for people. */
#include "base/human.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/utf8.h"

static const char *three_digits(char *ret, double v, const char *unit)
{
	int decimals = v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
	snprintf(ret, HUMAN_BYTES, "%.*f %s", decimals, v, unit);
	return ret;
}

const char *human_ns(char ret[static HUMAN_BYTES], uint64_t ns)
{
	if (!ns) {
		snprintf(ret, HUMAN_BYTES, "0");
		return ret;
	}
	if (ns >= 999500000000) {
		char seconds[HUMAN_BYTES];
		snprintf(ret, HUMAN_BYTES, "%.*s s", HUMAN_BYTES - 3,
			 human_count(seconds, ns / 1000000000));
		return ret;
	}
	if (ns >= 999500000)
		return three_digits(ret, (double)ns / 1e9, "s");
	if (ns >= 999500)
		return three_digits(ret, (double)ns / 1e6, "ms");
	if (ns >= 1000)
		return three_digits(ret, (double)ns / 1e3, "µs");
	snprintf(ret, HUMAN_BYTES, "%u ns", (unsigned)ns);
	return ret;
}

const char *human_bytes(char ret[static HUMAN_BYTES], uint64_t bytes)
{
	static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
	if (bytes < 1000) {
		snprintf(ret, HUMAN_BYTES, "%u B", (unsigned)bytes);
		return ret;
	}
	double v = (double)bytes / 1e3;
	size_t unit = 0;
	for (; v >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
		v /= 1e3;
	return three_digits(ret, v, units[unit]);
}

const char *human_count(char ret[static HUMAN_BYTES], uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
	char *out = ret;
	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*out++ = ',';
		*out++ = digits[i];
	}
	*out = 0;
	return ret;
}

const char *human_times(char ret[static HUMAN_BYTES], double times)
{
	if (times >= 999.5 && times < 1e15)
		return human_count(ret, (uint64_t)(times + 0.5));
	if (times < 999.5)
		snprintf(ret, HUMAN_BYTES, "%.3g", times);
	else
		snprintf(ret, HUMAN_BYTES, "many");
	return ret;
}

static bool continues(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

size_t text_columns(const char *s)
{
	size_t n = 0;
	for (; *s; s++)
		n += !continues(*s);
	return n;
}

/* The byte offset of the n-th character. */
static size_t offset_of(const char *s, size_t n)
{
	size_t i = 0;
	for (; s[i] && n; n--)
		do
			i++;
		while (continues(s[i]));
	return i;
}

char *text_clean(const char *s)
{
	struct buf clean = {0};
	utf8_append_clean(&clean, s, strlen(s), '?');
	return (char *)clean.data;
}

size_t text_printf(FILE *out, const char *fmt, ...)
{
	struct buf text = {0};
	char *line = NULL;
	va_list ap;
	va_start(ap, fmt);
	int len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	buf_reserve(&text, (size_t)(len > 0 ? len : 0) + 1);
	va_start(ap, fmt);
	vsnprintf((char *)text.data, text.cap, fmt, ap);
	va_end(ap);
	bool ends = len > 0 && text.data[len - 1] == '\n';
	if (ends)
		text.data[len - 1] = 0;
	line = text_clean((const char *)text.data);
	fprintf(out, "%s%s", line, ends ? "\n" : "");
	size_t columns = text_columns(line);
	free(line);
	buf_free(&text);
	return columns;
}

size_t text_fit(char *ret, size_t size, const char *s, size_t columns)
{
	char *text = text_clean(s);
	size_t n = text_columns(text);
	if (n <= columns) {
		snprintf(ret, size, "%s", text);
	} else {
		/* The end tells more (file and line), so it gets the larger half. */
		size_t head = (columns - 1) / 3, tail = columns - 1 - head;
		snprintf(ret, size, "%.*s…%s", (int)offset_of(text, head), text,
			 text + offset_of(text, n - tail));
		n = columns;
	}
	free(text);
	return n;
}
