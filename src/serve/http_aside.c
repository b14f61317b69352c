/* http_aside.c - a queue to a thread, and a list of what it has answered, which an eventfd tells
 * the server's thread of: libevent itself is that thread's alone. */
#include "serve/http_aside.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

struct asked {
	const struct http_route *route;
	void *ctx;
	char *path, *query, *accept;
	uint64_t asked_ns;
	struct evhttp_request *of;
	struct http_answer answer;
};

struct http_aside {
	void (*done)(struct evhttp_request *r, const struct http_answer *a);
	struct event *tells; /* of tells_fd */
	int tells_fd;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* of the next four */
	pthread_cond_t wake;
	VEC(struct asked) waiting;
	VEC(struct asked) answered;
	bool ends;
};

static void asked_free(struct asked *q)
{
	free(q->path);
	free(q->query);
	free(q->accept);
	buf_free(&q->answer.body);
}

/* ---- the thread ---- */

static void make_answer(struct asked *q)
{
	q->answer = (struct http_answer){.status = 200};
	if (monotonic_ns() - q->asked_ns > ASIDE_WAIT_NS) {
		q->answer.status = 503;
		buf_printf(&q->answer.body, "too much is asked\n");
		return;
	}
	q->route->answer(q->ctx, &(struct http_question){q->path, q->query, q->accept, "", 0},
			 &q->answer);
}

/* With the lock held; false: it ends. */
static bool take_next(struct http_aside *a, struct asked *ret)
{
	while (!a->ends && !a->waiting.len)
		pthread_cond_wait(&a->wake, &a->lock);
	if (a->ends)
		return false;
	*ret = a->waiting.data[0];
	a->waiting.len--;
	for (size_t i = 0; i < a->waiting.len; i++)
		a->waiting.data[i] = a->waiting.data[i + 1];
	return true;
}

static void *answer_all(void *arg)
{
	struct http_aside *a = arg;
	struct asked next;
	pthread_mutex_lock(&a->lock);
	while (take_next(a, &next)) {
		pthread_mutex_unlock(&a->lock);
		make_answer(&next);
		pthread_mutex_lock(&a->lock);
		*vec_push(&a->answered) = next;
		eventfd_write(a->tells_fd, 1);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

/* ---- the server's side ---- */

static void on_told(evutil_socket_t fd, short what, void *arg)
{
	struct http_aside *a = arg;
	struct asked next;
	eventfd_t unused;
	(void)what;
	eventfd_read(fd, &unused);
	for (;;) {
		pthread_mutex_lock(&a->lock);
		bool some = a->answered.len > 0;
		if (some)
			next = a->answered.data[--a->answered.len];
		pthread_mutex_unlock(&a->lock);
		if (!some)
			return;
		a->done(next.of, &next.answer);
		asked_free(&next);
	}
}

struct http_aside *http_aside_new(struct event_base *base,
				  void (*done)(struct evhttp_request *r,
					       const struct http_answer *a))
{
	struct http_aside *a = xcalloc(1, sizeof(*a));
	a->done = done;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->wake, NULL);
	a->tells_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	a->tells = event_new(base, a->tells_fd, EV_READ | EV_PERSIST, on_told, a);
	if (a->tells_fd >= 0 && a->tells && !event_add(a->tells, NULL))
		return a;
	http_aside_free(a);
	return NULL;
}

int http_aside_ask(struct http_aside *a, const struct http_route *route, void *ctx,
		   const struct http_question *q, struct evhttp_request *r)
{
	if (!a->started)
		a->started = !thread_start(&a->thread, answer_all, a, "eacgm-answers");
	pthread_mutex_lock(&a->lock);
	bool fits = a->started && a->waiting.len < ASIDE_MOST;
	if (fits)
		*vec_push(&a->waiting) = (struct asked){.route = route,
							.ctx = ctx,
							.path = xstrdup(q->path),
							.query = xstrdup(q->query),
							.accept = xstrdup(q->accept),
							.asked_ns = monotonic_ns(),
							.of = r};
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
	return fits ? 0 : 503;
}

/* Of who is gone a question is ours; evhttp frees the others. */
static void drop(struct asked *q)
{
	if (!evhttp_request_get_connection(q->of))
		evhttp_request_free(q->of);
	asked_free(q);
}

void http_aside_free(struct http_aside *a)
{
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->ends = true;
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
	if (a->started)
		pthread_join(a->thread, NULL);
	for (size_t i = 0; i < a->waiting.len; i++)
		drop(&a->waiting.data[i]);
	for (size_t i = 0; i < a->answered.len; i++)
		drop(&a->answered.data[i]);
	vec_free(&a->waiting);
	vec_free(&a->answered);
	if (a->tells)
		event_free(a->tells);
	if (a->tells_fd >= 0)
		close(a->tells_fd);
	pthread_cond_destroy(&a->wake);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
