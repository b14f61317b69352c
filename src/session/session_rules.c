/* session_rules.c - the tracer learns of each process what a rule leaves out of it: when it is met,
 * and again when it has executed another program. A child is its parent's program, and under its
 * rule. */
#include "session/session_impl.h"

static void put(struct session *s, pid_t pid, size_t rule)
{
	struct job_rules *r = s->opts->rules;
	job_rules_put(r, pid, rule);
	tracer_leave_out(s->tracer, pid, rule ? r->list[rule - 1].left_out : 0);
}

void rules_met(struct session *s, pid_t pid)
{
	struct job_facts f;
	if (!s->opts->rules)
		return;
	job_facts_read(&f, "/proc", pid);
	put(s, pid, job_rules_match(s->opts->rules, &f));
	job_facts_free(&f);
}

void rules_forked(struct session *s, pid_t parent, pid_t child)
{
	if (!s->opts->rules)
		return;
	if (session_is_watched(s, parent))
		put(s, child, job_rules_of(s->opts->rules, parent));
	else
		rules_met(s, child);
}

bool rules_leave_alone(const struct session *s, pid_t pid)
{
	struct job_rules *r = s->opts->rules;
	size_t rule = r ? job_rules_of(r, pid) : 0;
	return rule && r->list[rule - 1].left_out == JOB_LEFT_ALONE;
}

/* Its number may be another's soon. */
void rules_gone(struct session *s, pid_t pid)
{
	if (s->opts->rules && job_rules_of(s->opts->rules, pid))
		put(s, pid, 0);
}
