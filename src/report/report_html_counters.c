/* report_html_counters.c - counters over time for the page: those of GPUs and the host before those
 * of processes, of which there may be thousands. */
#include <math.h>
#include <stdlib.h>

#include "analyze/counter_series.h"
#include "base/entity.h"
#include "events/metric.h"
#include "report/report_html.h"
#include "report/report_section.h"

#define SERIES_MOST 300
#define POINTS	    240

/* In the order in which they are kept where there are too many. */
static const struct {
	const char *name;
	int rank;
} kinds[ENTITY_KINDS] = {
	[ENTITY_GPU] = {"gpu", 0},	 [ENTITY_HOST] = {"host", 1},
	[ENTITY_EACGM] = {"self", 2},	 [ENTITY_INTERFACE] = {"interface", 3},
	[ENTITY_DISK] = {"disk", 4},	 [ENTITY_FILESYSTEM] = {"filesystem", 5},
	[ENTITY_CGROUP] = {"cgroup", 6}, [ENTITY_PROCESS] = {"process", 7},
	[ENTITY_OTHER] = {"other", 8},
};

static int rank_of(void *ctx, const struct m_metric *m)
{
	const struct report *r = ctx;
	if (m->kind >= ENTITY_KINDS ||
	    (r->options->pid && m->kind == ENTITY_PROCESS && m->pid != r->options->pid))
		return -1;
	return kinds[m->kind].rank +
	       (m->kind == ENTITY_GPU && m->pid ? kinds[ENTITY_PROCESS].rank : 0);
}

/* Four digits are more than a chart shows. */
static json_t *short_json(double v)
{
	if (!isfinite(v))
		return json_null();
	if (v == 0 || fabs(v) >= 1e15)
		return json_real(v);
	double scale = pow(10, 3 - floor(log10(fabs(v))));
	double rounded = scale >= 1 ? round(v * scale) / scale : round(v);
	return rounded == floor(rounded) && fabs(rounded) < 1e15 ? json_integer((json_int_t)rounded)
								 : json_real(rounded);
}

static json_t *values_json(const struct counter_serie *s, uint32_t n, bool max)
{
	json_t *ret = json_array();
	for (uint32_t i = 0; i < n; i++) {
		const struct counter_bucket *b = &s->buckets[i];
		json_array_append_new(ret, b->samples ? short_json(max ? b->max : b->mean)
						      : json_null());
	}
	return ret;
}

static json_t *serie_json(const struct report *r, const struct counter_series *all,
			  const struct counter_serie *s)
{
	const struct m_metric *m = &r->tables->metrics.data[s->metric];
	struct entity of = metric_entity(m, &r->tables->strings);
	struct buf entity = {0};
	entity_print(&entity, &of);
	buf_byte(&entity, 0);
	json_t *ret =
		json_pack("{s:o, s:s, s:o, s:o, s:o}", "entity",
			  report_text_json((const char *)entity.data), "kind", kinds[m->kind].name,
			  "name", report_text_json(strtab_get(&r->tables->strings, m->name, NULL)),
			  "unit", report_text_json(metric_unit_text(m->unit)), "mean",
			  values_json(s, all->buckets, false));
	if (s->samples > all->buckets)
		json_object_set_new(ret, "max", values_json(s, all->buckets, true));
	buf_free(&entity);
	return ret;
}

json_t *report_html_counters(const struct report *r, json_t *left_out)
{
	uint64_t start_ns = report_number(r->tables, "start_monotonic_ns");
	struct counter_series all;
	counter_series_make(&all, r->source,
			    &(struct counter_series_options){.from_ns = start_ns,
							     .to_ns = start_ns + r->duration_ns + 1,
							     .buckets = POINTS,
							     .most = SERIES_MOST,
							     .rank = rank_of,
							     .ctx = (void *)r});
	json_t *list = json_array();
	for (size_t i = 0; i < all.list.len; i++)
		json_array_append_new(list, serie_json(r, &all, &all.list.data[i]));
	json_t *ret = json_pack("{s:f, s:I, s:o}", "bucket_s", (double)all.bucket_ns / 1e9,
				"points", (json_int_t)all.buckets, "series", list);
	report_html_left_out(left_out, "counters over time", all.list.len,
			     all.list.len + all.left_out);
	counter_series_free(&all);
	return ret;
}
