/* anomaly_slices_make.c - a recording's anomalies as slices of a timeline. */
#include <math.h>

#include "base/human.h"
#include "export/anomaly_slices.h"
#include "incident/anomaly_list.h"
#include "incident/anomaly_text.h"

static void features_put(struct anomaly_slice *s, const struct anomaly *a)
{
	char value[FEATURE_BYTES], usual[FEATURE_BYTES];
	for (uint32_t i = 0; i < a->features_len; i++) {
		const char *unit = a->features[i].unit, *rest = feature_unit(unit);
		char *text = xasprintf("%s where %s is usual%s%s, %.0f %% of the distance",
				       feature_value(value, a->features[i].value, unit),
				       feature_value(usual, a->features[i].usual, unit),
				       rest[0] ? ", " : "", rest, 100 * a->features[i].share_ratio);
		anomaly_slice_arg(s, a->features[i].name, text, 0);
		free(text);
	}
}

static void calls_put(struct anomaly_slice *s, const struct anomaly *a)
{
	char mean[HUMAN_BYTES], usual[HUMAN_BYTES];
	for (uint32_t i = 0; i < a->calls_len; i++) {
		char *name = xasprintf("call %u", i + 1);
		char *text = xasprintf("%s: %llu calls of %s, usual %s", a->calls[i].key,
				       (unsigned long long)a->calls[i].calls,
				       human_ns(mean, (uint64_t)fmax(a->calls[i].mean_ns, 0)),
				       human_ns(usual, (uint64_t)fmax(a->calls[i].usual_ns, 0)));
		anomaly_slice_arg(s, name, text, 0);
		free(name);
		free(text);
	}
}

static void lines_put(struct anomaly_slice *s, const struct anomaly_lines *l)
{
	char ns[HUMAN_BYTES], usual[HUMAN_BYTES];
	for (uint32_t i = 0; i < l->lines_len; i++) {
		char *name = xasprintf("line %u", i + 1);
		char *text = xasprintf("%s (%s:%u): %s, usual %s", l->lines[i].function,
				       l->lines[i].file, l->lines[i].line,
				       human_ns(ns, (uint64_t)l->lines[i].ns),
				       human_ns(usual, (uint64_t)l->lines[i].usual_ns));
		anomaly_slice_arg(s, name, text, 0);
		free(name);
		free(text);
	}
}

static void slice_put(struct anomaly_slices *slices, const struct listed_anomaly *f)
{
	const struct anomaly *a = &f->a;
	char entity[ANOMALY_ENTITY_BYTES];
	struct anomaly_slice *s = vec_push(&slices->rows);
	anomaly_entity(entity, a);
	s->start_ns = a->start_ns;
	s->end_ns = a->end_ns;
	s->layer = xstrdup(a->layer_name);
	s->name = xasprintf("%s%s%s", a->name, a->name[0] ? ", " : "", entity);
	anomaly_slice_arg(s, "why", a->why, 0);
	anomaly_slice_arg(s, "p_value", NULL, a->p_value);
	anomaly_slice_arg(s, "lost_ns", NULL, a->lost_ns);
	anomaly_slice_arg(s, "windows", NULL, a->windows);
	features_put(s, a);
	calls_put(s, a);
	lines_put(s, &f->lines);
}

void anomaly_slices_make(struct anomaly_slices *ret, const struct anomaly_list *list)
{
	for (size_t i = 0; i < list->rows.len; i++)
		slice_put(ret, &list->rows.data[i]);
}
