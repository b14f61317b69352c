/* report_section.c - the list of the report's sections. */
#include "report/report_section.h"

static const struct report_section *const sections[] = {
	&report_account,   &report_timeline,	&report_ranks, &report_steps,	 &report_operators,
	&report_gpu_lines, &report_collectives, &report_flops, &report_counters, &report_told,
};
#define SECTIONS (sizeof(sections) / sizeof(sections[0]))

void report_sections_begin(struct report *r, struct report_visitors *v)
{
	r->sections = xcalloc(SECTIONS, sizeof(*r->sections));
	for (size_t i = 0; i < SECTIONS; i++)
		if (!r->options->only || r->options->only == sections[i])
			r->sections[i] = sections[i]->begin(r, v);
}

void report_sections_make(struct report *r)
{
	for (size_t i = 0; i < SECTIONS; i++)
		if (r->sections[i] && !sections[i]->make(r, r->sections[i])) {
			sections[i]->end(r->sections[i]);
			r->sections[i] = NULL;
		}
}

void report_sections_head(const struct page *p)
{
	if (p->r->sections[0])
		sections[0]->text(p, p->r->sections[0]);
}

void report_sections_text(const struct page *p)
{
	for (size_t i = 1; i < SECTIONS; i++)
		if (p->r->sections[i])
			sections[i]->text(p, p->r->sections[i]);
}

const void *report_section_state(const struct report *r, const struct report_section *of)
{
	for (size_t i = 0; i < SECTIONS; i++)
		if (sections[i] == of)
			return r->sections[i];
	return NULL;
}

void report_sections_json(struct json_stream *out, const struct report *r)
{
	for (size_t i = 0; i < SECTIONS; i++)
		if (r->sections[i])
			sections[i]->json(out, r, r->sections[i]);
}

void report_sections_end(struct report *r)
{
	for (size_t i = 0; i < SECTIONS; i++)
		if (r->sections[i])
			sections[i]->end(r->sections[i]);
	free(r->sections);
}
