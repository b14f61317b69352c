/* store_rollup.c - copies what is known at a moment, and takes differences of what only grows. */
#include "store/store_rollup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/collectives.h"
#include "base/entity.h"

#define ENTITY_BYTES 192

/* ---- owners and sums ---- */

static int64_t real_ns(uint64_t ns, int64_t offset_ns)
{
	return ns ? (int64_t)ns + offset_ns : 0;
}

/* Of a job; of another process nobody. */
static struct store_owner owner_of(const struct live_series *s, uint32_t pid, int64_t offset_ns)
{
	const struct live_process *p = pid ? live_series_process(s, pid) : NULL;
	if (!p || !p->called)
		return (struct store_owner){0};
	return (struct store_owner){
		.pid = pid, .met_ns = p->start_ns, .start_ns = real_ns(p->start_ns, offset_ns)};
}

static void sums_add(struct store_sums *to, double v)
{
	to->min = to->n && to->min < v ? to->min : v;
	to->max = to->n && to->max > v ? to->max : v;
	to->sum += v;
	to->n++;
}

/* ---- counters ---- */

static uint64_t key_of(const struct live_metric *m)
{
	uint64_t key = hash_u64(((uint64_t)m->kind << 32) | m->pid);
	key = hash_u64(key ^ (((uint64_t)m->gpu << 32) | (uint32_t)m->instance));
	key = hash_u64(key ^ hash_bytes(m->label, strlen(m->label)));
	return hash_u64(key ^ hash_bytes(m->name, strlen(m->name)));
}

static bool is_kept(const struct live_series *s, const struct live_metric *m, uint64_t since_ns)
{
	if (!m->there || m->time_ns <= since_ns || !isfinite(m->value))
		return false;
	if (m->kind == ENTITY_CGROUP || m->kind == ENTITY_OTHER)
		return false; /* there may be many */
	const struct live_process *p =
		m->kind == ENTITY_PROCESS ? live_series_process(s, m->pid) : NULL;
	return m->kind != ENTITY_PROCESS || (p && p->called && !p->end_ns);
}

static char *entity_of(const struct live_metric *m)
{
	const struct entity e = {.kind = m->kind,
				 .pid = m->pid,
				 .gpu = m->gpu,
				 .instance = m->instance,
				 .label = m->label,
				 .host = ""};
	char text[ENTITY_BYTES];
	entity_text(text, sizeof(text), &e);
	return xstrdup(text);
}

static void take_counters(struct store_rollup *r, const struct live_series *s, int64_t offset_ns)
{
	for (size_t i = 0; i < s->metrics.len; i++) {
		const struct live_metric *m = &s->metrics.data[i];
		if (!is_kept(s, m, r->sampled_ns))
			continue;
		if (r->now.counters.len >= STORE_COUNTERS) {
			r->left_out++;
			continue;
		}
		*vec_push(&r->now.counters) =
			(struct store_counter){.owner = owner_of(s, m->pid, offset_ns),
					       .kind = m->kind,
					       .unit = m->unit,
					       .gpu = m->gpu,
					       .entity = entity_of(m),
					       .name = xstrdup(m->name),
					       .value = m->value,
					       .key = key_of(m)};
	}
}

/* ---- steps ---- */

static uint64_t owner_key(uint32_t pid, uint64_t met_ns)
{
	return hash_u64(hash_u64(met_ns) ^ pid);
}

/* Those that ended since the process was looked at last, of which the history has the latest. */
static void take_steps_of(struct store_rollup *r, const struct live_steps_view *v,
			  struct store_owner owner, uint64_t more)
{
	uint32_t n = more < v->history.len ? (uint32_t)more : v->history.len;
	if (!n)
		return;
	struct store_steps *to = vec_push(&r->now.steps);
	to->owner = owner;
	snprintf(to->kind, sizeof(to->kind), "%s", v->kind);
	for (uint32_t i = v->history.len - n; i < v->history.len; i++)
		sums_add(&to->seconds, live_history_at(&v->history, i) * 1e-9);
	to->phases_len = v->phase_len;
	for (uint32_t i = 0; i < v->phase_len; i++)
		to->phases[i] = (struct store_phase){v->phase[i].name,
						     (double)v->phase[i].share * to->seconds.sum};
}

