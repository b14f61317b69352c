/* report_html_anomalies.c - rows of the detector and its mixtures for the page, of a recording in
 * which anomalies were told. The detector's rows are not in recordings: it is judged anew, as
 * `eacgm detect` does without a model, so that what was told then may differ. */
#include "incident/anomaly_list.h"
#include "report/report_html.h"
#include "report/report_judged.h"
#include "report/report_section.h"

static void on_row(void *ctx, const struct feature_row *row, const char *layer, double score,
		   double p, bool alarmed)
{
	(void)layer, (void)p;
	judged_row(ctx, row, score, alarmed);
}

static void on_model(void *ctx, const struct model *m, const struct detect_layers *layers)
{
	judged_mixtures(ctx, m, layers);
}

json_t *report_html_anomalies(const struct report *r, json_t *left_out)
{
	struct anomaly_list found = {0};
	if (!r->tables->anomalies.len)
		return json_array();
	struct judged *j = judged_new(true);
	anomaly_list_make(
		&found, r->source,
		&(struct anomaly_list_options){
			.alarms_per_hour = 1, .ctx = j, .row = on_row, .judged_by = on_model});
	json_t *ret = judged_whole_json(j), *layer;
	size_t i, shown = 0;
	json_array_foreach (ret, i, layer) {
		shown += json_array_size(json_object_get(layer, "rows"));
	}
	report_html_left_out(left_out, "rows of the detector", shown, found.stats.rows);
	anomaly_list_free(&found);
	judged_free(j);
	return ret;
}
