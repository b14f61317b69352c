/* pod_sources.c - two sources, one thread: it waits until one is due, asks, and puts what was said
 * in the place of what was. */
#include "pods/pod_sources.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "pods/grpc_call.h"

#define SECOND	     1000000000ULL
#define PERIOD_NS    (10 * SECOND)
#define LONGEST_NS   (40 * SECOND) /* less than POD_OLD_NS, with the time for an answer */
#define LEAST_NS     (2 * SECOND)  /* between two questions */
#define LAST_NS	     (60 * SECOND)
#define ANSWER_NS    (5 * SECOND)
#define ANSWER_BYTES (8u << 20)
#define SHARE	     1000 /* asking takes one part in so many of a core */
#define HURRY_SHARE  200  /* while containers are not known */
#define SAY_NS	     (3600 * SECOND)

static const char *const usual_runtimes[] = {
	POD_RUNTIME_SOCKET,
	"/run/crio/crio.sock",
	"/run/k3s/containerd/containerd.sock",
	"/run/cri-dockerd.sock",
};

struct source {
	const char *socket; /* NULL: not asked */
	bool usual;
	const char *method;
	void (*question)(struct buf *ret);
	/* Whether it was an answer: it is then kept. */
	bool (*keep)(struct pod_sources *p, const uint8_t *answer, size_t n);
	uint64_t due_ns, asked_ns, wait_ns; /* wait_ns: until it is tried again, 0: it works */
	uint64_t cost_ns;		    /* processor time that asking took last */
	uint64_t told_ns; /* when it was said last that it does not work, 0: never */
	bool told;	  /* and not yet that it works again */
};

enum { KUBELET, RUNTIME, SOURCES };

struct pod_sources {
	struct pod_sources_options o;
	struct source sources[SOURCES]; /* the thread's */
	int end_fd, soon_fd;
	pthread_t thread;
	bool runs;
	pthread_mutex_t lock; /* of the table; never held over a question */
	struct pod_table table;
};

/* ---- what was said ---- */

static bool keep_devices(struct pod_sources *p, const uint8_t *answer, size_t n)
{
	struct pod_devices now;
	if (!pod_devices_read(&now, answer, n))
		return false;
	pthread_mutex_lock(&p->lock);
	struct pod_devices was = p->table.devices;
	p->table.devices = now;
	p->table.devices_ns = monotonic_ns();
	pthread_mutex_unlock(&p->lock);
	pod_devices_free(&was);
	return true;
}

static bool keep_containers(struct pod_sources *p, const uint8_t *answer, size_t n)
{
	struct pod_containers now;
	if (!pod_containers_read(&now, answer, n))
		return false;
	pthread_mutex_lock(&p->lock);
	struct pod_containers was = p->table.containers;
	p->table.containers = now;
	p->table.containers_times++;
	pthread_mutex_unlock(&p->lock);
	pod_containers_free(&was);
	return true;
}

const struct pod_table *pod_sources_hold(struct pod_sources *p)
{
	pthread_mutex_lock(&p->lock);
	return &p->table;
}

void pod_sources_release(struct pod_sources *p)
{
	pthread_mutex_unlock(&p->lock);
}

/* ---- asking ---- */

static void say(struct pod_sources *p, const char *socket, const char *what, const char *why)
{
	char text[800];
	snprintf(text, sizeof(text), "%s: %s%s", socket, what, why);
	p->o.say(p->o.ctx, text);
}

/* Of usual places none need be there, and containerd without its part for Kubernetes is one of
 * Docker's. */
static bool is_absent(const struct source *s, int rc, int status)
{
	return s->usual && (rc == -ENOENT || rc == -ENOTDIR ||
			    (rc == -EREMOTEIO && status == GRPC_UNIMPLEMENTED));
}

static void note_failure(struct pod_sources *p, struct source *s, const char *socket,
			 const char *why)
{
	s->wait_ns = !s->wait_ns ? PERIOD_NS : s->wait_ns * 2 < LAST_NS ? s->wait_ns * 2 : LAST_NS;
	if (!why || s->told || (s->told_ns && s->asked_ns - s->told_ns < SAY_NS))
		return;
	s->told = true;
	s->told_ns = s->asked_ns;
	say(p, socket, "no names of pods: ", why);
}

static void note_success(struct pod_sources *p, struct source *s, const char *socket)
{
	s->wait_ns = 0;
	if (s->told)
		say(p, socket, "names of pods again", "");
	s->told = false;
}

static const char *socket_of(const struct source *s)
{
	if (!s->usual || strcmp(s->socket, POD_RUNTIME_SOCKET) != 0)
		return s->socket;
	for (size_t i = 0; i < sizeof(usual_runtimes) / sizeof(usual_runtimes[0]); i++)
		if (!access(usual_runtimes[i], F_OK))
			return usual_runtimes[i];
	return s->socket;
}

