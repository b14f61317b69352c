/* judged.c - rings or lists of rows, and copies of mixtures without what is for their making. */
#include "incident/judged.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct judged *judged_new(bool whole)
{
	struct judged *j = xcalloc(1, sizeof(*j));
	j->whole = whole;
	pthread_mutex_init(&j->lock, NULL);
	return j;
}

static void mixture_free(struct judged_mixture *m)
{
	free(m->means);
	free(m->covariances);
	*m = (struct judged_mixture){0};
}

void judged_free(struct judged *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < JUDGED_LAYERS; i++) {
		free(j->layers[i].rows);
		mixture_free(&j->layers[i].mixture);
	}
	pthread_mutex_destroy(&j->lock);
	free(j);
}

/* Every second one that is of no anomaly goes, and of those to come. */
static void thin_out(struct judged_layer *l)
{
	uint64_t kept = 0, plain = 0;
	for (uint64_t i = 0; i < l->next; i++)
		if (l->rows[i].alarmed || plain++ % 2 == 0)
			l->rows[kept++] = l->rows[i];
	if (kept < l->next)
		l->each *= 2;
	l->next = kept;
}

/* The place of another row, NULL: it is not kept. */
static struct judged_row *place_of(struct judged *j, struct judged_layer *l, bool alarmed)
{
	if (!l->rows) {
		l->rows = xcalloc(JUDGED_ROWS, sizeof(*l->rows));
		l->each = 1;
	}
	if (!j->whole)
		return &l->rows[l->next++ % JUDGED_ROWS];
	if (!alarmed && l->came++ % l->each)
		return NULL;
	if (l->next == JUDGED_ROWS)
		thin_out(l);
	return l->next < JUDGED_ROWS ? &l->rows[l->next++] : NULL;
}

static void fill(struct judged_row *to, const struct feature_row *row, double score, bool alarmed)
{
	*to = (struct judged_row){.start_ns = row->start_ns,
				  .end_ns = row->end_ns,
				  .pid = row->pid,
				  .gpu = row->gpu,
				  .alarmed = alarmed,
				  .score = score};
	for (size_t f = 0; f < FEATURES_MOST; f++)
		to->x[f] = (float)row->x[f];
}

void judged_row(struct judged *j, const struct feature_row *row, double score, bool alarmed)
{
	if (row->layer >= JUDGED_LAYERS)
		return;
	struct judged_layer *l = &j->layers[row->layer];
	bool helper = row->layer == DETECT_HOST && row->parents_pace;
	pthread_mutex_lock(&j->lock);
	struct judged_row *to = helper && j->helpers_apart ? NULL : place_of(j, l, alarmed);
	if (to)
		fill(to, row, score, alarmed);
	pthread_mutex_unlock(&j->lock);
}

/* Rows are standardised before they are fitted: x = centre + scale * standardised. */
static void copy_component(struct judged_mixture *to, const struct model_mixture *from, uint32_t k)
{
	uint32_t d = to->columns;
	const double *mean = from->gmm.means + (size_t)k * d;
	const double *covariance = from->gmm.covariances + (size_t)k * d * d;
	to->weights[k] = from->gmm.weights[k];
	for (uint32_t a = 0; a < d; a++) {
		to->means[k * d + a] = from->centre[a] + from->scale[a] * mean[a];
		for (uint32_t b = 0; b < d; b++)
			to->covariances[((size_t)k * d + a) * d + b] =
				covariance[a * d + b] * from->scale[a] * from->scale[b];
	}
}

static void copy_mixture(struct judged_mixture *to, const struct model_mixture *from,
			 enum detect_layer layer)
{
	mixture_free(to);
	if (!from->columns || !from->gmm.components || from->gmm.d != from->columns)
		return;
	to->columns = from->columns;
	to->components = from->gmm.components;
	to->means = xcalloc((size_t)to->components * to->columns, sizeof(double));
	to->covariances =
		xcalloc((size_t)to->components * to->columns * to->columns, sizeof(double));
	for (uint32_t c = 0; c < to->columns; c++)
		to->feature[c] = (uint32_t)feature_place(layer, from->names[c]);
	for (uint32_t k = 0; k < to->components; k++)
		copy_component(to, from, k);
}

void judged_mixtures(struct judged *j, const struct model *model,
		     const struct detect_layers *layers)
{
	pthread_mutex_lock(&j->lock);
	j->helpers_apart = model->helpers.columns;
	for (size_t i = 0; i < JUDGED_LAYERS; i++) {
		enum detect_layer layer = (enum detect_layer)i;
		snprintf(j->layers[i].name, sizeof(j->layers[i].name), "%s",
			 detect_layer_name(layers, layer));
		copy_mixture(&j->layers[i].mixture, &model->layers[i], layer);
	}
	pthread_mutex_unlock(&j->lock);
}
