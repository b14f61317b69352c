/* session_inside.c - calls that are told inside of the command's processes instead of by the kernel
 * (wire/call_ring.h): the processes load libeacgm_calls.so, the tracer writes probes into them
 * while they are held (probe/inside_write.h), and the mover empties their rings. Calls of Python
 * functions come the same way, without probes: session_python.c.
 *
 * Where that cannot be, the kernel has all probes, and a note says why. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/as_user.h"
#include "base/clock.h"
#include "session/session_impl.h"
#include "session/shipped.h"

#define PARENT	      "/dev/shm"
#define SUBJECT	      "probes inside"
#define DRAIN_NS      4000000ULL /* a ring holds 60,000 calls */
#define CPUS_TO_SPARE 4

bool inside_is_on(const struct session *s)
{
	return s->inside.probes;
}

const char *inside_library(const struct session *s)
{
	return inside_is_on(s) ? s->inside.library : NULL;
}

static void on_call(void *ctx, const struct rec_call *call, uint32_t mark)
{
	struct session *s = ctx;
	pipeline_told_call(s->pipeline, call, mark);
}

static void on_code(void *ctx, uint64_t id, const struct call_text *name,
		    const struct call_text *file, uint32_t line)
{
	python_code(ctx, id, name, file, line);
}

static void on_upto(void *ctx, uint32_t pid, uint64_t ns)
{
	struct session *s = ctx;
	pipeline_ops_upto(s->pipeline, pid, ns);
}

static int check(const struct session_options *o, struct err *e)
{
	if (!o->command && (o->target->all || o->target->cgroup_id))
		return err_set(e, ENOTSUP,
			       "they are for commands that eacgm starts, and for processes by -p");
	if (!o->command && o->burst_on_ns)
		return err_set(e, ENOTSUP,
			       "of processes that run already no --burst: the kernel tells, too");
	if (o->operators == OPERATORS_CALLBACKS)
		return err_set(e, ENOTSUP, "--operators callbacks tells operators otherwise");
	return 0;
}

