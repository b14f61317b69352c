/* report_diagnosis_json.c - incidents with their causes as JSON. */
#include <math.h>

#include "incident/cause_words.h"
#include "report/report_diagnosis.h"
#include "report/report_json.h"

static json_t *ns_json(double ns)
{
	return fabs(ns) < 9e18 ? json_integer((json_int_t)ns) : json_null(); /* also of NaN */
}

/* A text that is made of a buffer, which is freed. */
static json_t *words_json(struct buf *b)
{
	buf_byte(b, 0);
	json_t *ret = report_text_json((const char *)b->data);
	buf_free(b);
	return ret;
}

static json_t *frame_json(const struct rec_tables *t, uint32_t frame)
{
	if (frame == BLAME_NO_FRAME)
		return json_null();
	const struct m_frame *f = &t->frames.data[frame];
	json_t *o = json_object();
	json_object_set_new(o, "function",
			    report_text_json(strtab_get(&t->strings, f->name, NULL)));
	json_object_set_new(o, "file", report_text_json(strtab_get(&t->strings, f->file, NULL)));
	json_object_set_new(o, "line", report_number_json(f->line));
	return o;
}

/* The other rank whose time it is. */
static json_t *peer_json(const struct rec_tables *t, uint32_t peer)
{
	return peer ? json_integer(t->threads.data[peer - 1].pid) : json_null();
}

