/* anomaly_json.c - what is told of an anomaly, for scripts and for people. */
#include "cli/anomaly_json.h"

#include <math.h>
#include <stdio.h>

#include "base/human.h"
#include "report/report_json.h"

const char *detect_layer_name(enum detect_layer layer)
{
	static const char *const names[] = DETECT_LAYER_NAMES;
	return layer < DETECT_LAYERS ? names[layer] : "";
}

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

/* JSON has no NaN and no infinity. */
static json_t *number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static json_t *features(const struct anomaly *a)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < a->features_len; i++)
		json_array_append_new(list,
				      json_pack("{s:o, s:o, s:o, s:o, s:o}", "name",
						report_text_json(a->features[i].name), "unit",
						report_text_json(a->features[i].unit), "value",
						number(a->features[i].value), "usual",
						number(a->features[i].usual), "share_ratio",
						number(a->features[i].share_ratio)));
	return list;
}

static json_t *calls(const struct anomaly *a)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < a->calls_len; i++)
		json_array_append_new(list, json_pack("{s:o, s:I, s:o, s:o, s:o}", "key",
						      report_text_json(a->calls[i].key), "calls",
						      (json_int_t)a->calls[i].calls, "mean_ns",
						      number(a->calls[i].mean_ns), "usual_ns",
						      number(a->calls[i].usual_ns), "more_ns",
						      number(a->calls[i].more_ns)));
	return list;
}

json_t *anomaly_json(const struct anomaly *a)
{
	json_t *row = json_pack("{s:I, s:I, s:I, s:b, s:s, s:o}", "id", (json_int_t)a->id,
				"start_ns", (json_int_t)a->start_ns, "end_ns",
				(json_int_t)a->end_ns, "ended", a->ended, "layer",
				detect_layer_name(a->layer), "name", report_text_json(a->name));
	json_object_set_new(row, "told_ns", json_integer((json_int_t)a->told_ns));
	json_object_set_new(row, "pid", a->pid ? json_integer(a->pid) : json_null());
	json_object_set_new(row, "gpu", a->gpu >= 0 ? json_integer(a->gpu) : json_null());
	json_object_set_new(row, "score", number(a->score));
	json_object_set_new(row, "p_value", number(a->p_value));
	json_object_set_new(row, "lost_ns", number(a->lost_ns));
	json_object_set_new(row, "windows", json_integer(a->windows));
	json_object_set_new(row, "why", report_text_json(a->why));
	json_object_set_new(row, "features", features(a));
	json_object_set_new(row, "calls", calls(a));
	return row;
}

const char *anomaly_line(char ret[static ANOMALY_LINE_BYTES], const struct anomaly *a)
{
	char entity[ANOMALY_ENTITY_BYTES], lasted[HUMAN_BYTES];
	anomaly_entity(entity, a);
	human_ns(lasted, a->end_ns > a->start_ns ? a->end_ns - a->start_ns : 0);
	snprintf(ret, ANOMALY_LINE_BYTES, "%s, %s: %s (%s %s, p %.1g)", detect_layer_name(a->layer),
		 entity, a->why, a->ended ? "lasted" : "so far", lasted, a->p_value);
	return ret;
}