/* What a process had when it was met, or after a while in which it could not be told, is not. */
static void take_steps(struct store_rollup *r, const struct store_seen *seen, int64_t offset_ns)
{
	struct map64 next = {0};
	for (uint32_t i = 0; i < seen->steps_len; i++) {
		const struct live_steps_view *v = seen->steps[i];
		struct store_owner owner = owner_of(seen->series, v->pid, offset_ns);
		uint64_t key = owner_key(v->pid, owner.met_ns), before = v->count;
		map64_get(&r->steps_of, key, &before);
		if (owner.pid && v->count > before)
			take_steps_of(r, v, owner, v->count - before);
		map64_set(&next, key, v->count);
	}
	map64_free(&r->steps_of);
	r->steps_of = next;
}

/* ---- calls ---- */

static uint64_t function_key(const struct live_process *p, const struct live_function *f)
{
	uint64_t key = owner_key(p->pid, p->start_ns);
	key = hash_u64(key ^ hash_bytes(f->layer, strlen(f->layer)));
	return hash_u64(key ^ hash_bytes(f->name, strlen(f->name)));
}

static int compare_time(const void *a, const void *b)
{
	const struct store_calls *x = a, *y = b;
	return x->ns > y->ns ? -1 : x->ns < y->ns;
}

static void sum_others(struct store_rollup *r)
{
	struct store_batch *b = &r->now;
	if (b->calls.len > 1)
		qsort(b->calls.data, b->calls.len, sizeof(*b->calls.data), compare_time);
	if (b->calls.len <= STORE_FUNCTIONS)
		return;
	struct store_calls all = {.layer = STORE_OTHER, .name = STORE_OTHER, .bytes = -1};
	for (size_t i = STORE_FUNCTIONS - 1; i < b->calls.len; i++) {
		all.calls += b->calls.data[i].calls;
		all.errors += b->calls.data[i].errors;
		all.ns += b->calls.data[i].ns;
		r->left_out++;
	}
	b->calls.len = STORE_FUNCTIONS;
	b->calls.data[STORE_FUNCTIONS - 1] = all;
}

static void take_calls_of(struct store_rollup *r, const struct live_series *s,
			  const struct live_function *f, const struct store_before *before,
			  int64_t offset_ns)
{
	struct store_calls *to = vec_push(&r->now.calls);
	*to = (struct store_calls){.owner = owner_of(s, f->pid, offset_ns),
				   .calls = f->calls - before->calls,
				   .errors = f->errors - before->errors,
				   .ns = f->ns - before->ns,
				   .bytes = f->sized ? (int64_t)(f->bytes - before->bytes) : -1};
	snprintf(to->layer, sizeof(to->layer), "%s", f->layer);
	snprintf(to->name, sizeof(to->name), "%s", f->name);
}

/* What was called since the last batch. */
static void take_calls(struct store_rollup *r, const struct live_series *s, int64_t offset_ns)
{
	struct store_rollup next = {0};
	for (size_t i = 0; i < s->functions.len; i++) {
		const struct live_function *f = &s->functions.data[i];
		const struct live_process *p = live_series_process(s, f->pid);
		struct store_before before = {0};
		uint64_t at;
		if (!p)
			continue;
		uint64_t key = function_key(p, f);
		if (map64_get(&r->function_of, key, &at))
			before = r->before.data[at];
		map64_set(&next.function_of, key, next.before.len);
		*vec_push(&next.before) =
			(struct store_before){f->calls, f->errors, f->bytes, f->ns};
		if (f->calls > before.calls)
			take_calls_of(r, s, f, &before, offset_ns);
	}
	map64_free(&r->function_of);
	vec_free(&r->before);
	r->function_of = next.function_of;
	r->before.data = next.before.data;
	r->before.len = next.before.len;
	r->before.cap = next.before.cap;
	sum_others(r);
}

