/* report_account_loop.c - the main thread's loop of steps, and its time before and after that. */
#include "base/human.h"
#include "report/report_account.h"
#include "report/report_section.h"

#define WARM_STEPS  8  /* that may belong to the start */
#define WARM_TIMES  10 /* as long as the usual step */
#define WARM_PART   5  /* one part in so many of the loop */
#define SMALL_PART  5
#define AFTER_LEAST 20 /* one part in so many of the time */

/* Steps in which libraries are loaded, kernels compiled and memory got for the first time. */
static void find_slow(struct account_loop *loop, const struct steps_step *steps)
{
	const struct steps_loop *l = loop->steps;
	uint64_t ns = 0;
	uint32_t n = 0;
	for (; n < WARM_STEPS && n + 1 < l->steps; n++) {
		uint64_t took_ns = steps[n].end_ns - steps[n].start_ns;
		if (took_ns < WARM_TIMES * l->median_ns)
			break;
		ns += took_ns;
	}
	if (ns * WARM_PART < l->total_ns)
		return;
	loop->slow = n;
	loop->slow_ns = ns;
}

static void find_means(struct account_loop *loop, const struct steps_step *steps)
{
	loop->count = loop->steps->steps - loop->slow;
	for (uint32_t i = loop->slow; i < loop->steps->steps; i++) {
		loop->mean_ns += (double)(steps[i].end_ns - steps[i].start_ns) / loop->count;
		for (int k = 0; k < STEPS_PHASES; k++)
			loop->phase_mean_ns[k] += (double)steps[i].phase_ns[k] / loop->count;
	}
}

/* False: the process has none that tells anything. */
static bool find(struct account_loop *ret, struct account_window *at, const struct steps_process *p)
{
	const struct steps_loop *l = steps_main_loop(p);
	*ret = (struct account_loop){0};
	if (!l || l->kind == STEPS_LOADING || l->steps < 2)
		return false;
	const struct steps_step *steps = &p->steps.data[l->first];
	ret->process = p;
	ret->steps = l;
	find_slow(ret, steps);
	find_means(ret, steps);
	*at = (struct account_window){p->pid, steps[ret->slow].start_ns,
				      steps[l->steps - 1].end_ns};
	return true;
}

void account_loop_find(struct account_state *s)
{
	const struct account_thread *th = account_main(&s->account);
	const struct steps *steps = report_section_state(s->r, &report_steps);
	VEC(struct account_window) windows = {0};
	for (size_t i = 0; steps && i < steps->processes.len; i++) {
		const struct steps_process *p = &steps->processes.data[i];
		struct account_window at;
		struct account_loop loop;
		if (!find(&loop, &at, p))
			continue;
		*vec_push(&windows) = at;
		bool own = th && p->pid == th->pid;
		if (own)
			account_cut(&s->account, s->r->source, s->r->timeline, at.from_ns,
				    at.to_ns);
		/* another's only where the main thread has none, in whatever order they come */
		if (s->account.has_loop ? own : i == steps->main)
			s->loop = loop;
	}
	account_idle_make(&s->devices, s->r->source, s->r->timeline, windows.data, windows.len);
	vec_free(&windows);
}

bool account_loop_is_small(const struct account_state *s)
{
	const struct account_thread *th = account_main(&s->account);
	return s->account.has_loop &&
	       s->account.phases[ACCOUNT_LOOP].wall_ns * SMALL_PART < th->wall_ns;
}

static void say_start(const struct page *p, const struct account_state *s)
{
	const struct account_thread *before = &s->account.phases[ACCOUNT_BEFORE];
	const struct account_loop *l = &s->loop;
	struct buf line = {0};
	char wall[HUMAN_BYTES], slow[HUMAN_BYTES], count[HUMAN_BYTES];
	buf_printf(&line, "  start-up, until its first step");
	if (l->slow == 1)
		buf_printf(&line, " and with that (%s)", human_ns(slow, l->slow_ns));
	else if (l->slow)
		buf_printf(&line, " and with %s slow ones (%s)", human_count(count, l->slow),
			   human_ns(slow, l->slow_ns));
	buf_printf(&line, ": %s: ", human_ns(wall, before->wall_ns));
	account_say_owners(&line, before);
	buf_byte(&line, 0);
	page_wrapped(p, 0, 4, "%s", (char *)line.data);
	buf_free(&line);
}

static void say_after(const struct page *p, const struct account_state *s)
{
	const struct account_thread *after = &s->account.phases[ACCOUNT_AFTER];
	struct buf line = {0};
	char wall[HUMAN_BYTES];
	if (after->wall_ns * AFTER_LEAST < account_main(&s->account)->wall_ns)
		return;
	buf_printf(&line, "  after its last step: %s: ", human_ns(wall, after->wall_ns));
	account_say_owners(&line, after);
	buf_byte(&line, 0);
	page_wrapped(p, 0, 4, "%s", (char *)line.data);
	buf_free(&line);
}

void account_say_phases(const struct page *p, const struct account_state *s)
{
	char count[HUMAN_BYTES], wall[HUMAN_BYTES];
	if (!s->account.has_loop)
		return;
	if (s->account.phases[ACCOUNT_BEFORE].wall_ns)
		say_start(p, s);
	say_after(p, s);
	fprintf(p->out, "  the loop: %s%s steps, %s\n",
		human_count(count, s->loop.steps->steps - s->loop.slow),
		s->loop.slow ? " further" : "",
		human_ns(wall, s->account.phases[ACCOUNT_LOOP].wall_ns));
}
