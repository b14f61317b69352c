/* row_json.c - the keys of a row's JSON, once for both ways. */
#include "detect/row_json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "detect/cpu_speed.h"
#include "detect/numbers_json.h"

static json_t *integer(uint64_t v)
{
	return json_integer((json_int_t)v);
}

json_t *row_json(const struct feature_row *row, const char *layer, double score, double p,
		 bool alarmed)
{
	uint32_t n;
	const struct feature *features = features_of(row->layer, &n);
	json_t *o = json_object(), *values = json_object();
	json_object_set_new(o, "start_ns", integer(row->start_ns));
	json_object_set_new(o, "end_ns", integer(row->end_ns));
	json_object_set_new(o, "layer", json_string(layer));
	json_object_set_new(o, "pid", row->pid ? integer(row->pid) : json_null());
	json_object_set_new(o, "parent_pid", row->parent ? integer(row->parent) : json_null());
	json_object_set_new(o, "gpu", row->gpu >= 0 ? json_integer(row->gpu) : json_null());
	json_object_set_new(o, "gpu_pid", row->gpu_pid ? integer(row->gpu_pid) : json_null());
	json_object_set_new(o, "regime", integer(row->regime));
	json_object_set_new(o, "events", integer(row->events));
	json_object_set_new(o, "pace", row->pace > 0 ? real_json(row->pace) : json_null());
	json_object_set_new(o, "cpus", real_json(row->cpus));
	json_object_set_new(o, "parents_pace", json_boolean(row->parents_pace));
	json_object_set_new(o, "other_work", json_boolean(row->other_work));
	json_object_set_new(o, "resized", json_boolean(row->resized));
	json_object_set_new(o, "score", real_json(score));
	json_object_set_new(o, "p_value", real_json(p));
	json_object_set_new(o, "alarmed", json_boolean(alarmed));
	for (uint32_t i = 0; i < n; i++)
		json_object_set_new(values, features[i].name, real_json(row->x[i]));
	json_object_set_new(o, "features", values);
	return o;
}

/* An integer of 0 to most; where there is null, or nothing, what is unknown. */
static int whole(uint64_t *ret, const json_t *o, const char *key, uint64_t most, uint64_t unknown,
		 struct err *e)
{
	const json_t *v = json_object_get(o, key);
	json_int_t i = json_integer_value(v);
	*ret = unknown;
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_integer(v) || i < 0 || (uint64_t)i > most)
		return err_set(e, EINVAL, "\"%s\" is no integer of 0 to %llu", key,
			       (unsigned long long)most);
	*ret = (uint64_t)i;
	return 0;
}

static int layer_of(enum detect_layer *ret, struct detect_layers *layers, const json_t *o,
		    struct err *e)
{
	const char *name = json_string_value(json_object_get(o, "layer"));
	*ret = name ? detect_layer_add(layers, name) : DETECT_LAYERS;
	return *ret != DETECT_LAYERS ? 0 : err_set(e, EINVAL, "\"layer\" is not the name of one");
}

static double real_of(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	return json_is_number(v) ? json_number_value(v) : NAN;
}

int row_of_json(struct feature_row *ret, struct detect_layers *layers, double *ret_p,
		const json_t *o, struct err *e)
{
	struct feature_row row = {0};
	uint64_t pid, parent, gpu, gpu_pid, regime;
	int rc = layer_of(&row.layer, layers, o, e);
	if (!rc)
		rc = whole(&row.start_ns, o, "start_ns", INT64_MAX, 0, e);
	if (!rc)
		rc = whole(&row.end_ns, o, "end_ns", INT64_MAX, 0, e);
	if (!rc)
		rc = whole(&pid, o, "pid", UINT32_MAX, 0, e);
	if (!rc)
		rc = whole(&parent, o, "parent_pid", UINT32_MAX, 0, e);
	if (!rc)
		rc = whole(&gpu, o, "gpu", INT32_MAX, UINT64_MAX, e);
	if (!rc)
		rc = whole(&gpu_pid, o, "gpu_pid", UINT32_MAX, 0, e);
	if (!rc)
		rc = whole(&regime, o, "regime", UINT32_MAX, 0, e);
	if (!rc)
		rc = whole(&row.events, o, "events", INT64_MAX, 0, e);
	if (!rc && row.end_ns <= row.start_ns)
		rc = err_set(e, EINVAL, "it ends before it begins");
	if (rc)
		return rc;
	row.pid = (uint32_t)pid;
	row.parent = (uint32_t)parent;
	row.gpu = gpu == UINT64_MAX ? -1 : (int32_t)gpu;
	row.gpu_pid = (uint32_t)gpu_pid;
	row.regime = (uint32_t)regime;
	row.pace = real_of(o, "pace") > 0 ? real_of(o, "pace") : 0;
	row.cpus = fabs(real_of(o, "cpus")) <= CPU_PART_MOST ? real_of(o, "cpus") : 0;
	row.parents_pace = json_is_true(json_object_get(o, "parents_pace"));
	row.other_work = json_is_true(json_object_get(o, "other_work"));
	row.resized = json_is_true(json_object_get(o, "resized"));
	uint32_t n;
	const struct feature *features = features_of(row.layer, &n);
	const json_t *values = json_object_get(o, "features");
	for (uint32_t i = 0; i < FEATURES_MOST; i++)
		row.x[i] = i < n ? real_of(values, features[i].name) : 0;
	*ret = row;
	*ret_p = real_of(o, "p_value");
	return 0;
}