/* ---- collectives ---- */

static void take_collective(struct store_rollup *r, const struct live_series *s,
			    const struct live_collective *c, const struct store_passed *before,
			    int64_t offset_ns)
{
	struct store_collective *to = vec_push(&r->now.collectives);
	to->owner = owner_of(s, c->pid, offset_ns);
	to->of = *c;
	to->of.calls -= before->calls;
	to->of.bytes -= before->bytes;
	to->of.bus_bytes -= before->bus_bytes;
	to->of.ns -= before->ns;
	to->of.compared -= before->compared;
	to->of.ahead_ns -= before->ahead_ns;
}

static int compare_bytes(const void *a, const void *b)
{
	const struct store_collective *x = a, *y = b;
	return x->of.bytes > y->of.bytes ? -1 : x->of.bytes < y->of.bytes;
}

static void add_collective(struct live_collective *to, const struct live_collective *c)
{
	to->calls += c->calls;
	to->bytes += c->bytes;
	to->bus_bytes += c->bus_bytes;
	to->ns += c->ns;
	to->compared += c->compared;
	to->ahead_ns += c->ahead_ns;
}

/* Of each operation one row, of no process. */
static void sum_other_collectives(struct store_rollup *r)
{
	struct store_batch *b = &r->now;
	const size_t most = STORE_COLLECTIVES - COLLECTIVE_OPS;
	struct live_collective all[COLLECTIVE_OPS] = {0};
	if (b->collectives.len <= STORE_COLLECTIVES)
		return;
	qsort(b->collectives.data, b->collectives.len, sizeof(*b->collectives.data), compare_bytes);
	for (size_t i = most; i < b->collectives.len; i++) {
		const struct live_collective *c = &b->collectives.data[i].of;
		add_collective(&all[c->op], c);
		r->left_out++;
	}
	b->collectives.len = most;
	for (uint8_t op = 0; op < COLLECTIVE_OPS; op++) {
		struct live_collective *other = &all[op];
		other->other = true;
		other->rank = -1;
		other->op = op;
		if (other->calls || other->compared)
			*vec_push(&b->collectives) = (struct store_collective){.of = *other};
	}
}

/* Those since the last batch. */
static void take_collectives(struct store_rollup *r, const struct live_series *s, int64_t offset_ns)
{
	struct store_rollup next = {0};
	for (size_t i = 0; i < s->collectives.rows.len; i++) {
		const struct live_collective *c = &s->collectives.rows.data[i];
		struct store_passed before = {0};
		uint64_t at;
		if (map64_get(&r->collective_of, c->number, &at))
			before = r->passed.data[at];
		map64_set(&next.collective_of, c->number, next.passed.len);
		*vec_push(&next.passed) = (struct store_passed){
			c->calls, c->bytes, c->compared, c->bus_bytes, c->ns, c->ahead_ns};
		if (c->calls > before.calls || c->compared > before.compared)
			take_collective(r, s, c, &before, offset_ns);
	}
	map64_free(&r->collective_of);
	vec_free(&r->passed);
	r->collective_of = next.collective_of;
	r->passed.data = next.passed.data;
	r->passed.len = next.passed.len;
	r->passed.cap = next.passed.cap;
	sum_other_collectives(r);
}

/* ---- processes ---- */

/* Whether it is as it was told last; it counts as told from here on. */
static bool is_told(struct store_rollup *r, const struct live_process *p)
{
	uint64_t key = owner_key(p->pid, p->start_ns), now = hash_bytes(p, sizeof(*p)), was;
	bool ret = map64_get(&r->processes, key, &was) && was == now;
	map64_set(&r->processes, key, now);
	return ret;
}

