/* series_sink.h - where families of metrics go: a text for Prometheus (exposition.h), or messages
 * for OpenTelemetry (otlp_metrics.h). Who tells them (agent_series.h) does not know which. */
#pragma once

#include <stddef.h>

enum family_type {
	FAMILY_GAUGE,
	FAMILY_COUNTER, /* its name ends in _total */
};

struct label {
	const char *name, *value; /* value NULL: it is left out */
};

struct series_sink {
	void *ctx;
	void (*family)(void *ctx, const char *name, enum family_type type, const char *help);
	void (*sample)(void *ctx, const struct label *labels, size_t n, double value);
};

/* All samples of a family follow it. name: by Prometheus's rules, of letters, digits and '_', with
 * its unit at the end; valid until the next family, as help, a sentence, is. */
static inline void series_family(const struct series_sink *s, const char *name,
				 enum family_type type, const char *help)
{
	s->family(s->ctx, name, type, help);
}

/* Labels are borrowed until it returns. A value that is no number (NaN) is left out. */
static inline void series_sample(const struct series_sink *s, const struct label *labels, size_t n,
				 double value)
{
	s->sample(s->ctx, labels, n, value);
}
