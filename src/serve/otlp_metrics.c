/* otlp_metrics.c - a sink of families: each is packed when the next one begins, those that have
 * names of the semantic conventions at the end, since several families make one of these. */
#include "serve/otlp_metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "otlp_metrics.pb-c.h"
#include "serve/otlp_message.h"

#define LEN(x) (sizeof(x) / sizeof((x)[0]))

typedef Opentelemetry__Proto__Metrics__V1__NumberDataPoint point_t;
typedef Opentelemetry__Proto__Metrics__V1__Metric metric_t;

/* ---- names ---- */

static const struct unit {
	const char *end, *unit;
	bool stays; /* in the name: Prometheus's name has none for this unit */
} units[] = {
	{"_bytes_per_second", "By/s", false},
	{"_per_second", "1/s", false},
	{"_seconds", "s", false},
	{"_bytes", "By", false},
	{"_hertz", "Hz", false},
	{"_watts", "W", false},
	{"_joules", "J", false},
	{"_celsius", "Cel", false},
	{"_ratio", "1", false},
	{"_cores", "{cpu}", true},
};

/* What has a name space of its own. */
static const char *const spaces[] = {
	"process", "gpu",  "host",	 "interface", "cgroup",
	"self",	   "disk", "filesystem", "own",	      "push",
};

static bool ends_in(const char *text, size_t n, const char *end)
{
	size_t len = strlen(end);
	return n > len && !memcmp(text + n - len, end, len);
}

static size_t without_unit(const char *family, size_t n, enum family_type type,
			   const char **ret_unit)
{
	*ret_unit = type == FAMILY_COUNTER ? "1" : "";
	for (size_t i = 0; i < LEN(units); i++) {
		if (!ends_in(family, n, units[i].end))
			continue;
		*ret_unit = units[i].unit;
		return units[i].stays ? n : n - strlen(units[i].end);
	}
	return n;
}

void otlp_metric_name(char ret[static OTLP_NAME_BYTES], const char **ret_unit, const char *family,
		      enum family_type type)
{
	size_t n = strlen(family);
	if (type == FAMILY_COUNTER && ends_in(family, n, "_total"))
		n -= strlen("_total");
	n = without_unit(family, n, type, ret_unit);
	snprintf(ret, OTLP_NAME_BYTES, "%.*s", (int)n, family);
	char *dot = strchr(ret, '_');
	if (!dot)
		return;
	*dot = '.';
	for (size_t i = 0; i < LEN(spaces); i++) {
		size_t len = strlen(spaces[i]);
		if (!strncmp(dot + 1, spaces[i], len) && dot[1 + len] == '_')
			dot[1 + len] = '.';
	}
}

/* ---- names of the semantic conventions ---- */

enum shape {
	GAUGE,
	SUM,	 /* that only grows */
	UP_DOWN, /* a sum that does not */
};

/* Rows of one name stand together. Of GPUs they are of whole devices alone: by process and by
 * instance they would be added to those. */
static const struct meant {
	const char *family, *name, *unit;
	const char *key, *value; /* NULL: none */
	enum shape shape;
	bool of_gpu;
} meanings[] = {
	{"eacgm_gpu_sm_ratio", "hw.gpu.utilization", "1", "hw.gpu.task", "general", GAUGE, true},
	{"eacgm_gpu_encoder_ratio", "hw.gpu.utilization", "1", "hw.gpu.task", "encoder", GAUGE,
	 true},
	{"eacgm_gpu_decoder_ratio", "hw.gpu.utilization", "1", "hw.gpu.task", "decoder", GAUGE,
	 true},
	{"eacgm_gpu_memory_used_bytes", "hw.gpu.memory.usage", "By", NULL, NULL, UP_DOWN, true},
	{"eacgm_gpu_memory_total_bytes", "hw.gpu.memory.limit", "By", NULL, NULL, UP_DOWN, true},
	{"eacgm_gpu_power_watts", "hw.power", "W", NULL, NULL, GAUGE, true},
	{"eacgm_gpu_energy_joules_total", "hw.energy", "J", NULL, NULL, SUM, true},
	{"eacgm_gpu_ecc_corrected_errors_total", "hw.errors", "{error}", "error.type", "corrected",
	 SUM, true},
	{"eacgm_gpu_ecc_uncorrected_errors_total", "hw.errors", "{error}", "error.type",
	 "uncorrected", SUM, true},
	{"eacgm_process_rss_bytes", "process.memory.usage", "By", NULL, NULL, UP_DOWN, false},
	{"eacgm_process_threads", "process.thread.count", "{thread}", NULL, NULL, UP_DOWN, false},
	{"eacgm_filesystem_total_bytes", "system.filesystem.limit", "By", NULL, NULL, UP_DOWN,
	 false},
};
#define MEANINGS LEN(meanings)

