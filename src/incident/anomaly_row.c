/* anomaly_row.c - each field there and back. */
#include "incident/anomaly_row.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(ANOMALY_FEATURES == MODEL_ANOMALY_FEATURES, "a row has all features");
_Static_assert(ANOMALY_CALLS == MODEL_ANOMALY_CALLS, "and all calls");

static uint32_t text_number(struct anomaly_texts *t, const char *text)
{
	if (!text || !*text)
		return 0;
	t->of[t->len++] = text;
	return (uint32_t)t->len;
}

void anomaly_to_row(struct m_anomaly *ret, struct anomaly_texts *ret_texts, const struct anomaly *a)
{
	struct anomaly_texts *t = ret_texts;
	t->len = 0;
	*ret = (struct m_anomaly){.id = a->id,
				  .start_ns = a->start_ns,
				  .end_ns = a->end_ns,
				  .told_ns = a->told_ns,
				  .layer = text_number(t, a->layer_name),
				  .name = text_number(t, a->name),
				  .why = text_number(t, a->why),
				  .pid = a->pid,
				  .gpu = a->gpu,
				  .windows = a->windows,
				  .ended = a->ended,
				  .p_value = a->p_value,
				  .score = a->score,
				  .lost_ns = a->lost_ns};
	for (uint32_t i = 0; i < a->features_len; i++) {
		ret->feature_names[i] = text_number(t, a->features[i].name);
		ret->feature_units[i] = text_number(t, a->features[i].unit);
		ret->feature_values[i] = a->features[i].value;
		ret->feature_usuals[i] = a->features[i].usual;
		ret->feature_shares[i] = a->features[i].share_ratio;
	}
	for (uint32_t i = 0; i < a->calls_len; i++) {
		ret->call_keys[i] = text_number(t, a->calls[i].key);
		ret->call_counts[i] = a->calls[i].calls;
		ret->call_mean_ns[i] = a->calls[i].mean_ns;
		ret->call_usual_ns[i] = a->calls[i].usual_ns;
		ret->call_more_ns[i] = a->calls[i].more_ns;
	}
}

bool anomaly_of_row(struct anomaly *ret, const struct m_anomaly *row, const struct rec_tables *t,
		    struct detect_layers *layers)
{
	const struct strtab *s = &t->strings;
	*ret = (struct anomaly){.id = row->id,
				.start_ns = row->start_ns,
				.end_ns = row->end_ns > row->start_ns ? row->end_ns : row->start_ns,
				.told_ns = row->told_ns,
				.ended = row->ended,
				.pid = row->pid,
				.gpu = row->gpu,
				.name = strtab_get(s, row->name, NULL),
				.p_value = isnan(row->p_value) ? 1 : row->p_value,
				.score = row->score,
				.lost_ns = row->lost_ns,
				.lost_until_ns = row->end_ns,
				.windows = row->windows};
	snprintf(ret->why, sizeof(ret->why), "%s", strtab_get(s, row->why, NULL));
	for (uint32_t i = 0; i < ANOMALY_FEATURES && row->feature_names[i]; i++) {
		ret->features_len = i + 1;
		ret->features[i].name = strtab_get(s, row->feature_names[i], NULL);
		ret->features[i].unit = strtab_get(s, row->feature_units[i], NULL);
		ret->features[i].value = row->feature_values[i];
		ret->features[i].usual = row->feature_usuals[i];
		ret->features[i].share_ratio = row->feature_shares[i];
	}
	for (uint32_t i = 0; i < ANOMALY_CALLS && row->call_keys[i]; i++) {
		ret->calls_len = i + 1;
		ret->calls[i].key = strtab_get(s, row->call_keys[i], NULL);
		ret->calls[i].calls = row->call_counts[i];
		ret->calls[i].mean_ns = row->call_mean_ns[i];
		ret->calls[i].usual_ns = row->call_usual_ns[i];
		ret->calls[i].more_ns = row->call_more_ns[i];
	}
	ret->layer = detect_layer_add(layers, strtab_get(s, row->layer, NULL));
	snprintf(ret->layer_name, sizeof(ret->layer_name), "%s",
		 detect_layer_name(layers, ret->layer));
	return ret->layer != DETECT_LAYERS;
}
