/* usual.c - baselines of keys, and of pairs of keys for the times between calls. */
#include "detect/usual.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/map64.h"

/* A median that is off by a little has so much more on one side, in sigma, of normal numbers:
 * sqrt(pi / 2). Sides alone count, for the mean of what has two usual lengths is not its median. */
#define FOLLOW_SIDE 1.2533

/* One thing that has a usual duration. */
struct one {
	struct baseline b;
	struct baseline_sample *sample; /* while it learns */
	uint64_t next;			/* events at which the baseline is made anew */
	float pending_sum;		/* of ln t - ln median since the last follow */
	uint32_t pending;
	uint32_t pid; /* that it began with */
};

struct pair {
	uint32_t previous, key;
	struct one gap;
};

struct usual {
	struct detect_keys *keys;
	uint64_t seed;
	bool settled;
	bool waits;		   /* baselines are made when it settles */
	VEC(struct one) durations; /* by key */
	VEC(struct one) gaps;
	VEC(struct pair) pairs;
	struct map64 pair_of; /* previous << 32 | key -> index */
};

struct usual *usual_new(struct detect_keys *keys, uint64_t seed)
{
	struct usual *u = xcalloc(1, sizeof(*u));
	u->keys = keys;
	u->seed = seed;
	return u;
}

void usual_free(struct usual *u)
{
	for (size_t i = 0; i < u->durations.len; i++) {
		baseline_sample_free(u->durations.data[i].sample);
		baseline_sample_free(u->gaps.data[i].sample);
	}
	for (size_t i = 0; i < u->pairs.len; i++)
		baseline_sample_free(u->pairs.data[i].gap.sample);
	vec_free(&u->durations);
	vec_free(&u->gaps);
	vec_free(&u->pairs);
	map64_free(&u->pair_of);
	free(u);
}

/* ---- one ---- */

static void one_learn(struct one *o, const struct usual *u, uint64_t seed, uint64_t ns,
		      uint32_t pid)
{
	if (!o->sample) {
		if (o->b.count)
			return; /* it is settled, or a model's */
		o->pid = pid;
		o->sample = baseline_sample_new(u->seed ^ hash_u64(seed));
		o->b = (struct baseline){0};
		o->next = u->waits ? UINT64_MAX : BASELINE_LEAST;
	}
	if (o->b.count >= USUAL_OWN && pid != o->pid && o->pid)
		return;
	baseline_sample_add(o->sample, ns);
	if (--o->next)
		return;
	baseline_of_sample(&o->b, o->sample);
	o->next = o->b.count;
	if (u->settled && o->b.count >= BASELINE_SAMPLE) {
		baseline_sample_free(o->sample);
		o->sample = NULL;
	}
}

static void one_settle(struct one *o)
{
	if (!o->sample)
		return;
	baseline_of_sample(&o->b, o->sample);
	baseline_sample_free(o->sample);
	o->sample = NULL;
}

/* This is what came. */
static void one_came(struct one *o, double z)
{
	o->pending_sum += (float)((z > 0) - (z < 0)) * (float)(FOLLOW_SIDE * o->b.sigma);
	o->pending++;
}

static void one_follow(struct one *o, double share, bool normal)
{
	if (o->pending && normal) {
		double move = share * (double)o->pending_sum / o->pending;
		o->b.log_median += move;
		o->b.usual_ns *= exp(move);
		o->b.q99_ns *= exp(move);
	}
	o->pending_sum = 0;
	o->pending = 0;
}

/* ---- keys ---- */

static void have_key(struct usual *u, uint32_t key)
{
	while (u->durations.len <= key) {
		vec_push(&u->durations);
		vec_push(&u->gaps);
	}
}

#define NO_PAIR UINT64_MAX

static uint64_t find_pair(const struct usual *u, uint32_t previous, uint32_t key)
{
	uint64_t at = NO_PAIR;
	if (previous)
		map64_get(&u->pair_of, (uint64_t)previous << 32 | key, &at);
	return at;
}

/* NULL: there are too many. */
static struct pair *have_pair(struct usual *u, uint32_t previous, uint32_t key)
{
	uint64_t at = find_pair(u, previous, key);
	if (at != NO_PAIR)
		return &u->pairs.data[at];
	if (!previous || !key || u->pairs.len >= USUAL_PAIRS_MOST)
		return NULL;
	map64_set(&u->pair_of, (uint64_t)previous << 32 | key, u->pairs.len);
	struct pair *p = vec_push(&u->pairs);
	p->previous = previous;
	p->key = key;
	return p;
}

void usual_set(struct usual *u, uint32_t key, const struct baseline *duration,
	       const struct baseline *gap)
{
	if (!key)
		return;
	have_key(u, key);
	u->durations.data[key].b = *duration;
	u->gaps.data[key].b = *gap;
}

void usual_get(const struct usual *u, uint32_t key, struct baseline *ret_duration,
	       struct baseline *ret_gap)
{
	*ret_duration = *ret_gap = (struct baseline){0};
	if (key >= u->durations.len)
		return;
	*ret_duration = u->durations.data[key].b;
	*ret_gap = u->gaps.data[key].b;
}

