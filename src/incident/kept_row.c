/* kept_row.c - a copy of a judged row that owes nothing to others. */
#include "incident/kept_row.h"

#include <string.h>

void kept_row_set(struct kept_row **row, const struct judged *j)
{
	if (!*row)
		*row = xcalloc(1, sizeof(**row));
	struct kept_row *k = *row;
	k->made = *j->made;
	k->judged = *j;
	memcpy(k->shift, j->shift, sizeof(k->shift));
	k->judged.made = &k->made;
	k->judged.row = &k->made.row;
	k->judged.shift = k->shift;
}
