/* flame_formats.c - the list of formats of call trees. */
#include <string.h>

#include "export/flame.h"

static const struct flame_format *const formats[] = {
	&flame_svg,
	&flame_folded,
	&flame_pprof,
	&flame_speedscope,
};

const struct flame_format *flame_format(const char *name)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (!strcmp(formats[i]->name, name))
			return formats[i];
	return NULL;
}
