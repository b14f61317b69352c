/* diagnosis_words.c - an incident's cause and culprit in one line. */
#include "incident/diagnosis_words.h"

#include <ctype.h>

#include "incident/cause_words.h"

void diagnosed_words(struct buf *b, const struct rec_tables *t, const struct diagnosed *in)
{
	size_t at = b->len;
	if (in->blamed)
		cause_headline(b, t, &in->cause);
	else
		buf_printf(b, "why is not known: too little of it, or of usual time, was recorded");
	if (b->len > at)
		b->data[at] = (uint8_t)toupper(b->data[at]);
}
