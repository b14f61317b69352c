/* session_silence.c - says when something that was asked for by name comes to nothing: a --probe
 * that matches nothing, one that was never called, no probe at all. What can be known while the
 * recording goes on is said then, the rest at its end; the recording has it as notes. */
#include <string.h>

#include "session/session_impl.h"

#define COPIES_MOST 16 /* functions of one --probe that are looked for in other files */

/* What became of a --probe so far. */
struct outcome {
	const struct cat_entry *entry;
	const char *path, *reason; /* of a file that has no place for it; NULL: no file was met */
	uint64_t sites;
};

static bool is_asked(const struct session *s, const struct cat_entry *en)
{
	return !strcmp(en->origin, "--probe") && s->opts->layers & 1u << en->layer;
}

static void take_result(void *ctx, const char *path, const struct entry_result *r)
{
	struct outcome *o = ctx;
	if (r->entry != o->entry)
		return;
	o->sites += r->sites;
	if (!r->sites) {
		o->path = path;
		o->reason = r->reason;
	}
}

static struct outcome outcome_of(const struct session *s, const struct cat_entry *en)
{
	struct outcome ret = {.entry = en};
	tracer_results(s->tracer, take_result, &ret);
	return ret;
}

/* Once for each entry. */
static bool is_told(struct session *s, size_t entry)
{
	while (s->silence.told.len <= entry)
		vec_push(&s->silence.told);
	bool before = s->silence.told.data[entry];
	s->silence.told.data[entry] = true;
	return before;
}

/* Another file may match later where the library's name is a pattern. */
static bool names_one_file(const struct cat_entry *en)
{
	return !strpbrk(en->libraries.data[0], "*?[");
}

#define NAME(en) (en)->libraries.data[0], (en)->symbols.data[0]

void silence_look(struct session *s)
{
	const struct catalog *c = s->opts->catalog;
	for (size_t i = 0; i < c->entries.len; i++) {
		const struct cat_entry *en = &c->entries.data[i];
		if (!is_asked(s, en) || !names_one_file(en))
			continue;
		struct outcome o = outcome_of(s, en);
		if (!o.sites && o.path && !is_told(s, i))
			session_say(s, "--probe %s:%s matches nothing: %s: %s", NAME(en), o.path,
				    o.reason);
	}
}

void silence_probe(struct session *s, const struct probe_info *info)
{
	if (is_asked(s, info->entry))
		*vec_push(&s->silence.probes) = (struct asked_probe){
			.id = info->id,
			.entry = info->entry,
			.symbol = info->symbol,
			.library = info->library,
		};
}

/* ---- at the end ---- */

static bool was_called(const struct session *s, const struct cat_entry *en)
{
	for (size_t i = 0; i < s->silence.probes.len; i++) {
		const struct asked_probe *p = &s->silence.probes.data[i];
		if (p->entry == en && pipeline_was_called(s->pipeline, p->id))
			return true;
	}
	return false;
}

/* A static copy in the program, or another library's function that was bound in its place. */
static const char *other_definer(const struct session *s, const struct cat_entry *en)
{
	const char *ret = NULL;
	unsigned looked = 0;
	for (size_t i = 0; i < s->silence.probes.len && !ret && looked < COPIES_MOST; i++) {
		const struct asked_probe *p = &s->silence.probes.data[i];
		if (p->entry == en && !en->usdt && ++looked)
			ret = tracer_other_definer(s->tracer, p->symbol, p->library);
	}
	return ret;
}

static void tell_uncalled(struct session *s, const struct outcome *o)
{
	const struct cat_entry *en = o->entry;
	const char *other = other_definer(s, en);
	char *subject = xasprintf("--probe %s:%s", NAME(en));
	char *text = xasprintf("attached at %llu place%s, no call was seen%s%s%s",
			       (unsigned long long)o->sites, o->sites == 1 ? "" : "s",
			       other ? ": " : "", other ? other : "",
			       other ? " has a function of that name too, and calls go to the one "
				       "that is bound first"
				     : "");
	session_say(s, "%s: %s", subject, text);
	pipeline_note(s->pipeline, subject, text);
	free(subject);
	free(text);
}

static void tell_unmatched(struct session *s, const struct outcome *o)
{
	const struct cat_entry *en = o->entry;
	if (o->path)
		session_say(s, "--probe %s:%s matched nothing: %s: %s", NAME(en), o->path,
			    o->reason);
	else
		session_say(s, "--probe %s:%s matched nothing: no traced process loaded %s",
			    NAME(en), en->libraries.data[0]);
}

/* "the layers asked for (cuda, nccl)". The caller's. */
static char *layers_text(const struct session_options *o)
{
	struct buf text = {0};
	if (o->layers == ~0u)
		return xstrdup("any layer");
	for (unsigned i = 0; i < LAYERS_MAX; i++)
		if (o->layers & 1u << i)
			buf_printf(&text, "%s%s", text.len ? ", " : "the layers asked for (",
				   catalog_layer_name(o->catalog, (enum layer)i));
	buf_printf(&text, ")");
	buf_byte(&text, 0);
	return (char *)text.data;
}

/* The layers that have functions; the others are counters and samples. */
static uint32_t layers_of_probes(const struct catalog *c)
{
	uint32_t ret = 0;
	for (size_t i = 0; i < c->entries.len; i++)
		ret |= 1u << c->entries.data[i].layer;
	return ret;
}

static bool asks_by_name(const struct session *s)
{
	const struct catalog *c = s->opts->catalog;
	for (size_t i = 0; i < c->entries.len; i++)
		if (is_asked(s, &c->entries.data[i]))
			return true;
	return s->opts->layers != ~0u && !(s->opts->layers & ~layers_of_probes(c));
}

/* NULL where there are probes, or none was asked for. The caller's. */
static char *no_place_text(const struct session *s)
{
	struct tracer_stats st;
	tracer_stats(s->tracer, &st);
	if (st.sites || st.sites_before || !(s->opts->layers & layers_of_probes(s->opts->catalog)))
		return NULL;
	char *layers = layers_text(s->opts);
	char *text = xasprintf("no traced process has a function of %s", layers);
	free(layers);
	return text;
}

void silence_begin(struct session *s)
{
	char *text = no_place_text(s);
	silence_look(s);
	if (text)
		session_say(s, "no probe is attached so far: %s", text);
	s->silence.told_no_place = text;
	free(text);
}

static void tell_no_place(struct session *s)
{
	char *text = no_place_text(s);
	if (text && !s->silence.told_no_place)
		session_say(s, "no probe was attached: %s", text);
	if (text)
		pipeline_note(s->pipeline, "no probe was attached", text);
	s->silence.in_vain = text && asks_by_name(s);
	free(text);
}

void silence_end(struct session *s)
{
	const struct catalog *c = s->opts->catalog;
	struct tracer_stats st;
	tracer_stats(s->tracer, &st);
	if (!st.sites && st.excluded) {
		session_say(s, "no probe was attached: the program was left alone; the notes of "
			       "the report say why");
		return;
	}
	for (size_t i = 0; i < c->entries.len; i++) {
		const struct cat_entry *en = &c->entries.data[i];
		if (!is_asked(s, en))
			continue;
		struct outcome o = outcome_of(s, en);
		if (!o.sites && !is_told(s, i))
			tell_unmatched(s, &o);
		else if (o.sites && !was_called(s, en))
			tell_uncalled(s, &o);
	}
	tell_no_place(s);
}

void silence_free(struct session *s)
{
	vec_free(&s->silence.told);
	vec_free(&s->silence.probes);
}
