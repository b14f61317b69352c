/* session_live.c - the thread that looks at a session's rows as they come. The recording thread
 * never waits for it: see session_feed.h. */
#include "session/session_live.h"

#include <errno.h>
#include <string.h>

#include "base/thread.h"
#include "session/session_impl.h"
#include "session/session_names.h"

/* Calls wait for their names up to a pass; what the GPU did, until CUPTI hands it over (every
 * 100 ms) and its call has come as well. */
#define LATE_NS		 100000000ULL
#define LATE_TIMELINE_NS 400000000ULL

struct live {
	const struct session_live *who;
	struct feed *feed;
	unsigned reader; /* of the feed */
	struct pipeline *pipeline;
	const _Atomic uint64_t *running_cost_ns, *holds, *held_ns;
	_Atomic uint64_t *held_until_ns, *raised_until_ns;
	const _Atomic uint64_t *raised_ns;
	struct session *session;
	uint64_t late_ns;
	const struct stack_bounds *bounds;
	pthread_t thread;
	bool runs;
};

static void *look(void *arg)
{
	struct live *l = arg;
	struct session_names names;
	struct detect_names numbers;
	const struct feed_batch nothing = {0};
	const struct feed_batch *b;
	session_names_init(&names, l->bounds);
	session_names_get(&names, &numbers);
	struct session_view view = {.pipeline = l->pipeline,
				    .names = &numbers,
				    .held_until_ns = l->held_until_ns,
				    .raised_until_ns = l->raised_until_ns,
				    .raised_ns = l->raised_ns};
	while ((b = feed_take(l->feed, l->reader))) {
		session_names_take(&names, b);
		view.batch = b;
		view.upto_ns = b->upto_ns > l->late_ns ? b->upto_ns - l->late_ns : 0;
		view.running_cost_ns = atomic_load(l->running_cost_ns);
		view.holds = atomic_load(l->holds);
		view.held_ns = atomic_load(l->held_ns);
		session_budget_own(l->session, &view.own_budget);
		view.overruns = feed_overruns(l->feed, l->reader);
		l->who->batch(l->who->ctx, &view);
		session_names_forget(&names, b);
		feed_give_back(l->feed, l->reader, b);
	}
	view.batch = &nothing;
	if (l->who->end)
		l->who->end(l->who->ctx, &view);
	session_names_free(&names);
	return NULL;
}

static int start(struct session *s, const struct session_live *who, struct err *e)
{
	struct live *l = xcalloc(1, sizeof(*l));
	l->who = who;
	l->session = s;
	l->pipeline = s->pipeline;
	l->running_cost_ns = &s->running_cost_ns;
	l->holds = &s->holds;
	l->held_ns = &s->held_ns;
	if (session_has_budget(s)) {
		l->held_until_ns = &s->held_until_ns;
		l->raised_until_ns = &s->raised_until_ns;
		l->raised_ns = &s->raised_ns;
	}
	l->bounds = pipeline_stack_bounds(!s->opts->output);
	l->late_ns = s->opts->gpu_timeline != GPU_TIMELINE_OFF ? LATE_TIMELINE_NS : LATE_NS;
	l->feed = s->feed;
	l->reader = (unsigned)s->lookers.len;
	*vec_push(&s->lookers) = l;
	int rc = thread_start(&l->thread, look, l, "eacgm-live");
	if (rc)
		return err_set(e, -rc, "cannot start a thread: %s", strerror(-rc));
	l->runs = true;
	return 0;
}

int live_start(struct session *s, struct err *e)
{
	int rc = 0;
	if (!s->opts->nlive)
		return 0;
	if (s->opts->nlive > FEED_READERS_MOST)
		return err_set(e, EINVAL, "more than %d look at rows", FEED_READERS_MOST);
	s->feed = feed_new(s->opts->always_on ? FEED_BYTES_ALWAYS_ON : FEED_BYTES,
			   (unsigned)s->opts->nlive);
	feed_listen(s->feed, s->pipeline);
	for (size_t i = 0; i < s->opts->nlive && !rc; i++)
		rc = start(s, &s->opts->live[i], e);
	return rc;
}

void live_pass(struct session *s, uint64_t begin_ns)
{
	if (s->feed)
		feed_pass(s->feed, begin_ns);
}

static void tell_overruns(struct session *s, const struct live *l)
{
	uint64_t overruns = feed_overruns(l->feed, l->reader);
	if (!overruns)
		return;
	char *text =
		xasprintf("%llu events came faster than they could be looked at; they are "
			  "recorded, but were not %s",
			  (unsigned long long)overruns, l->who->misses ? l->who->misses : "judged");
	pipeline_note(s->pipeline, "live", text);
	session_say(s, "%s", text);
	free(text);
}

/* One after the other: the end of one may tell something to the next. */
static void stop(struct session *s, struct live *l)
{
	feed_end_of(l->feed, l->reader);
	if (l->runs)
		pthread_join(l->thread, NULL);
	tell_overruns(s, l);
	free(l);
}

void live_stop(struct session *s)
{
	if (!s->feed)
		return;
	feed_end(s->feed);
	for (size_t i = 0; i < s->lookers.len; i++)
		stop(s, s->lookers.data[i]);
	vec_free(&s->lookers);
	feed_free(s->feed);
	s->feed = NULL;
}
