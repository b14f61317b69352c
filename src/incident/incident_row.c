/* incident_row.c - what a diagnosis says, as far as a row has room for it. */
#include "incident/incident_row.h"

#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "incident/cause_words.h"

#define SMALL_SHARE 0.02 /* of the cost: owners of less are left out */

static uint32_t take(struct incident_texts *t, char *text)
{
	if (!text || !*text || t->len == INCIDENT_TEXTS_MOST) {
		free(text);
		return 0;
	}
	t->of[t->len++] = text;
	return (uint32_t)t->len;
}

static uint32_t copy(struct incident_texts *t, const char *text)
{
	return text ? take(t, xstrdup(text)) : 0;
}

static uint32_t take_words(struct incident_texts *t, struct buf *b)
{
	buf_byte(b, 0);
	uint32_t ret = copy(t, (const char *)b->data);
	buf_free(b);
	return ret;
}

/* Parts come with the most first. */
static void put_owners(struct m_incident *ret, struct incident_texts *texts,
		       const struct blame *blame, const struct rec_tables *t)
{
	size_t n = 0;
	for (size_t i = 0; i < blame->parts.len && n < MODEL_INCIDENT_OWNERS; i++) {
		const struct blame_part *p = &blame->parts.data[i];
		struct buf words = {0};
		if (p->ns < SMALL_SHARE * ret->cost_ns)
			continue;
		blame_owner_words(&words, t, &p->owner);
		ret->owners[n] = take_words(texts, &words);
		ret->owner_ns[n] = p->ns;
		n += ret->owners[n] != 0;
	}
}

/* What it is called that is no process. */
static uint32_t culprit_name(struct incident_texts *texts, const struct culprit *c,
			     const struct rec_tables *t)
{
	const struct m_metric *m = c->metric != UINT32_MAX ? &t->metrics.data[c->metric] : NULL;
	struct buf b = {0};
	if (c->device)
		culprit_device_words(&b, t, c);
	else if (c->kind == CULPRIT_CGROUP)
		buf_printf(&b, "%s", culprit_cgroup(t, c));
	else if (c->kind == CULPRIT_GPU && m)
		buf_printf(&b, "%d", m->gpu);
	else if (c->kind == CULPRIT_CALL)
		buf_printf(&b, "%s", strtab_get(&t->strings, c->name, NULL));
	return take_words(texts, &b);
}

static void put_culprit(struct m_incident *ret, struct incident_texts *texts,
			const struct culprit *c, const struct rec_tables *t)
{
	ret->culprit_pid = c->pid;
	ret->culprit = c->pid ? copy(texts, strtab_get(&t->strings, c->name, NULL)) : 0;
	if (c->kind != CULPRIT_NONE)
		ret->culprit_kind = copy(texts, culprit_kind_id(c->kind));
	ret->culprit_name = culprit_name(texts, c, t);
	if (c->kind != CULPRIT_CGROUP)
		ret->culprit_cgroup = copy(texts, culprit_cgroup(t, c));
	if (c->kind == CULPRIT_RANK)
		ret->culprit_rank = (uint32_t)(c->rank + 1);
	if (c->frame == BLAME_NO_FRAME)
		return;
	const struct m_frame *f = &t->frames.data[c->frame];
	ret->culprit_function = copy(texts, strtab_get(&t->strings, f->name, NULL));
	ret->culprit_file = copy(texts, strtab_get(&t->strings, f->file, NULL));
	ret->culprit_line = f->line;
}

void incident_to_row(struct m_incident *ret, struct incident_texts *ret_texts,
		     const struct diagnosed *in, const struct rec_tables *t, uint64_t caused_ns,
		     bool ended)
{
	const struct cause_found *c = &in->cause;
	struct buf what = {0};
	*ret_texts = (struct incident_texts){0};
	*ret = (struct m_incident){.id = in->id,
				   .onset_ns = in->onset_ns,
				   .end_ns = in->end_ns,
				   .told_ns = in->told_ns,
				   .caused_ns = caused_ns,
				   .pid = in->pid,
				   .ended = ended,
				   .beside = in->beside,
				   .cost_ns = in->cost_ns};
	ret->cause = copy(ret_texts, cause_id(c->cause));
	cause_headline(&what, t, c);
	ret->what = take_words(ret_texts, &what);
	ret->victim_phase = copy(ret_texts, in->place.phase);
	ret->victim_function = copy(ret_texts, in->place.function);
	ret->victim_file = copy(ret_texts, in->place.file);
	ret->victim_line = in->place.line;
	if (!in->blamed) {
		ret->unexplained_ns = in->cost_ns;
		return;
	}
	ret->runner_up =
		c->runner_up == CAUSE_UNKNOWN ? 0 : copy(ret_texts, cause_id(c->runner_up));
	ret->against = copy(ret_texts, c->against);
	if (c->culprit.kind == CULPRIT_RANK && c->why != CAUSE_UNKNOWN)
		ret->why = copy(ret_texts, cause_id(c->why));
	put_culprit(ret, ret_texts, &c->culprit, t);
	ret->confidence = c->confidence;
	ret->usual_ns = in->evidence.blame.usual_ns;
	ret->unexplained_ns = in->evidence.blame.unexplained_ns;
	for (size_t i = 0; i < c->evidence_len && i < MODEL_INCIDENT_TEXTS; i++)
		ret->evidence[i] = copy(ret_texts, c->evidence[i]);
	put_owners(ret, ret_texts, &in->evidence.blame, t);
}

void incident_texts_free(struct incident_texts *texts)
{
	for (size_t i = 0; i < texts->len; i++)
		free(texts->of[i]);
	texts->len = 0;
}

const char *incident_text(const struct incident_said *s, uint32_t number)
{
	if (s->strings)
		return strtab_get(s->strings, number, NULL);
	return number && number <= s->texts->len ? s->texts->of[number - 1] : "";
}

void incident_evidence(struct buf *b, const struct incident_said *s, const char *between)
{
	for (size_t i = 0; i < MODEL_INCIDENT_TEXTS && s->row->evidence[i]; i++)
		buf_printf(b, "%s%s", i ? between : "", incident_text(s, s->row->evidence[i]));
	buf_byte(b, 0);
}

void incident_line(struct buf *b, const struct incident_said *s)
{
	const struct m_incident *row = s->row;
	char lost[HUMAN_BYTES];
	buf_printf(b, "%s", incident_text(s, row->what));
	if (row->cost_ns > 0 && row->cost_ns < 9e18)
		buf_printf(b, ", %s %slost%s", human_ns(lost, (uint64_t)row->cost_ns),
			   row->beside ? "of what was " : "", row->ended ? "" : " so far");
}

static enum cause cause_of(const char *id)
{
	for (unsigned c = 0; c < CAUSE_COUNT; c++)
		if (!strcmp(cause_id((enum cause)c), id))
			return (enum cause)c;
	return CAUSE_UNKNOWN;
}

enum cause incident_why(const struct incident_said *s)
{
	return cause_of(incident_text(s, s->row->why));
}

const char *incident_advice(const struct incident_said *s)
{
	return cause_advice(s->row->why ? incident_why(s)
					: cause_of(incident_text(s, s->row->cause)));
}
