/* session_targets.c - the processes of a session: those that are there at its beginning, those that
 * come, and those that have ended. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "session/session_impl.h"

#define SETTLE_MS      5000
#define SETTLE_STEP_MS 20

/* ---- who is watched ---- */

bool session_is_watched(const struct session *s, pid_t pid)
{
	for (size_t i = 0; i < s->live.len; i++) {
		if (s->live.data[i] == pid)
			return true;
	}
	return false;
}

void session_watch_pid(struct session *s, pid_t pid, bool fresh)
{
	if (session_is_watched(s, pid))
		return;
	*vec_push(&s->live) = pid;
	s->had_targets = true;
	if (!s->opts->jobs_alone)
		collectors_add_pid(s->collectors, pid, fresh);
}

void session_unwatch_pid(struct session *s, pid_t pid)
{
	for (size_t i = 0; i < s->live.len; i++) {
		if (s->live.data[i] != pid)
			continue;
		s->live.data[i] = s->live.data[--s->live.len];
		*vec_push(&s->ended) = pid;
		collectors_del_pid(s->collectors, pid);
		attacher_gone(s, pid);
		calls_gone(s, pid);
		jobs_gone(s, pid);
		rules_gone(s, pid);
		return;
	}
}

/* An end that was not told (the control ring was full, or the process ended before it
 * became a target) must not keep the recording open. */
static bool has_ended(pid_t pid)
{
	char path[64], text[1024], state = 0;
	unsigned long threads = 0;
	if (kill(pid, 0) && errno == ESRCH)
		return true;
	/* nobody has waited for it yet (proc_pid_stat(5), fields 3 and 20) */
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	const char *after_name = strrchr(text, ')');
	return after_name &&
	       sscanf(after_name + 1,
		      " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %lu",
		      &state, &threads) == 2 &&
	       state == 'Z' && threads <= 1;
}

void targets_sweep(struct session *s)
{
	for (size_t i = s->live.len; i-- > 0;) {
		if (has_ended(s->live.data[i]))
			session_unwatch_pid(s, s->live.data[i]);
	}
	/* one may have ended between being listed and becoming a target */
	for (size_t i = 0; i < s->ended.len; i++)
		if (has_ended(s->ended.data[i]))
			tracer_forget_pid(s->tracer, s->ended.data[i]);
	s->ended.len = 0;
}

/* ---- those that are there ---- */

/* Children that were forked while their parents were not targets yet. One that has loaded its
 * libraries by now tells of them no more. */
static int add_forked(struct session *s, struct err *e)
{
	int rc = 0;
	struct err ended;
	size_t known;
	for (size_t i = 0; i < s->live.len && !rc; i++) { /* grows meanwhile */
		pids_t family = {0};
		proc_descendants("/proc", s->live.data[i], &family);
		for (size_t k = 0; k < family.len && !rc; k++) {
			rc = tracer_add_pid(s->tracer, family.data[k], e);
			known = s->live.len;
			session_watch_pid(s, family.data[k], false);
			if (s->live.len > known)
				rules_met(s, family.data[k], 0);
			pipeline_process(s->pipeline, family.data[k]);
			if (s->live.len > known)
				tracer_scan_pid(s->tracer, family.data[k], &ended);
		}
		vec_free(&family);
	}
	return rc;
}

static int make_targets(struct session *s, const pids_t *pids, struct err *e)
{
	bool all = s->opts->target->all;
	int rc = 0;
	for (size_t i = 0; i < pids->len && !rc; i++) {
		if (pids->data[i] == getpid())
			continue;
		if (!all)
			rc = tracer_add_pid(s->tracer, pids->data[i], e);
		if (rc)
			break;
		session_watch_pid(s, pids->data[i], false);
		rules_met(s, pids->data[i], 0);
	}
	return rc || all ? rc : add_forked(s, e);
}

/* Returns how many could be. Each is scanned after it became a target: what it loaded before is
 * found then, what it loads later is told. */
static size_t scan_targets(struct session *s, const pids_t *pids)
{
	size_t alive = 0;
	/* in a hurry one is looked at: else they would be said to have ended */
	for (size_t i = 0; i < pids->len && !(alive && tracer_hurries(s->tracer)); i++) {
		struct err why = {0};
		if (pids->data[i] == getpid())
			continue;
		pipeline_process(s->pipeline, pids->data[i]);
		if (tracer_scan_pid(s->tracer, pids->data[i], &why) >= 0)
			alive++;
		else if (!s->opts->target->all)
			pipeline_note(s->pipeline, "process", why.msg);
	}
	return alive;
}

static int add_running(struct session *s, struct err *e)
{
	const struct target *t = s->opts->target;
	pids_t everyone = {0};
	if (t->all)
		proc_all("/proc", &everyone);
	const pids_t *pids = t->all ? &everyone : &t->pids;
	int rc = make_targets(s, pids, e);
	if (!rc && !scan_targets(s, pids) && t->pids.len && !t->all)
		rc = err_set(e, ESRCH, "none of the processes could be traced: they ended");
	vec_free(&everyone);
	return rc;
}

/* Stacks that are taken before their unwind tables are there are cut. Tasks that load a library
 * meanwhile are held, and have to be answered. */
static void settle_stacks(struct session *s)
{
	for (int waited_ms = 0; waited_ms < SETTLE_MS; waited_ms += SETTLE_STEP_MS) {
		if (tracer_stacks_settle(s->tracer, SETTLE_STEP_MS) || tracer_hurries(s->tracer))
			return;
		tracer_control(s->tracer);
	}
	pipeline_note(s->pipeline, "stacks",
		      "the first ones may be cut: unwind tables took longer than 5 s");
}

/* Probes come on one file after another, while targets run. No call counts before all of them are
 * on: of what ran meanwhile some functions' calls would be there, and others' not. */
int targets_add(struct session *s, struct err *e)
{
	tracer_calls_off(s->tracer, NULL, NULL, e);
	int rc = add_running(s, e);
	tracer_calls_on(s->tracer);
	bursts_begin(s);
	atomic_store(&s->mover.begun, !rc);
	if (rc)
		return rc;
	settle_stacks(s);
	return tracer_start_sampling(s->tracer, e);
}
