/* session_live.c - the thread that looks at a session's rows as they come. The recording thread
 * never waits for it: see session_feed.h. */
#include "session/session_live.h"

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
	struct pipeline *pipeline;
	double probe_ns_each;
	uint64_t late_ns;
	pthread_t thread;
	bool runs;
};

static void *look(void *arg)
{
	struct live *l = arg;
	struct session_names names = {0};
	struct detect_names numbers;
	const struct feed_batch nothing = {0};
	struct feed_batch *b;
	session_names_get(&names, &numbers);
	struct session_view view = {
		.pipeline = l->pipeline, .names = &numbers, .probe_ns_each = l->probe_ns_each};
	while ((b = feed_take(l->feed))) {
		session_names_take(&names, b);
		view.batch = b;
		view.upto_ns = b->upto_ns > l->late_ns ? b->upto_ns - l->late_ns : 0;
		view.overruns = feed_overruns(l->feed);
		l->who->batch(l->who->ctx, &view);
		session_names_forget(&names, b);
		feed_give_back(l->feed, b);
	}
	view.batch = &nothing;
	if (l->who->end)
		l->who->end(l->who->ctx, &view);
	session_names_free(&names);
	return NULL;
}

int live_start(struct session *s, struct err *e)
{
	if (!s->opts->live)
		return 0;
	struct live *l = xcalloc(1, sizeof(*l));
	l->who = s->opts->live;
	l->pipeline = s->pipeline;
	l->probe_ns_each = s->probe_ns_each;
	l->late_ns = s->opts->gpu_timeline != GPU_TIMELINE_OFF ? LATE_TIMELINE_NS : LATE_NS;
	l->feed = feed_new(FEED_BYTES);
	feed_listen(l->feed, s->pipeline);
	s->looker = l;
	int rc = thread_start(&l->thread, look, l);
	if (rc)
		return err_set(e, -rc, "cannot start a thread: %s", strerror(-rc));
	pthread_setname_np(l->thread, "eacgm-live");
	l->runs = true;
	return 0;
}

void live_pass(struct session *s, uint64_t begin_ns)
{
	if (s->looker)
		feed_pass(s->looker->feed, begin_ns);
}

static void tell_overruns(struct session *s, uint64_t overruns)
{
	if (!overruns)
		return;
	char *text = xasprintf("%llu events came faster than they could be looked at; they are "
			       "recorded, but were not judged",
			       (unsigned long long)overruns);
	pipeline_note(s->pipeline, "live", text);
	session_say(s, "%s", text);
	free(text);
}

void live_stop(struct session *s)
{
	struct live *l = s->looker;
	if (!l)
		return;
	feed_end(l->feed);
	if (l->runs)
		pthread_join(l->thread, NULL);
	tell_overruns(s, feed_overruns(l->feed));
	feed_free(l->feed);
	free(l);
	s->looker = NULL;
}