static const struct attribute_name {
	const char *label, *key;
	bool is_int;
} attribute_names[] = {
	{"pid", "process.pid", true},
	{"parent", "process.parent_pid", true},
	{"comm", "process.executable.name", false},
	{"function", "code.function.name", false},
	{"uuid", "hw.id", false},
	{"gpu", "eacgm.gpu", true},
	{"instance_id", "eacgm.gpu.instance", true},
	{"pod", "k8s.pod.name", false},
	{"namespace", "k8s.namespace.name", false},
	{"pod_uid", "k8s.pod.uid", false},
	{"container", "container.id", false},
	{"container_name", "k8s.container.name", false},
	{"interface", "network.interface.name", false},
	{"device", "system.device", false},
	{"mountpoint", "system.filesystem.mountpoint", false},
	{"cgroup", "eacgm.cgroup", false},
	{"layer", "eacgm.layer", false},
	{"script", "eacgm.script", false},
	{"job", "eacgm.job", false},
	{"launcher", "eacgm.launcher", false},
	{"rank", "eacgm.rank", true},
	{"local_rank", "eacgm.local_rank", true},
	{"world_size", "eacgm.world_size", true},
	{"cause", "eacgm.cause", false},
	{"kind", "eacgm.step.kind", false},
	{"signal", "eacgm.push.signal", false},
	{"to", "eacgm.push.to", false},
	{"version", "service.version", false},
	{"of", "eacgm.of", false},
};

/* ---- points ---- */

struct points {
	VEC(point_t *) list;
	char help[160];
};

struct writer {
	const struct agent_view *v;
	const struct otlp_about *about;
	uint64_t now_ns, offset_ns;
	struct buf rows; /* packed */
	size_t n;
	/* the family that was begun last */
	char family[OTLP_NAME_BYTES];
	enum family_type type;
	const struct meant *meant; /* NULL: it has no other name */
	struct points plain;	   /* in arena: */
	struct otlp_arena arena;   /* emptied with each family */
	struct points named[MEANINGS];
	struct otlp_arena kept; /* of those */
};

static void pack_metric(struct writer *w, const char *name, const char *unit, const char *help,
			enum shape shape, point_t **list, size_t n)
{
	Opentelemetry__Proto__Metrics__V1__ScopeMetrics scope =
		OPENTELEMETRY__PROTO__METRICS__V1__SCOPE_METRICS__INIT;
	Opentelemetry__Proto__Metrics__V1__Gauge gauge =
		OPENTELEMETRY__PROTO__METRICS__V1__GAUGE__INIT;
	Opentelemetry__Proto__Metrics__V1__Sum sum = OPENTELEMETRY__PROTO__METRICS__V1__SUM__INIT;
	metric_t m = OPENTELEMETRY__PROTO__METRICS__V1__METRIC__INIT, *metrics = &m;
	m.name = (char *)(uintptr_t)name; /* packed, never changed, as the next two */
	m.unit = (char *)(uintptr_t)unit;
	m.description = (char *)(uintptr_t)help;
	if (shape == GAUGE) {
		gauge.data_points = list;
		gauge.n_data_points = n;
		m.data_case = OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA_GAUGE;
		m.gauge = &gauge;
	} else {
		sum.data_points = list;
		sum.n_data_points = n;
		sum.aggregation_temporality =
			OPENTELEMETRY__PROTO__METRICS__V1__AGGREGATION_TEMPORALITY__AGGREGATION_TEMPORALITY_CUMULATIVE;
		sum.is_monotonic = shape == SUM;
		m.data_case = OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA_SUM;
		m.sum = &sum;
	}
	scope.metrics = &metrics;
	scope.n_metrics = 1;
	otlp_pack(&w->rows, &scope.base);
	w->n += n;
}

static void end_family(struct writer *w)
{
	if (w->plain.list.len) {
		char name[OTLP_NAME_BYTES];
		const char *unit;
		otlp_metric_name(name, &unit, w->family, w->type);
		pack_metric(w, name, unit, w->plain.help, w->type == FAMILY_COUNTER ? SUM : GAUGE,
			    w->plain.list.data, w->plain.list.len);
	}
	w->plain.list.len = 0;
	otlp_arena_empty(&w->arena);
}

static void end_named(struct writer *w)
{
	for (size_t i = 0; i < MEANINGS; i++) {
		struct points *p = &w->named[i];
		if (p->list.len)
			pack_metric(w, meanings[i].name, meanings[i].unit, p->help,
				    meanings[i].shape, p->list.data, p->list.len);
		vec_free(&p->list);
	}
}

