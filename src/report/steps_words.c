/* steps_words.c - how many steps, how long, and the shares of their phases: what the account and
 * `eacgm watch` say of a loop. */
#include "report/steps_words.h"

#include <string.h>

#include "base/human.h"

#define PHASE_LEAST 100 /* one part in so many of a step */

void steps_say_means(struct buf *to, const struct steps_means *m)
{
	static const char *const kinds[STEPS_KINDS] = STEPS_KIND_NAMES;
	char count[HUMAN_BYTES], mean[HUMAN_BYTES];
	bool any = false;
	buf_printf(to, "%s%s of %s, %s each on average", human_count(count, m->count),
		   m->further ? " further" : "", kinds[m->kind],
		   human_ns(mean, (uint64_t)m->mean_ns));
	for (int i = 0; i < STEPS_PHASES; i++) {
		if (m->phase_mean_ns[i] * PHASE_LEAST < m->mean_ns)
			continue;
		buf_printf(to, "%s %s %.0f %%", any ? "," : ":",
			   steps_phase_words(m->process, (enum steps_phase)i),
			   100 * m->phase_mean_ns[i] / m->mean_ns);
		any = true;
	}
}

static void say_loop(struct buf *to, const struct steps_process *p, const struct steps_loop *l)
{
	struct steps_means means = {
		.process = p, .count = l->steps, .kind = l->kind, .mean_ns = l->mean_ns};
	memcpy(means.phase_mean_ns, l->phase_mean_ns, sizeof(means.phase_mean_ns));
	steps_say_means(to, &means);
}

void steps_say_each(const struct steps *s, void (*say)(void *ctx, uint32_t pid, const char *text),
		    void *ctx)
{
	for (size_t i = 0; s->main != SIZE_MAX && i < s->processes.len; i++) {
		size_t at = i ? i - (i <= s->main) : s->main;
		const struct steps_process *p = &s->processes.data[at];
		const struct steps_loop *loop = steps_main_loop(p);
		struct buf line = {0};
		if (!loop || loop->kind == STEPS_LOADING)
			continue;
		say_loop(&line, p, loop);
		buf_byte(&line, 0);
		say(ctx, p->pid, (const char *)line.data);
		buf_free(&line);
	}
}
