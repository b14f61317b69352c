/* report_account_steps.c - what stands out of a loop's steps: when they were slow, what they wait
 * for until they have a batch, and what passed before them. */
#include <string.h>

#include "base/human.h"
#include "report/report_account.h"
#include "report/report_section.h"

#define START_LEAST 10 /* one part in so many of the run */
#define HELD_LEAST  20 /* likewise, of what passed before the loop */
#define SLOW_LEAST  50 /* likewise, of the loop: less is not worth a line */
#define PATH_MOST   200

/* So much of a loop diagnose needs before a stretch to judge it without a model. */
#define JUDGED_AFTER_NS 60000000000ULL

/* ---- slow for a time ---- */

static const struct slow_stretch *costliest(const struct slow_stretches *slow)
{
	const struct slow_stretch *ret = &slow->list.data[0];
	for (size_t i = 1; i < slow->list.len; i++)
		if (slow->list.data[i].lost_ns > ret->lost_ns)
			ret = &slow->list.data[i];
	return ret;
}

/* Since the recording began. */
static uint64_t since_start(const struct account_state *s, uint64_t time_ns)
{
	uint64_t start_ns = report_number(s->r->tables, "start_monotonic_ns");
	return time_ns > start_ns ? time_ns - start_ns : 0;
}

/* "from 20.9 s to 26.3 s"; what lasts until the loop ends may be a change of its work. */
static void say_when(struct buf *to, const struct account_state *s, const struct slow_stretch *at)
{
	const struct account_loop *l = &s->loop;
	const struct steps_step *last =
		&l->process->steps.data[l->steps->first + l->steps->steps - 1];
	char from[HUMAN_BYTES], until[HUMAN_BYTES];
	buf_printf(to, "from %s ", human_ns(from, since_start(s, at->from_ns)));
	if (at->to_ns >= last->start_ns)
		buf_printf(to, "on until its end");
	else
		buf_printf(to, "to %s", human_ns(until, since_start(s, at->to_ns)));
}

/* Who says why. A recording that has no minute before it cannot be judged by itself. */
static void say_why(struct buf *to, const struct account_state *s, const struct slow_stretch *at)
{
	const struct account_loop *l = &s->loop;
	const struct steps_step *first = &l->process->steps.data[l->steps->first];
	bool by_itself = at->from_ns - first->start_ns >= JUDGED_AFTER_NS;
	buf_printf(to, "; `eacgm diagnose %s%s` says why",
		   s->r->path && strlen(s->r->path) <= PATH_MOST ? s->r->path : "FILE",
		   by_itself ? "" : " -m MODEL");
	if (!by_itself)
		buf_printf(to, ", by a MODEL that `eacgm learn` makes of a run without it");
}

uint64_t account_slow_steps_finding(const struct account_state *s, const struct account_thread *th,
				    struct account_finding *ret)
{
	static const char *const kinds[STEPS_KINDS] = STEPS_KIND_NAMES;
	const struct slow_stretches *slow = &s->slow;
	const struct account_loop *l = &s->loop;
	char n[HUMAN_BYTES], all[HUMAN_BYTES], took[HUMAN_BYTES], usual[HUMAN_BYTES];
	struct buf text = {0};
	(void)th;
	if (!slow->list.len || slow->lost_ns * SLOW_LEAST < l->mean_ns * l->count)
		return 0;
	const struct slow_stretch *at = costliest(slow);
	ret->slow = slow;
	buf_printf(&text, "%s of its %s %s steps were slow, ", human_count(n, slow->slow),
		   human_count(all, l->count), kinds[l->steps->kind]);
	if (slow->list.len > 1)
		buf_printf(&text, "in %zu stretches, of which the one that cost most is ",
			   slow->list.len);
	say_when(&text, s, at);
	buf_printf(&text, ": %s instead of %s in the median%s, ",
		   human_ns(took, (uint64_t)slow->slow_ns),
		   human_ns(usual, (uint64_t)slow->usual_ns), slow->list.len > 1 ? " of all" : "");
	buf_printf(&text, "%s lost in all", human_ns(took, (uint64_t)slow->lost_ns));
	say_why(&text, s, at);
	buf_printf(&text, ".");
	account_finding_put(ret, &text);
	return (uint64_t)slow->lost_ns;
}

