/* exposition.c - heads and samples, escaped. */
#include "serve/exposition.h"

#include <math.h>
#include <string.h>

#include "base/human.h"

#define TOTAL "_total"

/* OpenMetrics has the family's name without the end that its samples have. */
static size_t head_length(const struct exposition *x, const char *name)
{
	size_t n = strlen(name), end = sizeof(TOTAL) - 1;
	bool cuts = x->open_metrics && x->counts && n > end && !strcmp(name + n - end, TOTAL);
	return cuts ? n - end : n;
}

void exposition_family(struct exposition *x, const char *name, enum family_type type,
		       const char *help)
{
	x->family = name;
	x->counts = type == FAMILY_COUNTER;
	int n = (int)head_length(x, name);
	buf_printf(&x->text, "# HELP %.*s %s\n# TYPE %.*s %s\n", n, name, help, n, name,
		   x->counts ? "counter" : "gauge");
}

/* Whether nothing of it has to be escaped: nearly all are so. */
static bool is_plain(const char *value)
{
	for (const char *s = value; *s; s++)
		if (*s < ' ' || *s > '~' || *s == '\\' || *s == '"')
			return false;
	return true;
}

static void put_value(struct buf *b, const char *value)
{
	if (is_plain(value)) {
		buf_add(b, value, strlen(value));
		return;
	}
	char *clean = text_clean(value);
	for (const char *s = clean; *s; s++) { /* line breaks are clean already */
		if (*s == '\\' || *s == '"')
			buf_byte(b, '\\');
		buf_byte(b, (uint8_t)*s);
	}
	free(clean);
}

/* Counts are exact, others have nine digits. */
static void put_number(struct buf *b, double value)
{
	const double exact = 9007199254740992.0; /* 2^53 */
	if (isinf(value))
		buf_printf(b, " %cInf\n", value < 0 ? '-' : '+');
	else if (fabs(value) < exact && value == floor(value))
		buf_printf(b, " %lld\n", (long long)value);
	else
		buf_printf(b, " %.9g\n", value);
}

void exposition_sample(struct exposition *x, const struct label *labels, size_t n, double value)
{
	if (isnan(value))
		return;
	struct buf *b = &x->text;
	buf_add(b, x->family, strlen(x->family));
	char before = '{';
	for (size_t i = 0; i < n; i++) {
		if (!labels[i].value)
			continue;
		buf_byte(b, (uint8_t)before);
		buf_add(b, labels[i].name, strlen(labels[i].name));
		buf_add(b, "=\"", 2);
		put_value(b, labels[i].value);
		buf_byte(b, '"');
		before = ',';
	}
	if (before == ',')
		buf_byte(b, '}');
	put_number(b, value);
	x->samples++;
}

static void on_family(void *ctx, const char *name, enum family_type type, const char *help)
{
	exposition_family(ctx, name, type, help);
}

static void on_sample(void *ctx, const struct label *labels, size_t n, double value)
{
	exposition_sample(ctx, labels, n, value);
}

struct series_sink exposition_sink(struct exposition *x)
{
	return (struct series_sink){x, on_family, on_sample};
}

void exposition_end(struct exposition *x)
{
	if (x->open_metrics)
		buf_add(&x->text, "# EOF\n", 6);
}

const char *exposition_type(bool open_metrics)
{
	return open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
			    : "text/plain; version=0.0.4; charset=utf-8";
}