static void take_processes(struct store_rollup *r, const struct live_series *s, int64_t offset_ns)
{
	if (r->now.time_s >= r->processes_s + STORE_TOLD_S || r->now.time_s < r->processes_s) {
		map64_free(&r->processes);
		r->processes_s = r->now.time_s;
	}
	for (size_t i = 0; i < s->processes.len; i++) {
		const struct live_process *p = &s->processes.data[i];
		if (!p->called || is_told(r, p))
			continue;
		if (r->now.processes.len >= STORE_PROCESSES) {
			r->left_out++;
			continue;
		}
		*vec_push(&r->now.processes) =
			(struct store_process){.owner = owner_of(s, p->pid, offset_ns),
					       .of = *p,
					       .end_ns = real_ns(p->end_ns, offset_ns)};
	}
}

/* ---- events and incidents ---- */

void store_rollup_event(struct store_rollup *r, int64_t time_ns, const char *entity,
			const char *name, const char *text)
{
	if (r->now.events.len >= STORE_EVENTS) {
		r->left_out++;
		return;
	}
	*vec_push(&r->now.events) =
		(struct store_event){time_ns, xstrdup(entity), xstrdup(name), xstrdup(text)};
}

static void incident_free(struct store_incident *in)
{
	for (size_t i = 0; i < INCIDENT_TEXTS; i++)
		free(in->texts[i]);
}

/* What is told of one that is there; NULL: there is no room. */
static struct store_incident *incident_of(struct store_rollup *r, const struct m_incident *row)
{
	for (size_t i = 0; i < r->now.incidents.len; i++) {
		struct store_incident *in = &r->now.incidents.data[i];
		if (in->row.id != row->id || in->row.pid != row->pid || in->key_ns != row->told_ns)
			continue;
		incident_free(in);
		return in;
	}
	if (r->now.incidents.len < STORE_INCIDENTS)
		return vec_push(&r->now.incidents);
	r->left_out++;
	return NULL;
}

static char *evidence_of(const struct incident_said *told)
{
	struct buf b = {0};
	incident_evidence(&b, told, "\n");
	return (char *)b.data;
}

static char *blame_of(const struct incident_said *told)
{
	struct buf b = {0};
	for (size_t i = 0; i < MODEL_INCIDENT_OWNERS && told->row->owners[i]; i++)
		buf_printf(&b, "%s%.0f %s", i ? "\n" : "", told->row->owner_ns[i],
			   incident_text(told, told->row->owners[i]));
	buf_byte(&b, 0);
	return (char *)b.data;
}

static void incident_texts_of(char *ret[INCIDENT_TEXTS], const struct incident_said *told)
{
	const struct m_incident *row = told->row;
	const uint32_t numbers[INCIDENT_EVIDENCE] = {
		[INCIDENT_CAUSE] = row->cause,
		[INCIDENT_RUNNER_UP] = row->runner_up,
		[INCIDENT_WHAT] = row->what,
		[INCIDENT_AGAINST] = row->against,
		[INCIDENT_CULPRIT] = row->culprit,
		[INCIDENT_CULPRIT_KIND] = row->culprit_kind,
		[INCIDENT_CULPRIT_NAME] = row->culprit_name,
		[INCIDENT_CULPRIT_FUNCTION] = row->culprit_function,
		[INCIDENT_CULPRIT_FILE] = row->culprit_file,
	};
	for (size_t i = 0; i < INCIDENT_EVIDENCE; i++)
		ret[i] = xstrdup(incident_text(told, numbers[i]));
	ret[INCIDENT_EVIDENCE] = evidence_of(told);
	ret[INCIDENT_BLAME] = blame_of(told);
	ret[INCIDENT_WHY] = xstrdup(incident_text(told, row->why));
	ret[INCIDENT_CULPRIT_CGROUP] = xstrdup(incident_text(told, row->culprit_cgroup));
	ret[INCIDENT_VICTIM_PHASE] = xstrdup(incident_text(told, row->victim_phase));
	ret[INCIDENT_VICTIM_FUNCTION] = xstrdup(incident_text(told, row->victim_function));
	ret[INCIDENT_VICTIM_FILE] = xstrdup(incident_text(told, row->victim_file));
}

