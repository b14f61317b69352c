/* detect_model.h - models of the command line: read, and shown when they were learned. */
#pragma once

#include <stdio.h>

#include "base/buffer.h"
#include "report/report_json.h"
#include "detect/model.h"
#include "detect/numbers_json.h"

/* Of a recording: not learned from, for it looked faulty. */
struct learned_suspect {
	const char *path; /* of the command line */
	double from_s, to_s;
};

struct learned {
	struct model model;
	VEC(struct learned_suspect) suspects;
	char *left_out[DETECT_LAYERS]; /* why a layer was not learned; NULL: nothing is known */
};
void learned_free(struct learned *l);

/* For people: of a table's model its components, of a job's its layers. */
void learned_text(FILE *out, const struct learned *l);

/* All of a table's mixture, or of each layer's; docs/learn.md names the keys. */
json_t *learned_json(const struct learned *l);

/* Of the kind that it is to be used for; else a sentence that says what `what` is: "a recording".
 */
int model_read_for(struct model *ret, const char *path, enum model_kind kind, const char *what,
		   struct err *e);
