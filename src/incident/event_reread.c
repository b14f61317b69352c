/* event_reread.c - events once more, each with what it took by itself. Which of them are slow:
 * slow_calls.c. */
#include "incident/event_reread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "detect/learn.h"
#include "detect/own_time.h"
#include "detect/windows.h"
#include "incident/detector.h"
#include "incident/judging.h"
#include "incident/slow_calls.h"

struct event_reread {
	struct event_reread_options o;
	struct windows *windows; /* for keys, gaps and z alone */
	struct own_times *own;
	struct own_times *without_python; /* what a function of Python within an operator does is
					   * work of that */
	struct map64 is_backward;	  /* probe to whether it is */
	struct slow_calls *slow;
	bool found;
};

static void begin(struct event_reread *m)
{
	m->own = own_times_new();
	m->without_python = own_times_new();
	m->windows = windows_new(
		&(struct windows_options){.window_ns = m->o.window_ns,
					  .late_ns = WINDOWS_NEVER,
					  .keys = m->o.known->keys,
					  .usual = m->o.known->usual,
					  .without_gaps = m->o.known->without & WITHOUT_GAPS});
}

static void end(struct event_reread *m)
{
	windows_free(m->windows);
	own_times_free(m->own);
	own_times_free(m->without_python);
}

void event_reread_free(struct event_reread *m)
{
	end(m);
	slow_calls_free(m->slow);
	map64_free(&m->is_backward);
	free(m);
}

struct event_reread *event_reread_new(const struct event_reread_options *o)
{
	struct event_reread *m = xcalloc(1, sizeof(*m));
	m->o = *o;
	double least_effect = o->o->least_effect > 0 ? o->o->least_effect : LEAST_EFFECT;
	m->slow = slow_calls_new(o->window_ns, least_effect);
	for (size_t i = 0; i < o->episodes->list.len; i++) {
		const struct episode *e = o->episodes->list.data[i];
		slow_calls_anomaly(m->slow, e->process, e->a.start_ns, e->a.end_ns);
	}
	begin(m);
	return m;
}

void event_reread_find(struct event_reread *m)
{
	slow_calls_find(m->slow);
	end(m);
	begin(m);
	m->found = true;
}

/* false: nothing is known of it. */
static bool slow_call_of(const struct event_reread *m, const struct windows_event *e, double own_ns,
			 struct baseline *usual, struct slow_call *ret)
{
	struct baseline gap;
	struct detect_key key;
	detect_keys_get(m->o.known->keys, e->key, &key);
	usual_get(m->o.known->usual, e->key, usual, &gap);
	*ret = (struct slow_call){.pid = e->pid,
				  .function = (uint64_t)e->layer << 32 | key.function,
				  .key = e->key,
				  .end_ns = e->start_ns + e->dur_ns,
				  .own_ns = own_ns,
				  .usual = usual};
	return !isnan(e->usual.z);
}

static bool is_told(const struct event_reread_options *o, const struct windows_event *e)
{
	uint64_t end_ns = e->start_ns + e->dur_ns;
	return end_ns >= o->from_ns && (!o->until_ns || end_ns < o->until_ns);
}

static void hand_out(const struct event_reread *m, const struct windows_event *e, double more_ns,
		     bool slow)
{
	struct detect_key key;
	if (!is_told(&m->o, e))
		return;
	const struct detect_layers *layers = detect_keys_layers(m->o.known->keys);
	detect_keys_get(m->o.known->keys, e->key, &key);
	struct detector_event told = {.start_ns = e->start_ns,
				      .dur_ns = e->dur_ns,
				      .pid = e->pid,
				      .tid = e->tid,
				      .layer = key.layer,
				      .layer_name = detect_layer_name(layers, key.layer),
				      .key = key.text,
				      .key_number = e->key,
				      .z = e->usual.z,
				      .gap_z = e->usual.gap_z,
				      .more_ns = more_ns,
				      .anomalous = slow};
	m->o.o->event(m->o.o->tell_ctx, &told);
}

static void event(struct event_reread *m, const struct windows_event *e, double own_ns)
{
	struct baseline usual;
	struct slow_call call;
	bool known = slow_call_of(m, e, own_ns, &usual, &call);
	if (!m->found && known && is_told(&m->o, e))
		slow_calls_count(m->slow, &call);
	if (!m->found)
		return;
	bool judged = judged_at(m->o.judged_since, e->layer, e->pid, e->start_ns);
	hand_out(m, e, own_ns - e->usual.usual_ns,
		 known && judged && slow_calls_is(m->slow, &call));
}

/* A backward pass runs on threads of its own while it is waited for. */
static bool is_backward(struct event_reread *m, const struct detect_names *n, uint32_t probe)
{
	uint64_t ret;
	if (map64_get(&m->is_backward, probe, &ret))
		return ret;
	const struct m_probe *p = n->probe(n->ctx, probe);
	ret = p && !strcmp(n->string(n->ctx, p->role), "backward");
	map64_set(&m->is_backward, probe, ret);
	return ret;
}

void event_reread_call(struct event_reread *m, const struct detect_names *n, const struct m_call *c)
{
	struct windows_event e;
	if (!windows_call(m->windows, n, c, &e))
		return;
	struct own_call call = {.pid = e.pid,
				.tid = e.tid,
				.start_ns = e.start_ns,
				.dur_ns = e.dur_ns,
				.usual_ns = e.usual.usual_ns};
	double own_ns = own_time_ns(m->own, &call);
	call.waits = is_backward(m, n, c->probe);
	if (e.layer != DETECT_PYTHON)
		own_ns = own_time_ns(m->without_python, &call);
	event(m, &e, own_ns);
}

void event_reread_gpu_span(struct event_reread *m, const struct detect_names *n,
			   const struct m_gpu_span *s)
{
	struct windows_event e;
	if (windows_gpu_span(m->windows, n, s, &e))
		event(m, &e, (double)e.dur_ns);
}