static void ask(struct pod_sources *p, struct source *s)
{
	struct buf question = {0}, answer = {0};
	struct err e = {""};
	int status = 0;
	const char *socket = socket_of(s);
	s->question(&question);
	const struct grpc_question q = {.socket = socket,
					.method = s->method,
					.message = question.data,
					.len = question.len,
					.most_ns = ANSWER_NS,
					.most_bytes = ANSWER_BYTES,
					.stop_fd = p->end_fd};
	int rc = grpc_call(&answer, &status, &q, &e);
	if (!rc && !s->keep(p, answer.data, answer.len))
		rc = err_set(&e, EBADMSG, "answers something else than was asked");
	if (!rc)
		note_success(p, s, socket);
	else if (rc != -ECANCELED)
		note_failure(p, s, socket, is_absent(s, rc, status) ? NULL : e.msg);
	buf_free(&question);
	buf_free(&answer);
}

/* ---- the thread ---- */

static uint64_t own_cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return timespec_ns(&t);
}

static uint64_t period_of(const struct source *s)
{
	uint64_t fair_ns = s->cost_ns * SHARE;
	return fair_ns < PERIOD_NS ? PERIOD_NS : fair_ns < LONGEST_NS ? fair_ns : LONGEST_NS;
}

static void ask_due(struct pod_sources *p)
{
	for (size_t i = 0; i < SOURCES; i++) {
		struct source *s = &p->sources[i];
		if (!s->socket || s->due_ns > monotonic_ns())
			continue;
		uint64_t before_ns = own_cpu_ns();
		s->asked_ns = monotonic_ns();
		ask(p, s);
		s->cost_ns = own_cpu_ns() - before_ns;
		s->due_ns = monotonic_ns() + (s->wait_ns ? s->wait_ns : period_of(s));
	}
}

/* One that does not answer is not asked sooner. */
static void hurry(struct pod_sources *p)
{
	eventfd_t times;
	if (eventfd_read(p->soon_fd, &times))
		return;
	for (size_t i = 0; i < SOURCES; i++) {
		struct source *s = &p->sources[i];
		uint64_t fair_ns = s->cost_ns * HURRY_SHARE;
		uint64_t soon_ns = s->asked_ns + (fair_ns > LEAST_NS ? fair_ns : LEAST_NS);
		if (!s->wait_ns && s->due_ns > soon_ns)
			s->due_ns = soon_ns;
	}
}

static int wait_ms(const struct pod_sources *p)
{
	uint64_t now_ns = monotonic_ns(), due_ns = now_ns + LAST_NS;
	for (size_t i = 0; i < SOURCES; i++)
		if (p->sources[i].socket && p->sources[i].due_ns < due_ns)
			due_ns = p->sources[i].due_ns;
	return due_ns <= now_ns ? 0 : (int)((due_ns - now_ns) / 1000000) + 1;
}

static void *run(void *arg)
{
	struct pod_sources *p = arg;
	struct pollfd fds[] = {{.fd = p->end_fd, .events = POLLIN},
			       {.fd = p->soon_fd, .events = POLLIN}};
	for (;;) {
		ask_due(p);
		if (poll(fds, 2, wait_ms(p)) > 0 && fds[1].revents)
			hurry(p);
		if (fds[0].revents)
			return NULL;
	}
}

void pod_sources_ask_soon(struct pod_sources *p)
{
	(void)eventfd_write(p->soon_fd, 1);
}

/* ---- its life ---- */

struct pod_sources *pod_sources_new(const struct pod_sources_options *o)
{
	struct pod_sources *p = xcalloc(1, sizeof(*p));
	p->o = *o;
	p->sources[KUBELET] = (struct source){.socket = o->kubelet,
					      .usual = o->kubelet_usual,
					      .method = "/v1.PodResourcesLister/List",
					      .question = pod_devices_question,
					      .keep = keep_devices};
	p->sources[RUNTIME] = (struct source){.socket = o->runtime,
					      .usual = o->runtime_usual,
					      .method = "/runtime.v1.RuntimeService/ListContainers",
					      .question = pod_containers_question,
					      .keep = keep_containers};
	p->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->soon_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

int pod_sources_start(struct pod_sources *p, struct err *e)
{
	int rc = p->end_fd < 0 || p->soon_fd < 0 ? -EMFILE
						 : thread_start(&p->thread, run, p, "eacgm-pods");
	p->runs = !rc;
	return rc ? err_set(e, -rc, "cannot ask for names of pods: %s", strerror(-rc)) : 0;
}

void pod_sources_free(struct pod_sources *p)
{
	if (!p)
		return;
	if (p->runs && !eventfd_write(p->end_fd, 1))
		pthread_join(p->thread, NULL);
	if (p->end_fd >= 0)
		close(p->end_fd);
	if (p->soon_fd >= 0)
		close(p->soon_fd);
	pod_devices_free(&p->table.devices);
	pod_containers_free(&p->table.containers);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
