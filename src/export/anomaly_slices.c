/* anomaly_slices.c - filling and freeing the list. */
#include "export/anomaly_slices.h"

void anomaly_slice_arg(struct anomaly_slice *s, const char *name, const char *text, double value)
{
	if (s->args_len == ANOMALY_SLICE_ARGS)
		return;
	s->args[s->args_len++] = (struct anomaly_slice_arg){
		.name = xstrdup(name), .text = text ? xstrdup(text) : NULL, .value = value};
}

void anomaly_slices_free(struct anomaly_slices *s)
{
	for (size_t i = 0; i < s->rows.len; i++) {
		struct anomaly_slice *row = &s->rows.data[i];
		for (size_t k = 0; k < row->args_len; k++) {
			free(row->args[k].name);
			free(row->args[k].text);
		}
		free(row->layer);
		free(row->name);
	}
	vec_free(&s->rows);
}