void store_rollup_incident(struct store_rollup *r, const struct incident_said *told,
			   int64_t offset_ns)
{
	struct store_incident *in = incident_of(r, told->row);
	if (!in)
		return;
	in->row = *told->row;
	in->key_ns = told->row->told_ns;
	in->row.onset_ns = (uint64_t)real_ns(in->row.onset_ns, offset_ns);
	in->row.end_ns = (uint64_t)real_ns(in->row.end_ns, offset_ns);
	in->row.told_ns = (uint64_t)real_ns(in->row.told_ns, offset_ns);
	in->row.caused_ns = (uint64_t)real_ns(in->row.caused_ns, offset_ns);
	incident_texts_of(in->texts, told);
}

/* ---- call trees ---- */

void store_tree_free(struct store_tree *tree)
{
	for (uint32_t i = 0; i < tree->len; i++)
		free(tree->frames[i].name);
	free(tree->frames);
}

void store_rollup_tree(struct store_rollup *r, struct store_tree tree)
{
	if (r->now.frames + tree.len > STORE_FRAMES) {
		r->left_out++;
		store_tree_free(&tree);
		return;
	}
	r->now.frames += tree.len;
	*vec_push(&r->now.trees) = tree;
}

/* A tree comes before it is known whose it is. */
static void own_trees(struct store_rollup *r, const struct live_series *s, int64_t offset_ns)
{
	for (size_t i = 0; i < r->now.trees.len; i++)
		r->now.trees.data[i].owner = owner_of(s, r->now.trees.data[i].pid, offset_ns);
}

/* ---- all of it ---- */

struct store_batch store_rollup_take(struct store_rollup *r, const struct store_seen *seen,
				     uint64_t now_ns, int64_t offset_ns)
{
	r->now.time_s = ((int64_t)now_ns + offset_ns) / 1000000000;
	take_counters(r, seen->series, offset_ns);
	take_steps(r, seen, offset_ns);
	take_calls(r, seen->series, offset_ns);
	take_collectives(r, seen->series, offset_ns);
	take_processes(r, seen->series, offset_ns);
	own_trees(r, seen->series, offset_ns);
	struct store_batch ret = r->now;
	r->now = (struct store_batch){0};
	r->sampled_ns = now_ns;
	return ret;
}

size_t store_batch_rows(const struct store_batch *b)
{
	return b->processes.len + b->counters.len + b->steps.len + b->calls.len +
	       b->collectives.len + b->frames + b->events.len + b->incidents.len;
}

void store_batch_free(struct store_batch *b)
{
	for (size_t i = 0; i < b->counters.len; i++) {
		free(b->counters.data[i].entity);
		free(b->counters.data[i].name);
	}
	for (size_t i = 0; i < b->trees.len; i++)
		store_tree_free(&b->trees.data[i]);
	for (size_t i = 0; i < b->events.len; i++) {
		free(b->events.data[i].entity);
		free(b->events.data[i].name);
		free(b->events.data[i].text);
	}
	for (size_t i = 0; i < b->incidents.len; i++)
		incident_free(&b->incidents.data[i]);
	vec_free(&b->processes);
	vec_free(&b->counters);
	vec_free(&b->steps);
	vec_free(&b->calls);
	vec_free(&b->collectives);
	vec_free(&b->trees);
	vec_free(&b->events);
	vec_free(&b->incidents);
}

void store_rollup_free(struct store_rollup *r)
{
	store_batch_free(&r->now);
	map64_free(&r->steps_of);
	map64_free(&r->processes);
	map64_free(&r->function_of);
	vec_free(&r->before);
	map64_free(&r->collective_of);
	vec_free(&r->passed);
}
