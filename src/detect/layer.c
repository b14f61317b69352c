/* layer.c - names and traits of layers that are judged. */
#include "detect/layer.h"

#include <stdio.h>
#include <string.h>

/* By number. */
static const enum layer judged[DETECT_NAMED] = {
	LAYER_CUDA, LAYER_PYTHON, LAYER_TORCH, LAYER_NCCL, LAYER_HARDWARE, LAYER_HOST, LAYER_STEP,
};

unsigned detect_layer_traits(enum detect_layer layer)
{
	return layer_traits(layer < DETECT_NAMED ? judged[layer] : LAYER_NAMED);
}

const char *detect_layer_name(const struct detect_layers *layers, enum detect_layer layer)
{
	if (layer < DETECT_NAMED)
		return layer_name(judged[layer]);
	uint32_t i = layer - DETECT_NAMED;
	return i < layers->len ? layers->names[i] : "";
}

static enum detect_layer add(struct detect_layers *layers, const char *name)
{
	uint32_t i = 0;
	while (i < layers->len && strcmp(name, layers->names[i]) != 0)
		i++;
	if (DETECT_NAMED + i == DETECT_LAYERS)
		return DETECT_LAYERS;
	if (i == layers->len) {
		snprintf(layers->names[i], LAYER_NAME_BYTES, "%s", name);
		layers->len++;
	}
	return DETECT_NAMED + i;
}

enum detect_layer detect_layer_add(struct detect_layers *layers, const char *name)
{
	enum layer layer = layer_of_name(name);
	if (layer == LAYER_NAMED)
		return layer_name_is_valid(name) ? add(layers, name) : DETECT_LAYERS;
	for (enum detect_layer i = 0; i < DETECT_NAMED; i++)
		if (judged[i] == layer)
			return i;
	return DETECT_LAYERS;
}