static int open_once(void *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* The dynamic linker would complain in each of the command's processes. */
static int check_readable(const struct command_user *user, const char *library, struct err *e)
{
	const struct fs_user as = {user->uid, user->gid};
	char *path = xstrdup(library);
	int rc = user->changes ? as_user(&as, open_once, path, free) : 0;
	if (rc != -ETIMEDOUT)
		free(path);
	return rc ? err_set(e, -rc, "the command's user cannot read %s: %s", library, strerror(-rc))
		  : 0;
}

static int prepare(struct session *s, char **environment, struct err *e)
{
	const struct session_options *o = s->opts;
	struct call_rings *rings;
	struct call_rings_events events = {
		.on_call = on_call, .on_code = on_code, .on_upto = on_upto, .ctx = s};
	int rc = shipped_find(CALL_SHIM, s->inside.library, sizeof(s->inside.library), e);
	if (rc)
		return rc;
	if (strpbrk(s->inside.library, " :"))
		return err_set(e, ENOTSUP, "LD_PRELOAD takes no path with a space or colon: %s",
			       s->inside.library);
	const bool changes = o->command && o->user->changes;
	if (o->command)
		rc = check_readable(o->user, s->inside.library, e);
	if (rc)
		return rc;
	uid_t uid = changes ? o->user->uid : geteuid();
	gid_t gid = changes ? o->user->gid : getegid();
	rc = call_rings_open(&rings, PARENT, uid, gid, &events, e);
	if (rc)
		return rc;
	s->inside.rings = rings;
	if (!o->command) {
		calls_open(s);
		return 0;
	}
	const char *others = o->preload ? o->preload : "";
	environment[0] = xasprintf(CALL_PRELOAD_ENV "=%s%s%s", others, *others ? ":" : "",
				   s->inside.library);
	environment[1] = xasprintf(CALL_RINGS_ENV "=%s", call_rings_folder(rings));
	return 0;
}

/* Where it is not asked for by name: nothing is brought into processes that run, a budget has
 * probes that it can take off, and there is a CPU for who reads the rings, which takes longer than
 * to read what the kernel tells; nobody waits for it, so that they fill up where it is late. */
bool session_asks_inside(const struct session_options *o)
{
	if (o->probes == PROBES_AUTO)
		return o->command && !(o->budget > 0) && o->operators != OPERATORS_CALLBACKS &&
		       sysconf(_SC_NPROCESSORS_ONLN) >= CPUS_TO_SPARE;
	return o->probes == PROBES_INSIDE;
}

void inside_prepare(struct session *s, char **environment)
{
	struct told_inside *in = &s->inside;
	bool asked = session_asks_inside(s->opts);
	in->probes = asked && !check(s->opts, &in->error);
	in->python = s->opts->python_calls && !python_check(s->opts, &in->python_error);
	if ((in->probes || in->python) && prepare(s, environment, &in->error)) {
		if (in->python)
			in->python_error = in->error;
		in->probes = in->python = false;
	}
	if (in->python)
		python_prepare(s, environment + 2);
	if (s->opts->probes == PROBES_INSIDE && !in->probes)
		session_say(s, "the kernel has all probes: %s", in->error.msg);
	if (s->opts->python_calls && !in->python)
		session_say(s, "no calls of Python functions: %s", in->python_error.msg);
}

void inside_tell(struct session *s)
{
	if (s->inside.rings)
		pipeline_await_told(s->pipeline);
	if (s->inside.python)
		python_begin(s);
	if (session_asks_inside(s->opts) && s->inside.error.msg[0])
		pipeline_note(s->pipeline, SUBJECT, s->inside.error.msg);
	if (s->inside.python_error.msg[0])
		pipeline_note(s->pipeline, "python calls", s->inside.python_error.msg);
}

/* ---- while it runs, in the mover ---- */

size_t inside_drain(struct session *s)
{
	uint64_t now_ns = monotonic_ns();
	if (!s->inside.rings || now_ns - s->inside.drained_ns < DRAIN_NS)
		return 0;
	s->inside.drained_ns = now_ns;
	pthread_mutex_lock(&s->inside.lock);
	call_rings_set_stack_shift(s->inside.rings, s->mover.stack_shift);
	size_t n = call_rings_drain(s->inside.rings);
	pthread_mutex_unlock(&s->inside.lock);
	return n;
}

/* What is open when all is told stays open. */
void inside_finish(struct session *s)
{
	if (!s->inside.rings)
		return;
	pthread_mutex_lock(&s->inside.lock);
	call_rings_stop(s->inside.rings);
	call_rings_drain(s->inside.rings);
	call_rings_drain(s->inside.rings); /* and all that there was has come */
	call_rings_open_calls(s->inside.rings);
	pthread_mutex_unlock(&s->inside.lock);
}

static void read_stats(struct session *s, struct call_rings_stats *ret)
{
	pthread_mutex_lock(&s->inside.lock);
	call_rings_stats(s->inside.rings, ret);
	pthread_mutex_unlock(&s->inside.lock);
}

void inside_histograms(struct session *s, void (*visit)(void *ctx, const struct hist_key *key,
							const struct hist_value *value))
{
	if (!inside_is_on(s))
		return;
	pthread_mutex_lock(&s->inside.lock);
	call_rings_histograms(s->inside.rings, visit, s);
	pthread_mutex_unlock(&s->inside.lock);
}

void inside_set_threshold(struct session *s, uint32_t probe, uint64_t ns)
{
	if (!inside_is_on(s))
		return;
	pthread_mutex_lock(&s->inside.lock);
	call_rings_set_threshold(s->inside.rings, probe, ns);
	pthread_mutex_unlock(&s->inside.lock);
}

/* Without the lock, for the mover may have it long: no folder comes or goes, of a command. */
void inside_rest(struct session *s, bool rests)
{
	if (inside_is_on(s))
		call_rings_set_rests(s->inside.rings, rests);
}

/* That processes have told, in whatever way. */
static uint64_t told_calls(const struct call_rings_stats *st)
{
	return st->calls + st->counted - st->kept;
}

uint64_t inside_lost_calls(struct session *s)
{
	struct call_rings_stats st;
	if (!s->inside.rings)
		return 0;
	read_stats(s, &st);
	uint64_t made = told_calls(&st) + st.full + st.uncounted;
	double cost_ns = call_rings_cost_ns(s->inside.rings, &st) * (double)made;
	atomic_store(&s->inside.cost_ns, (uint64_t)cost_ns);
	return st.full + st.deep + st.elsewhere + st.slotless + st.uncounted;
}

void inside_losses(struct session *s)
{
	struct call_rings_stats st;
	if (!s->inside.rings)
		return;
	read_stats(s, &st);
	session_loss(s, "inside_full", st.full);
	session_loss(s, "inside_deep", st.deep);
	session_loss(s, "inside_elsewhere", st.elsewhere);
	session_loss(s, "inside_thread", st.slotless);
	session_loss(s, "inside_hist", st.uncounted);
	session_loss(s, "inside_record", st.bad_records);
	session_loss(s, "inside_unmatched", st.unmatched);
	session_loss(s, "inside_no_return", st.no_return);
}

static void count_silent(void *ctx, pid_t pid)
{
	struct session *s = ctx;
	s->inside.silent += !call_rings_knew(s->inside.rings, pid);
}

/* Those that have probes, and could tell nothing: they may have called nothing, too. */
static void tell_silent(struct session *s)
{
	tracer_inside_processes(s->tracer, count_silent, s);
	if (!s->inside.silent)
		return;
	char *text = xasprintf("%zu process%s told no call: none was made, or it may make no file "
			       "in %s (another user, limits of files, a filter of system calls)",
			       s->inside.silent, s->inside.silent > 1 ? "es" : "", PARENT);
	pipeline_note(s->pipeline, SUBJECT, text);
	free(text);
}

/* The mover has ended. */
void inside_metas(struct session *s)
{
	struct call_rings_stats st;
	struct tracer_stats stats;
	if (!s->inside.rings)
		return;
	tracer_stats(s->tracer, &stats);
	call_rings_stats(s->inside.rings, &st);
	if (s->inside.python)
		python_metas(s, &st);
	pipeline_meta(s->pipeline, "inside_places", "%lu", (unsigned long)stats.places_inside);
	pipeline_meta(s->pipeline, "inside_processes", "%lu",
		      (unsigned long)stats.inside_processes);
	pipeline_meta(s->pipeline, "inside_ms", "%.1f", (double)stats.inside_ns / 1e6);
	pipeline_meta(s->pipeline, "inside_calls", "%lu",
		      (unsigned long)(told_calls(&st) - st.python_calls));
	pipeline_meta(s->pipeline, "inside_call_ns", "%.0f",
		      call_rings_cost_ns(s->inside.rings, &st));
	tell_silent(s);
}

void inside_close(struct session *s)
{
	calls_close(s);
	call_rings_close(s->inside.rings);
	s->inside.rings = NULL;
}
