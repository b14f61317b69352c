/* lost_in_line.c - puts an anomaly down to a line of Python. */
#include "incident/lost_in_line.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "incident/job_family.h"

#define MOSTLY 0.5 /* of what was lost */

static bool is_most(const struct anomaly *a, double more_ns)
{
	return a->lost_ns > 0 && more_ns >= MOSTLY * a->lost_ns;
}

bool lost_in_own_code(const struct anomaly *a, const struct anomaly_line *line)
{
	return line->function && is_most(a, line->ns - line->called_ns - line->usual_ns);
}

static void say_why(struct anomaly *a, const char *layer)
{
	char ns[HUMAN_BYTES], usual[HUMAN_BYTES];
	const struct anomaly_line *l = &a->line;
	const char *slash = strrchr(l->file, '/');
	snprintf(a->why, sizeof(a->why),
		 "%.80s (%.60s:%u) took %s where %s is usual, between calls of %.16s", l->function,
		 slash ? slash + 1 : l->file, l->line, human_ns(ns, (uint64_t)l->ns),
		 human_ns(usual, (uint64_t)fmax(l->usual_ns, 0)), layer);
}

void lost_in_line(struct anomaly *a, const struct anomaly_line *line)
{
	char layer[LAYER_NAME_BYTES];
	if (!is_most(a, line->ns - line->usual_ns))
		return;
	a->line = *line;
	if (!a->between_calls || a->layer == DETECT_PYTHON || !layer_has_calls(a->layer) ||
	    !lost_in_own_code(a, line))
		return;
	memcpy(layer, a->layer_name, sizeof(layer));
	a->layer = DETECT_PYTHON;
	snprintf(a->layer_name, sizeof(a->layer_name), "%s",
		 detect_layer_name(&(struct detect_layers){0}, DETECT_PYTHON));
	a->name = line->function;
	say_why(a, layer);
}