json_t *account_slow_steps_json(const struct slow_stretches *slow)
{
	json_t *list = json_array();
	for (size_t i = 0; i < slow->list.len; i++) {
		const struct slow_stretch *at = &slow->list.data[i];
		json_array_append_new(list,
				      json_pack("{s:o,s:o,s:i,s:i,s:o}", "start_ns",
						report_number_json(at->from_ns), "end_ns",
						report_number_json(at->to_ns), "steps",
						(int)at->steps, "slow", (int)at->slow, "lost_ns",
						report_number_json((uint64_t)at->lost_ns)));
	}
	return json_pack("{s:i,s:o,s:o,s:o}", "count", (int)slow->slow, "median_ns",
			 report_number_json((uint64_t)slow->slow_ns), "usual_ns",
			 report_number_json((uint64_t)slow->usual_ns), "stretches", list);
}

/* ---- batches ---- */

/* A loop whose steps spend a fifth of their time or more until they have their batch; NULL. */
const struct account_loop *account_slow_to_load(const struct account_state *s)
{
	const struct account_loop *l = &s->loop;
	return l->steps && l->steps->kind == STEPS_TRAINING &&
			       l->phase_mean_ns[STEPS_LOAD] * 5 >= l->mean_ns
		       ? l
		       : NULL;
}

static bool has_loaders(const struct account_state *s)
{
	const struct steps *steps = report_section_state(s->r, &report_steps);
	for (size_t i = 0; steps && i < steps->processes.len; i++) {
		const struct steps_loop *l = steps_main_loop(&steps->processes.data[i]);
		if (l && l->kind == STEPS_LOADING)
			return true;
	}
	return false;
}

/* Whether other processes make batches, and the main thread has not waited for them for as much as
 * half of the time until there is one: then that is its own. */
static bool loads_itself(const struct account_state *s, const struct account_thread *th)
{
	const struct account_loop *l = account_slow_to_load(s);
	uint64_t waited_ns = th->ns[ACCOUNT_DATA] + th->ns[ACCOUNT_DISK] + th->ns[ACCOUNT_POLL] +
			     th->ns[ACCOUNT_PIPE] + th->ns[ACCOUNT_NETWORK];
	return l && has_loaders(s) &&
	       2 * (double)waited_ns < l->phase_mean_ns[STEPS_LOAD] * (double)l->count;
}

/* "; 2 loader processes (42, 43) take 41.7 ms a batch" */
static void say_loaders(struct buf *to, const struct account_state *s)
{
	const struct advice_workers *w = &s->advice.workers;
	char time[HUMAN_BYTES];
	if (!w->count) {
		buf_printf(to, "; no loader process makes it ahead of time");
		return;
	}
	double batch_ns = (w->run_ns + w->ready_ns + w->wait_ns) / s->advice.steps;
	buf_printf(to, "; %u loader process%s (", w->count, w->count > 1 ? "es" : "");
	for (uint32_t i = 0; i < w->count && i < ADVICE_PIDS; i++)
		buf_printf(to, "%s%u", i ? ", " : "", w->pids[i]);
	buf_printf(to, "%s) take%s %s a batch", w->count > ADVICE_PIDS ? ", ..." : "",
		   w->count > 1 ? "" : "s", human_ns(time, (uint64_t)batch_ns));
}

/* No loader makes batches, and most of the time until there is one it sleeps: that is no loading.
 */
static bool sleeps_to_load(const struct account_state *s, const struct account_thread *th)
{
	const struct account_loop *l = account_slow_to_load(s);
	return l && !has_loaders(s) && !s->advice.fetches &&
	       (double)th->ns[ACCOUNT_SLEEP] * 4 >=
		       3 * l->phase_mean_ns[STEPS_LOAD] * (double)l->count;
}

