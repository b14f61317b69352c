/* model.c - making and freeing a model. */
#include "detect/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void model_init(struct model *m)
{
	*m = (struct model){.clock.layer = DETECT_LAYERS};
	for (size_t k = 0; k < GMM_MAX_K; k++) {
		for (size_t l = 0; l < DETECT_LAYERS; l++)
			m->layers[l].bics[k] = NAN;
		m->helpers.bics[k] = NAN;
	}
}

const struct model_mixture *model_mixture_of(const struct model *m, enum detect_layer layer,
					     bool helper)
{
	return layer == DETECT_HOST && helper && m->helpers.columns ? &m->helpers
								    : &m->layers[layer];
}

static void mixture_free(struct model_mixture *m)
{
	for (uint32_t i = 0; i < m->columns; i++)
		free(m->names[i]);
	gmm_free(&m->gmm);
}

void model_free(struct model *m)
{
	free(m->origin);
	for (size_t i = 0; i < m->keys.len; i++)
		free(m->keys.data[i].text);
	vec_free(&m->keys);
	for (size_t i = 0; i < m->counters.len; i++)
		free(m->counters.data[i].name);
	vec_free(&m->counters);
	vec_free(&m->regimes);
	setting_free(&m->setting);
	for (size_t l = 0; l < DETECT_LAYERS; l++)
		mixture_free(&m->layers[l]);
	mixture_free(&m->helpers);
	*m = (struct model){0};
}
