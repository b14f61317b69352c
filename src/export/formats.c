/* formats.c - the list of formats. */
#include <string.h>

#include "export/sink.h"

static const struct sink_format *const formats[] = {
	&sink_perfetto, &sink_chrome, &sink_csv, &sink_jsonl, &sink_sqlite,
};

const struct sink_format *sink_format(const char *name)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (!strcmp(formats[i]->name, name))
			return formats[i];
	return NULL;
}
