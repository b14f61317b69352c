/* kept_row.h - a row that was judged, kept until the other rows of its window are: what they say
 * may be what makes it an alarm. Knows nothing of what they say. */
#pragma once

#include "incident/episodes.h"

struct kept_row {
	struct made_row made;
	struct judged judged; /* its pointers are to what is here */
	double shift[FEATURES_MOST];
};

/* Keeps a copy in the place of the one before. *row: NULL, or one of before; free() it. */
void kept_row_set(struct kept_row **row, const struct judged *j);
