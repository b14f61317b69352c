/* kept_anomaly.c - see kept_anomaly.h. */
#include "incident/kept_anomaly.h"

#include <stdlib.h>

#include "base/buffer.h"

struct anomaly kept_anomaly(const struct anomaly *a)
{
	struct anomaly ret = *a;
	bool has_line = a->line.function && a->line.file;
	ret.name = xstrdup(a->name ? a->name : "");
	ret.calls_len = ret.features_len = 0;
	ret.line.function = has_line ? xstrdup(a->line.function) : NULL;
	ret.line.file = has_line ? xstrdup(a->line.file) : NULL;
	return ret;
}

void kept_anomaly_free(struct anomaly *a)
{
	free((char *)(uintptr_t)a->name);
	free((char *)(uintptr_t)a->line.function);
	free((char *)(uintptr_t)a->line.file);
	a->name = a->line.function = a->line.file = NULL;
}
