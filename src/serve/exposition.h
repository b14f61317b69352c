/* exposition.h - writes metrics in Prometheus's text format 0.0.4 (prometheus.io,
 * docs/instrumenting/exposition_formats) or as OpenMetrics 1.0 (openmetrics.io), by which ends of
 * names and the last line differ. All samples of a family stand behind its head. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "serve/series_sink.h"

struct exposition {
	struct buf text;
	bool open_metrics;
	/* the family that was begun last; its name is borrowed */
	const char *family;
	bool counts;	/* it is a counter */
	size_t samples; /* in all */
};

/* name: of letters, digits and '_', valid until the next family. help: a sentence. */
void exposition_family(struct exposition *x, const char *name, enum family_type type,
		       const char *help);
/* What is no number (NaN) is not written. Of values of labels what a terminal obeys is a "?", and
 * what is no UTF-8 is U+FFFD. */
void exposition_sample(struct exposition *x, const struct label *labels, size_t n, double value);
/* The two above, for who tells families. */
struct series_sink exposition_sink(struct exposition *x);
/* What ends the answer. */
void exposition_end(struct exposition *x);
/* The format's Content-Type. */
const char *exposition_type(bool open_metrics);
