/* model_fuzz.c - hostile models.
 *
 * What is accepted can be asked for scores and p-values, and be written and read again: then it is
 * the same text.
 *
 * links: base analyze detect */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/mixture_score.h"
#include "detect/model_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

static void check_mixture(const struct model_mixture *m)
{
	double row[FEATURES_MOST], shares[FEATURES_MOST];
	uint32_t component = 0;
	if (!m->columns)
		return;
	check(m->columns <= FEATURES_MOST && m->gmm.d == m->columns);
	for (uint32_t i = 0; i < m->columns; i++) {
		check(m->names[i] && m->scale[i] > 0);
		row[i] = i % 3 ? (double)i : NAN;
	}
	double p = tail_p(&m->tail, mixture_score(m, row));
	check(isnan(p) || (p > 0 && p <= 1));
	for (uint32_t i = 0; i < m->columns; i++)
		row[i] = (double)i;
	gmm_explain(&m->gmm, row, shares, &component);
	check(component < m->gmm.components);
}

static void check_again(const struct model *m)
{
	struct model again;
	struct err e = {0};
	char *text, *twice;
	size_t len;
	check(!model_print(m, &text, &len, &e));
	check(!model_parse(&again, text, len, "again", &e));
	check(!model_print(&again, &twice, &len, &e));
	check(!strcmp(text, twice));
	free(text);
	free(twice);
	model_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model m;
	struct err e = {0};
	if (model_parse(&m, (const char *)data, size, "fuzz", &e)) {
		check(e.msg[0] != 0);
		return 0;
	}
	for (int l = 0; l < DETECT_LAYERS; l++)
		check_mixture(&m.layers[l]);
	for (size_t i = 0; i < m.keys.len; i++)
		check(m.keys.data[i].text && m.keys.data[i].layer < DETECT_LAYERS);
	for (size_t i = 0; i < m.counters.len; i++)
		check(m.counters.data[i].regime <= m.regimes.len);
	check_again(&m);
	model_free(&m);
	return 0;
}
