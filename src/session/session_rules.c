/* session_rules.c - the tracer learns of each process what a rule leaves out of it: when it is met,
 * and again when it has executed another program. A child is its parent's program, and under its
 * rule. */
#include "session/session_impl.h"

/* What finds no room is under no rule: all of it is traced and told. */
static void put(struct session *s, pid_t pid, size_t rule)
{
	struct job_rules *r = s->opts->rules;
	struct err e;
	if (!tracer_leave_out(s->tracer, pid, rule ? r->list[rule - 1].left_out : 0, &e) || !rule)
		job_rules_put(r, pid, rule);
	else if (job_rules_failed(r, pid, rule) == 1)
		session_say(s,
			    "rules: process %d is traced against its rule, and others may be: %s",
			    pid, e.msg);
}

/* What it did before it was known to be left alone may have made it a job. */
static void tell_alone(struct session *s, pid_t pid, uint64_t since_ns)
{
	bool alone = rules_leave_alone(s, pid);
	pipeline_leave_alone(s->pipeline, pid, alone, since_ns);
	if (!alone || !jobs_has(s, pid))
		return;
	collectors_del_pid(s->collectors, pid);
	jobs_gone(s, pid);
}

void rules_met(struct session *s, pid_t pid, uint64_t since_ns)
{
	struct job_facts f;
	if (!s->opts->rules)
		return;
	job_facts_read(&f, "/proc", pid);
	put(s, pid, job_rules_match(s->opts->rules, &f));
	job_facts_free(&f);
	tell_alone(s, pid, since_ns);
}

void rules_forked(struct session *s, pid_t parent, pid_t child)
{
	if (!s->opts->rules)
		return;
	if (session_is_watched(s, parent))
		put(s, child, job_rules_meant(s->opts->rules, parent));
	else
		rules_met(s, child, 0);
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
	if (s->opts->rules && job_rules_meant(s->opts->rules, pid))
		put(s, pid, 0);
}