void usual_learn(struct usual *u, const struct usual_event *e)
{
	have_key(u, e->key);
	if (e->duration_ns != USUAL_NONE)
		one_learn(&u->durations.data[e->key], u, e->key, e->duration_ns, e->pid);
	if (e->gap_ns == USUAL_NONE)
		return;
	one_learn(&u->gaps.data[e->key], u, (uint64_t)e->key << 32, e->gap_ns, e->pid);
	struct pair *p = have_pair(u, e->previous, e->key);
	if (p)
		one_learn(&p->gap, u, (uint64_t)e->previous << 32 | e->key, e->gap_ns, e->pid);
}

void usual_learn_until_settled(struct usual *u)
{
	u->waits = true;
}

void usual_settle(struct usual *u)
{
	u->waits = false;
	for (size_t i = 0; i < u->durations.len; i++) {
		one_settle(&u->durations.data[i]);
		one_settle(&u->gaps.data[i]);
	}
	for (size_t i = 0; i < u->pairs.len; i++)
		one_settle(&u->pairs.data[i].gap);
	u->settled = true;
}

/* What says how long it usually takes, and the time before it; NULL: nothing does. */
struct judges {
	struct one *duration, *gap;
};

static struct judges judge(const struct usual *u, const struct usual_event *e, struct usual_z *ret)
{
	struct judges by = {NULL, NULL};
	*ret = (struct usual_z){NAN, NAN, NAN, NAN};
	if (e->key >= u->durations.len)
		return by;
	struct one *duration = &u->durations.data[e->key], *gap = &u->gaps.data[e->key];
	if (e->duration_ns != USUAL_NONE && duration->b.count) {
		ret->z = baseline_z(&duration->b, e->duration_ns);
		ret->usual_ns = duration->b.usual_ns;
		by.duration = duration;
	}
	if (e->gap_ns == USUAL_NONE)
		return by;
	uint64_t pair = find_pair(u, e->previous, e->key);
	if (pair != NO_PAIR && u->pairs.data[pair].gap.b.count)
		gap = &u->pairs.data[pair].gap;
	if (gap->b.count) {
		ret->gap_z = baseline_z(&gap->b, e->gap_ns);
		ret->usual_gap_ns = gap->b.usual_ns;
		by.gap = gap;
	}
	return by;
}

void usual_z_of(const struct usual *u, const struct usual_event *e, struct usual_z *ret)
{
	judge(u, e, ret);
}

void usual_z(struct usual *u, const struct usual_event *e, struct usual_z *ret)
{
	struct judges by = judge(u, e, ret);
	if (by.duration)
		one_came(by.duration, ret->z);
	if (by.gap)
		one_came(by.gap, ret->gap_z);
}

void usual_follow(struct usual *u, enum detect_layer layer, double seconds, bool normal)
{
	double share = 1 - exp(-seconds / USUAL_FOLLOW_S);
	struct detect_key key;
	for (uint32_t i = 1; i < u->durations.len; i++) {
		detect_keys_get(u->keys, i, &key);
		if (key.layer != layer)
			continue;
		one_follow(&u->durations.data[i], share, normal);
		one_follow(&u->gaps.data[i], share, normal);
	}
	for (size_t i = 0; i < u->pairs.len; i++) {
		detect_keys_get(u->keys, u->pairs.data[i].key, &key);
		if (key.layer == layer)
			one_follow(&u->pairs.data[i].gap, share, normal);
	}
}

/* ---- models ---- */

static void pair_to_model(const struct usual *u, const struct pair *p, struct model *m)
{
	struct detect_key previous, key;
	if (!p->gap.b.count)
		return;
	detect_keys_get(u->keys, p->previous, &previous);
	detect_keys_get(u->keys, p->key, &key);
	*vec_push(&m->keys) =
		(struct model_key){.layer = key.layer,
				   .text = xasprintf("%s%s%s", previous.text, USUAL_PAIR, key.text),
				   .gap = p->gap.b};
}

void usual_to_model(const struct usual *u, struct model *m)
{
	struct detect_key key;
	for (uint32_t i = 1; i < u->durations.len; i++) {
		if (!u->durations.data[i].b.count && !u->gaps.data[i].b.count)
			continue;
		detect_keys_get(u->keys, i, &key);
		*vec_push(&m->keys) = (struct model_key){.layer = key.layer,
							 .text = xstrdup(key.text),
							 .duration = u->durations.data[i].b,
							 .gap = u->gaps.data[i].b};
	}
	for (size_t i = 0; i < u->pairs.len; i++)
		pair_to_model(u, &u->pairs.data[i], m);
}

static void pair_of_model(struct usual *u, const struct model_key *k, const char *middle)
{
	char previous[KEY_TEXT_BYTES];
	snprintf(previous, sizeof(previous), "%.*s", (int)(middle - k->text), k->text);
	struct pair *p =
		have_pair(u, detect_keys_text(u->keys, k->layer, previous),
			  detect_keys_text(u->keys, k->layer, middle + strlen(USUAL_PAIR)));
	if (p)
		p->gap.b = k->gap;
}

void usual_of_model(struct usual *u, const struct model *m)
{
	for (size_t i = 0; i < m->keys.len; i++) {
		const struct model_key *k = &m->keys.data[i];
		const char *middle = strstr(k->text, USUAL_PAIR);
		if (middle)
			pair_of_model(u, k, middle);
		else
			usual_set(u, detect_keys_text(u->keys, k->layer, k->text), &k->duration,
				  &k->gap);
	}
	u->settled = true;
}