static json_t *blame_json(const struct rec_tables *t, const struct blame *b)
{
	json_t *list = json_array();
	for (size_t i = 0; i < b->parts.len; i++) {
		const struct blame_part *p = &b->parts.data[i];
		struct buf words = {0};
		blame_owner_words(&words, t, &p->owner);
		json_t *o = json_object();
		json_object_set_new(o, "owner", words_json(&words));
		json_object_set_new(o, "rank_pid", peer_json(t, p->owner.peer));
		json_object_set_new(o, "ns", ns_json(p->ns));
		json_object_set_new(o, "whole_ns", ns_json(p->whole_ns));
		json_object_set_new(o, "usual_ns", ns_json(p->usual_ns));
		json_object_set_new(o, "code", frame_json(t, p->owner.frame));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *device_json(const struct rec_tables *t, const struct culprit *c)
{
	struct buf b = {0};
	if (!c->device)
		return json_null();
	culprit_device_words(&b, t, c);
	return words_json(&b);
}

static json_t *culprit_json(const struct rec_tables *t, const struct culprit *c)
{
	json_t *o = json_object();
	const struct m_metric *m = c->metric != UINT32_MAX ? &t->metrics.data[c->metric] : NULL;
	const char *cgroup = culprit_cgroup(t, c);
	json_object_set_new(o, "kind", json_string(culprit_kind_id(c->kind)));
	json_object_set_new(o, "pid", c->pid ? json_integer(c->pid) : json_null());
	json_object_set_new(o, "command",
			    c->pid ? report_text_json(strtab_get(&t->strings, c->name, NULL))
				   : json_null());
	json_object_set_new(o, "cgroup", *cgroup ? report_text_json(cgroup) : json_null());
	report_container_json(o, cgroup);
	json_object_set_new(o, "device", device_json(t, c));
	json_object_set_new(o, "rank",
			    c->kind == CULPRIT_RANK && c->rank >= 0 ? json_integer(c->rank)
								    : json_null());
	json_object_set_new(o, "gpu",
			    c->kind == CULPRIT_GPU && m ? json_integer(m->gpu) : json_null());
	json_object_set_new(o, "call",
			    c->kind == CULPRIT_CALL
				    ? report_text_json(strtab_get(&t->strings, c->name, NULL))
				    : json_null());
	json_object_set_new(o, "code", frame_json(t, c->frame));
	return o;
}

/* Why the rank was late that was waited for. */
static json_t *why_json(const struct rec_tables *t, const struct cause_found *c)
{
	if (c->culprit.kind != CULPRIT_RANK)
		return json_null();
	json_t *o = json_object();
	json_object_set_new(o, "cause", json_string(cause_id(c->why)));
	json_object_set_new(o, "title", json_string(cause_title(c->why)));
	json_object_set_new(o, "culprit", culprit_json(t, &c->why_culprit));
	return o;
}

static json_t *victim_json(const struct report_diagnosis *r, const struct diagnosed *in)
{
	const struct victim_place *at = &in->place;
	json_t *o = json_object();
	int32_t rank = blame_rank_of(r->t, in->pid);
	json_object_set_new(o, "pid", in->pid ? json_integer(in->pid) : json_null());
	json_object_set_new(o, "rank", rank >= 0 ? json_integer(rank) : json_null());
	json_object_set_new(o, "phase", report_text_json(at->phase));
	json_object_set_new(o, "function", report_text_json(at->function));
	json_object_set_new(o, "file", report_text_json(at->file));
	json_object_set_new(o, "line", at->function ? report_number_json(at->line) : json_null());
	return o;
}

static json_t *evidence_json(const struct cause_found *c)
{
	json_t *list = json_array();
	for (size_t i = 0; i < c->evidence_len; i++)
		json_array_append_new(list, report_text_json(c->evidence[i]));
	return list;
}

static json_t *anomalies_json(const struct report_diagnosis *r, const struct diagnosed *in)
{
	json_t *list = json_array();
	for (size_t i = 0; i < in->anomalies.len; i++)
		json_array_append_new(
			list, report_number_json(r->list->rows.data[in->anomalies.data[i]].a.id));
	return list;
}

static json_t *incident_json(const struct report_diagnosis *r, const struct diagnosed *in)
{
	const struct cause_found *c = &in->cause;
	json_t *o = json_object();
	json_object_set_new(o, "id", report_number_json(in->id));
	json_object_set_new(o, "onset_ns", report_number_json(in->onset_ns));
	json_object_set_new(o, "end_ns", report_number_json(in->end_ns));
	json_object_set_new(o, "told_ns", report_number_json(in->told_ns));
	json_object_set_new(o, "beside", json_boolean(in->beside));
	json_object_set_new(o, "cost_ns", ns_json(in->cost_ns));
	json_object_set_new(o, "cause", json_string(cause_id(c->cause)));
	json_object_set_new(o, "title", json_string(cause_title(c->cause)));
	json_object_set_new(o, "confidence", json_real(c->confidence));
	json_object_set_new(o, "runner_up",
			    c->runner_up != CAUSE_UNKNOWN ? json_string(cause_id(c->runner_up))
							  : json_null());
	json_object_set_new(o, "against", report_text_json(c->against));
	json_object_set_new(o, "culprit", culprit_json(r->t, &c->culprit));
	json_object_set_new(o, "why", why_json(r->t, c));
	json_object_set_new(o, "victim", victim_json(r, in));
	json_object_set_new(o, "usual_ns",
			    in->blamed ? ns_json(in->evidence.blame.usual_ns) : json_null());
	json_object_set_new(o, "blame",
			    in->blamed ? blame_json(r->t, &in->evidence.blame) : json_array());
	json_object_set_new(o, "unexplained_ns",
			    in->blamed ? ns_json(in->evidence.blame.unexplained_ns)
				       : ns_json(in->cost_ns));
	json_object_set_new(o, "evidence", evidence_json(c));
	json_object_set_new(o, "advice", json_string(cause_found_advice(c)));
	json_object_set_new(o, "anomalies", anomalies_json(r, in));
	return o;
}

static void steps_json(const struct report_diagnosis *r, json_t *list, const struct diagnosed *in)
{
	for (size_t i = 0; i < in->steps.len; i++) {
		const struct diagnosed_step *s = &in->steps.data[i];
		json_t *o = json_object();
		json_object_set_new(o, "incident", report_number_json(in->id));
		json_object_set_new(o, "pid", json_integer(s->pid));
		json_object_set_new(o, "start_ns", report_number_json(s->start_ns));
		json_object_set_new(o, "end_ns", report_number_json(s->end_ns));
		json_object_set_new(o, "usual_ns", ns_json(s->blame.usual_ns));
		json_object_set_new(o, "excess_ns", ns_json(s->blame.whole_ns - s->blame.usual_ns));
		json_object_set_new(o, "blame", blame_json(r->t, &s->blame));
		json_object_set_new(o, "unexplained_ns", ns_json(s->blame.unexplained_ns));
		json_array_append_new(list, o);
	}
}

json_t *report_diagnosis_json(const struct report_diagnosis *r)
{
	json_t *o = json_object(), *incidents = json_array(), *steps = json_array();
	for (size_t i = 0; i < r->d->incidents.len; i++) {
		json_array_append_new(incidents, incident_json(r, &r->d->incidents.data[i]));
		steps_json(r, steps, &r->d->incidents.data[i]);
	}
	json_object_set_new(o, "file", report_text_json(r->path));
	json_object_set_new(o, "model", report_text_json(r->model_path));
	json_object_set_new(o, "duration_ns", report_number_json(r->end_ns - r->start_ns));
	json_object_set_new(o, "cost_ns", ns_json(r->d->cost_ns));
	json_object_set_new(o, "incidents", incidents);
	json_object_set_new(o, "steps", steps);
	return o;
}