static void on_family(void *ctx, const char *name, enum family_type type, const char *help)
{
	struct writer *w = ctx;
	end_family(w);
	snprintf(w->family, sizeof(w->family), "%s", name);
	snprintf(w->plain.help, sizeof(w->plain.help), "%s", help);
	w->type = type;
	w->meant = NULL;
	for (size_t i = 0; i < MEANINGS && !w->meant; i++)
		if (!strcmp(meanings[i].family, name))
			w->meant = &meanings[i];
}

/* The first row of its name: where the points of all of them are. */
static struct points *points_named(struct writer *w)
{
	size_t i = (size_t)(w->meant - meanings);
	while (i && !strcmp(meanings[i - 1].name, w->meant->name))
		i--;
	struct points *p = &w->named[i];
	if (!p->list.len)
		snprintf(p->help, sizeof(p->help), "%s", w->plain.help);
	return p;
}

static const char *label_value(const struct label *labels, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(labels[i].name, name))
			return labels[i].value;
	return NULL;
}

static bool is_named(const struct writer *w, const struct label *labels, size_t n)
{
	return w->meant && (!w->meant->of_gpu || (!label_value(labels, n, "pid") &&
						  !label_value(labels, n, "instance_id")));
}

static void put_label(struct otlp_arena *a, struct otlp_attributes *to, const struct label *l)
{
	const struct attribute_name *name = NULL;
	for (size_t i = 0; i < LEN(attribute_names) && !name; i++)
		if (!strcmp(attribute_names[i].label, l->name))
			name = &attribute_names[i];
	if (name && name->is_int)
		otlp_put_int(a, to, name->key, strtoll(l->value, NULL, 10));
	else
		otlp_put_text(a, to, name ? name->key : l->name, l->value);
}

static void put_meaning(struct otlp_arena *a, struct otlp_attributes *to, const struct meant *m,
			const struct label *labels, size_t n)
{
	if (m->of_gpu) {
		const char *gpu = label_value(labels, n, "gpu");
		otlp_put_text(a, to, "hw.type", "gpu");
		if (!label_value(labels, n, "uuid"))
			otlp_put_text(a, to, "hw.id", gpu ? gpu : "");
	}
	if (m->key)
		otlp_put_text(a, to, m->key, m->value);
}

/* Of a process that began later its counters did so too. */
static uint64_t start_of(const struct writer *w, const struct label *labels, size_t n)
{
	uint64_t ret = w->about->start_realtime_ns;
	const char *pid = label_value(labels, n, "pid");
	const struct live_process *p =
		pid ? live_series_process(w->v->series, (uint32_t)strtoul(pid, NULL, 10)) : NULL;
	uint64_t began_ns = p && p->start_ns ? p->start_ns + w->offset_ns : 0;
	ret = began_ns > ret ? began_ns : ret;
	return ret < w->now_ns ? ret : w->now_ns;
}

static void on_sample(void *ctx, const struct label *labels, size_t n, double value)
{
	struct writer *w = ctx;
	if (isnan(value))
		return;
	bool named = is_named(w, labels, n);
	struct points *to = named ? points_named(w) : &w->plain;
	struct otlp_arena *a = named ? &w->kept : &w->arena;
	struct otlp_attributes attributes = {0};
	point_t *p = otlp_arena_get(a, sizeof(*p));
	opentelemetry__proto__metrics__v1__number_data_point__init(p);
	for (size_t i = 0; i < n; i++)
		if (labels[i].value)
			put_label(a, &attributes, &labels[i]);
	if (named)
		put_meaning(a, &attributes, w->meant, labels, n);
	p->attributes = attributes.list;
	p->n_attributes = attributes.n;
	p->time_unix_nano = w->now_ns;
	if (named ? w->meant->shape != GAUGE : w->type == FAMILY_COUNTER)
		p->start_time_unix_nano = start_of(w, labels, n);
	p->value_case = OPENTELEMETRY__PROTO__METRICS__V1__NUMBER_DATA_POINT__VALUE_AS_DOUBLE;
	p->as_double = value;
	*vec_push(&to->list) = p;
}

size_t otlp_metrics_write(struct buf *ret, const struct otlp_about *about,
			  const struct agent_view *v, uint64_t now_realtime_ns, uint64_t offset_ns)
{
	struct writer *w = xcalloc(1, sizeof(*w));
	const struct series_sink sink = {w, on_family, on_sample};
	w->v = v;
	w->about = about;
	w->now_ns = now_realtime_ns;
	w->offset_ns = offset_ns;
	agent_series_write(&sink, v);
	end_family(w);
	end_named(w);
	otlp_put_question(ret, about, &w->rows);
	size_t n = w->n;
	vec_free(&w->plain.list);
	buf_free(&w->rows);
	otlp_arena_free(&w->arena);
	otlp_arena_free(&w->kept);
	free(w);
	return n;
}
