/* layer.c - looks layers up in their table. */
#include "base/layer.h"

#include <string.h>

#define ROW(id, name, number, traits) [LAYER_##id] = {name, traits},
static const struct {
	const char *name;
	unsigned traits;
} rows[] = {LAYER_TABLE(ROW, ROW)[LAYER_NAMED] = {"", LAYER_IS_CHOSEN | LAYER_BY_CALLS}};

static unsigned row_of(enum layer layer)
{
	return (unsigned)layer < LAYER_NAMED ? (unsigned)layer : LAYER_NAMED;
}

const char *layer_name(enum layer layer)
{
	return rows[row_of(layer)].name;
}

enum layer layer_of_name(const char *name)
{
	enum layer i = 0;
	while (i < LAYER_NAMED && strcmp(name, rows[i].name) != 0)
		i++;
	return i;
}

bool layer_name_is_valid(const char *name)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
	return !name[len] && len < LAYER_NAME_BYTES && name[0] >= 'a' && name[0] <= 'z' &&
	       strcmp(name, LAYER_ALL) != 0;
}

unsigned layer_traits(enum layer layer)
{
	return rows[row_of(layer)].traits;
}

unsigned layer_traits_of_name(const char *name)
{
	return layer_traits(layer_of_name(name));
}

uint32_t layers_with(unsigned traits)
{
	uint32_t set = 0;
	for (enum layer i = 0; i < LAYER_NAMED; i++)
		if (rows[i].traits & traits)
			set |= 1u << i;
	return set;
}
