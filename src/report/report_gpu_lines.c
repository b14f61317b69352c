/* report_gpu_lines.c - GPU time by Python line, forward and backward, in the report. */
#include <stdlib.h>

#include "analyze/gpu_lines.h"
#include "base/human.h"
#include "report/report_section.h"
#include "symbolize/demangle.h"

static void *begin(const struct report *r, struct report_visitors *v)
{
	(void)v;
	return r->tables->gpu_spans ? xcalloc(1, sizeof(struct gpu_lines)) : NULL;
}

static bool make(const struct report *r, void *state)
{
	struct gpu_lines *l = state;
	const struct report_options *o = r->options;
	gpu_lines_make(l, r->source,
		       &(struct gpu_lines_options){.pid = o->pid,
						   .from_ns = o->from_ns,
						   .to_ns = o->to_ns,
						   .demangle = demangle});
	return l->rows.len;
}

static void end(void *state)
{
	gpu_lines_free(state);
	free(state);
}

/* ---- text ---- */

static void row_text(const struct page *p, const struct gpu_line *row, uint64_t total_ns)
{
	char share[HUMAN_BYTES];
	uint64_t ns = row->forward_ns + row->backward_ns;
	snprintf(share, sizeof(share), "%.1f %%", 100 * (double)ns / (double)total_ns);
	page_ns(p, row->forward_ns, COLUMN_TIME);
	page_ns(p, row->backward_ns, COLUMN_TIME);
	page_right(p, share, COLUMN_TIME);
	page_rest(p, row->name, 3 * COLUMN_TIME);
}

static void text(const struct page *p, const void *state)
{
	const struct gpu_lines *l = state;
	char elsewhere[HUMAN_BYTES];
	size_t shown = page_shown(p, l->rows.len);
	fputc('\n', p->out);
	page_styled(p, BOLD, "GPU time by Python line");
	page_wrapped(p, 23, 2,
		     ": estimated from the launches that carry a stack; backward passes count at "
		     "the line of their forward operator");
	if (l->elsewhere_ns)
		fprintf(p->out, "  without a Python line: %s of the GPU's time\n",
			human_ns(elsewhere, l->elsewhere_ns));
	page_right(p, "forward", COLUMN_TIME);
	page_right(p, "backward", COLUMN_TIME);
	page_right(p, "share", COLUMN_TIME);
	fputs("  line, by time on the GPU\n", p->out);
	for (size_t i = 0; i < shown; i++)
		row_text(p, &l->rows.data[i], l->total_ns);
	page_more(p, l->rows.len, shown, COLUMN_TIME);
}

/* ---- JSON ---- */

static json_t *row_json(const struct gpu_line *row)
{
	json_t *o = json_object();
	json_object_set_new(o, "name", report_text_json(row->name));
	json_object_set_new(o, "file", report_text_json(row->file));
	json_object_set_new(o, "line", json_integer(row->line));
	json_object_set_new(o, "forward_ns", report_number_json(row->forward_ns));
	json_object_set_new(o, "backward_ns", report_number_json(row->backward_ns));
	return o;
}

static void json(struct json_stream *out, const struct report *r, const void *state)
{
	const struct gpu_lines *l = state;
	uint64_t top = r->options->top;
	json_stream_object(out, "gpu_lines");
	json_stream_array(out, "lines");
	for (size_t i = 0; i < l->rows.len && (!top || i < top); i++)
		json_stream_put(out, NULL, row_json(&l->rows.data[i]));
	json_stream_close(out);
	json_stream_put(out, "total_ns", report_number_json(l->total_ns));
	json_stream_put(out, "elsewhere_ns", report_number_json(l->elsewhere_ns));
	json_stream_close(out);
}

static double relevance(const struct report *r, const void *state)
{
	const struct gpu_lines *l = state;
	return report_share(r, l->total_ns);
}

const struct report_section report_gpu_lines = {.name = "gpu-lines",
						.begin = begin,
						.make = make,
						.relevance = relevance,
						.text = text,
						.json = json,
						.end = end};
