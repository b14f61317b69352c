/* anomaly_text.c - anomalies and the values of their features for people. */
#include "incident/anomaly_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"

#define LINE_BYTES 144

const char *anomaly_entity(char ret[static ANOMALY_ENTITY_BYTES], const struct anomaly *a)
{
	if (a->gpu >= 0)
		snprintf(ret, ANOMALY_ENTITY_BYTES, "gpu %d", a->gpu);
	else if (a->pid)
		snprintf(ret, ANOMALY_ENTITY_BYTES, "pid %u", a->pid);
	else
		snprintf(ret, ANOMALY_ENTITY_BYTES, "host");
	return ret;
}

bool anomaly_is_news(const struct anomaly *a)
{
	bool by_rule = !(a->p_value > 0); /* it is told once, and is no part of another's news */
	return by_rule || (a->ended ? a->incident_ends : a->incident_begins);
}

/* Where an anomaly that is not of that line itself lost most: ", most of it in train (main.py:9)".
 */
static void line_clause(char ret[static LINE_BYTES], const struct anomaly *a)
{
	const char *slash = a->line.function ? strrchr(a->line.file, '/') : NULL;
	ret[0] = 0;
	if (a->line.function && strcmp(a->name, a->line.function) != 0)
		snprintf(ret, LINE_BYTES, ", most of it in %.60s (%.40s:%u)", a->line.function,
			 slash ? slash + 1 : a->line.file, a->line.line);
}

const char *anomaly_line(char ret[static ANOMALY_LINE_BYTES], const struct anomaly *a)
{
	char entity[ANOMALY_ENTITY_BYTES], lasted[HUMAN_BYTES], line[LINE_BYTES];
	anomaly_entity(entity, a);
	human_ns(lasted, a->end_ns > a->start_ns ? a->end_ns - a->start_ns : 0);
	line_clause(line, a);
	int n = snprintf(ret, ANOMALY_LINE_BYTES, "%s, %s: %s%s (%s %s, ", a->layer_name, entity,
			 a->why, line, a->ended ? "lasted" : "so far", lasted);
	if (n < 0 || n >= ANOMALY_LINE_BYTES)
		return ret;
	if (a->p_value > 0)
		snprintf(ret + n, ANOMALY_LINE_BYTES - (size_t)n, "p %.1g)", a->p_value);
	else
		snprintf(ret + n, ANOMALY_LINE_BYTES - (size_t)n, "by rule)");
	return ret;
}

static bool is_factor(const char *unit)
{
	return !strcmp(unit, "ln ratio");
}

static bool is_bytes(const char *unit)
{
	return !strncmp(unit, "bytes", 5);
}

const char *feature_value(char ret[static FEATURE_BYTES], double v, const char *unit)
{
	char bytes[HUMAN_BYTES], times[HUMAN_BYTES];
	if (isnan(v))
		snprintf(ret, FEATURE_BYTES, "-");
	else if (is_factor(unit))
		snprintf(ret, FEATURE_BYTES, "%s x", human_times(times, exp(v)));
	else if (is_bytes(unit) && v >= 0 && v < 1e18)
		snprintf(ret, FEATURE_BYTES, "%s%.5s", human_bytes(bytes, (uint64_t)v), unit + 5);
	else
		snprintf(ret, FEATURE_BYTES, fabs(v) >= 1000 && fabs(v) < 1e9 ? "%.0f" : "%.3g", v);
	return ret;
}

const char *feature_unit(const char *unit)
{
	return is_factor(unit) || is_bytes(unit) ? "" : unit;
}
