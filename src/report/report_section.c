/* report_section.c - the list of the report's sections, and the order in which their text comes. */
#include "report/report_section.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct report_section *const sections[] = {
	&report_account,   &report_timeline,	&report_ranks,	&report_steps,	  &report_operators,
	&report_gpu_lines, &report_collectives, &report_flops,	&report_counters, &report_incidents,
	&report_outlook,   &report_told,	&report_stalls, &report_disks,
};
#define NAME_BYTES 128
#define SECTIONS   (sizeof(sections) / sizeof(sections[0]))

/* What --section knows beside the layers' names, whether a recording has it or not. */
static const char *const names[] = {
	"account",     "recording", "steps",	"anomalies", "ranks",	 "processes",
	"gpus",	       "incidents", "gpu-time", "kernels",   "copies",	 "gpu-waits",
	"memory",      "errors",    "events",	"operators", "flops",	 "gpu-lines",
	"collectives", "sockets",   "profile",	"off-cpu",   "counters", "layers",
	"open",	       "notes",	    "outlook",	"stalls",    "disks",
};

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
		if (r->sections[i] && sections[i]->json)
			sections[i]->json(out, r, r->sections[i]);
}

void report_sections_end(struct report *r)
{
	for (size_t i = 0; i < SECTIONS; i++)
		if (r->sections[i])
			sections[i]->end(r->sections[i]);
	free(r->sections);
}

/* ---- parts ---- */

double report_share(const struct report *r, uint64_t ns)
{
	if (!r->duration_ns)
		return ns ? 1 : 0;
	return ns < r->duration_ns ? (double)ns / (double)r->duration_ns : 1;
}

void report_part_add(struct report_parts *to, const struct report_part *part)
{
	if (part->relevance > RELEVANT_NOT)
		*vec_push(&to->list) = *part;
}

static void section_parts(const struct report *r, struct report_parts *ret)
{
	for (size_t i = 0; i < SECTIONS; i++) {
		const struct report_section *s = sections[i];
		const void *state = r->sections[i];
		if (state && s->parts)
			s->parts(r, state, ret);
		else if (state)
			report_part_add(ret,
					&(struct report_part){.name = s->name,
							      .relevance = s->relevance(r, state),
							      .text = s->text,
							      .state = state});
	}
}

static int compare_parts(const void *a, const void *b)
{
	const struct report_part *x = a, *y = b;
	return x->relevance > y->relevance ? -1 : x->relevance < y->relevance;
}

/* All of the report, in order; free the list. */
static void all_parts(const struct report *r, struct report_parts *ret)
{
	section_parts(r, ret);
	if (!r->options->only) {
		report_text_parts(r, ret);
		report_processes_parts(r, ret);
		report_gpu_parts(r, ret);
		report_profile_parts(r, ret);
		report_waits_parts(r, ret);
		report_layers_parts(r, ret);
		report_notes_parts(r, ret);
	}
	/* stable (glibc's qsort need not be): what is alike stays in the order of above */
	for (size_t i = 1; i < ret->list.len; i++) {
		struct report_part moved = ret->list.data[i];
		size_t k = i;
		for (; k && compare_parts(&ret->list.data[k - 1], &moved) > 0; k--)
			ret->list.data[k] = ret->list.data[k - 1];
		ret->list.data[k] = moved;
	}
}

static bool part_is(const struct report_part *part, const char *name)
{
	return !strcmp(part->name, name) || (part->group && !strcmp(part->group, name));
}

/* Takes the next name off a list with commas; a name that is too long is cut. */
static bool next_name(const char **list, char ret[static NAME_BYTES])
{
	size_t len = strcspn(*list, ",");
	if (!**list)
		return false;
	snprintf(ret, NAME_BYTES, "%.*s", (int)len, *list);
	*list += len + ((*list)[len] == ',');
	return true;
}

static bool is_asked(const struct report_options *o, const struct report_part *part)
{
	const char *rest = o->sections;
	char name[NAME_BYTES];
	while (rest && next_name(&rest, name))
		if (part_is(part, name))
			return true;
	return !o->sections;
}

/* ---- the first lines ---- */

/* Where the line with that number begins; NULL: there are fewer. */
static const char *line_at(const char *text, unsigned number)
{
	for (; text && number; number--) {
		text = strchr(text, '\n');
		text += text != NULL;
	}
	return text && *text ? text : NULL;
}

static void put_first_lines(const struct page *p, const struct report_part *part, const char *text)
{
	const char *first = text + strspn(text, "\n");
	const char *rest = line_at(first, REPORT_LINES - 1);
	if (!rest || !line_at(first, REPORT_LINES)) {
		fputs(text, p->out);
		return;
	}
	fwrite(text, 1, (size_t)(rest - text), p->out);
	if (p->r->options->colour)
		fputs(RESET, p->out);
	fprintf(p->out, "  ... and more (--section %s)\n", part->name);
}

static void put_part(const struct page *p, const struct report_part *part)
{
	const struct report_options *o = p->r->options;
	char *text = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);
	if (!to) {
		part->text(&(struct page){p->out, p->r, part->name}, part->state);
		return;
	}
	part->text(&(struct page){to, p->r, part->name}, part->state);
	fclose(to);
	char *folded = page_folded(p, text);
	if (o->brief && !part->whole)
		put_first_lines(p, part, folded);
	else
		fputs(folded, p->out);
	free(folded);
	free(text);
}

void report_sections_text(const struct page *p)
{
	struct report_parts parts = {0};
	all_parts(p->r, &parts);
	for (size_t i = 0; i < parts.list.len; i++)
		if (is_asked(p->r->options, &parts.list.data[i]))
			put_part(p, &parts.list.data[i]);
	vec_free(&parts.list);
}

/* ---- what was asked for ---- */

static bool name_is_known(const char *name)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

static bool parts_have(const struct report_parts *parts, const char *name)
{
	for (size_t i = 0; i < parts->list.len; i++)
		if (part_is(&parts->list.data[i], name))
			return true;
	return false;
}

/* "steps, torch, notes": each once. */
static char *names_text(const struct report_parts *parts)
{
	struct buf ret = {0};
	for (size_t i = 0; i < parts->list.len; i++) {
		const char *name = parts->list.data[i].name;
		bool told = false;
		for (size_t k = 0; k < i; k++)
			told |= !strcmp(parts->list.data[k].name, name);
		if (!told)
			buf_printf(&ret, "%s%s", ret.len ? ", " : "", name);
	}
	buf_byte(&ret, 0);
	return (char *)ret.data;
}

int report_check_sections(const struct report *r, struct err *e)
{
	struct report_parts parts = {0};
	const char *rest = r->options->sections;
	char name[NAME_BYTES];
	int rc = 0;
	all_parts(r, &parts);
	char *there = names_text(&parts);
	while (!rc && rest && next_name(&rest, name)) {
		if (parts_have(&parts, name))
			continue;
		if (name_is_known(name))
			rc = err_set(e, ENOENT,
				     "the recording has nothing for section '%s'; it has %s", name,
				     there);
		else
			rc = err_set(e, EINVAL, "there is no section '%s'; the recording has %s",
				     name, there);
	}
	free(there);
	vec_free(&parts.list);
	return rc;
}