uint64_t account_load_finding(const struct account_state *s, const struct account_thread *th,
			      struct account_finding *ret)
{
	const struct account_loop *l = account_slow_to_load(s);
	char count[HUMAN_BYTES], part[HUMAN_BYTES], mean[HUMAN_BYTES];
	struct buf text = {0};
	bool own = loads_itself(s, th);
	if (!l || sleeps_to_load(s, th))
		return 0;
	buf_printf(&text,
		   "Each of its %s training steps %s on average %s of %s (%.0f %%) %s its batch",
		   human_count(count, l->count), own ? "spends" : "waits",
		   human_ns(part, (uint64_t)l->phase_mean_ns[STEPS_LOAD]),
		   human_ns(mean, (uint64_t)l->mean_ns),
		   100 * l->phase_mean_ns[STEPS_LOAD] / l->mean_ns, own ? "until it has" : "for");
	if (own)
		buf_printf(&text, ", in code of its own: its loader processes make them in time");
	else
		say_loaders(&text, s);
	ret->owner = own ? ACCOUNT_OWNERS : ACCOUNT_DATA;
	if (!own)
		account_advise_workers(s, ret);
	buf_printf(&text, ".");
	account_finding_put(ret, &text);
	return (uint64_t)(l->phase_mean_ns[STEPS_LOAD] * l->count);
}

uint64_t account_sleep_finding(const struct account_state *s, const struct account_thread *th,
			       struct account_finding *ret)
{
	const struct account_loop *l = account_slow_to_load(s);
	struct buf text = {0};
	char count[HUMAN_BYTES], part[HUMAN_BYTES], mean[HUMAN_BYTES];
	if (s->account.has_loop) { /* else it may be for what it waits for */
		account_saves(s, ret, (double)th->ns[ACCOUNT_SLEEP], true);
		snprintf(ret->remedy, REMEDY_BYTES, "take the sleep out of the loop");
	}
	if (!sleeps_to_load(s, th))
		return account_say_share(s, th, ACCOUNT_SLEEP, 10, ret, "The program itself slept",
					 " in calls like sleep()");
	buf_printf(&text,
		   "Each of its %s training steps begins with %s of %s (%.0f %%) in which the "
		   "program itself sleeps, in calls like sleep().",
		   human_count(count, l->count),
		   human_ns(part, (uint64_t)l->phase_mean_ns[STEPS_LOAD]),
		   human_ns(mean, (uint64_t)l->mean_ns),
		   100 * l->phase_mean_ns[STEPS_LOAD] / l->mean_ns);
	account_finding_put(ret, &text);
	return th->ns[ACCOUNT_SLEEP];
}

/* What passed before the loop, which is not the loop's. */
uint64_t account_start_finding(const struct account_state *s, const struct account_thread *th,
			       struct account_finding *ret)
{
	const struct account_thread *before = &s->account.phases[ACCOUNT_BEFORE];
	const struct account_thread *whole = account_main(&s->account);
	enum account_owner most = account_largest(before->ns);
	struct buf text = {0};
	char start[HUMAN_BYTES], wall[HUMAN_BYTES], time[HUMAN_BYTES];
	(void)th;
	if (!s->account.has_loop || before->wall_ns * START_LEAST < whole->wall_ns)
		return 0;
	buf_printf(&text, "%s of %s passed before its %s, %s of it %s",
		   human_ns(start, before->wall_ns), human_ns(wall, whole->wall_ns),
		   s->loop.slow ? "steps ran evenly" : "first step",
		   human_ns(time, before->ns[most]), account_owner_words(most));
	if (before->ns[ACCOUNT_HELD] * HELD_LEAST >= before->wall_ns)
		buf_printf(&text,
			   "; eACGM stopped it for %s to attach probes, which a run without "
			   "tracing does not have",
			   human_ns(time, before->ns[ACCOUNT_HELD]));
	buf_printf(&text, ".");
	account_finding_put(ret, &text);
	return before->wall_ns;
}
