/* session_graphs.c - whether a process has CUDA graphs, and what is done where one is launched
 * beside a CUPTI that came in after it was made.
 *
 * Such a launch crashes (CUPTI of CUDA 13.0), and nothing of CUDA tells which graphs there are. So:
 * PyTorch's memory is asked, which counts the pools of memory that each of its graphs needs; calls
 * of the driver that make or use graphs are noted before CUPTI comes in; and once it is in, a
 * thread that would launch a graph, none having been made since, is held until CUPTI has gone. */
#include "session/session_graphs.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "session/attach_check.h"
#include "collect/gpu_spans.h"
#include "remote/remote.h"

#define DRIVER	    "libcuda.so"
#define SUBJECT	    "gpu timeline"
#define MOST_PLACES 8

static const char *const makers[] = {"cuGraphInstantiateWithFlags", "cuGraphInstantiateWithParams",
				     "cuGraphInstantiateWithParams_ptsz", "cuGraphInstantiate_v2",
				     "cuGraphInstantiate"};
static const char *const users[] = {"cuGraphLaunch",	    "cuGraphLaunch_ptsz",
				    "cuGraphUpload",	    "cuGraphUpload_ptsz",
				    "cuGraphExecUpdate_v2", "cuGraphExecUpdate"};
#define MAKERS (sizeof(makers) / sizeof(makers[0]))
#define USERS  (sizeof(users) / sizeof(users[0]))
_Static_assert(MAKERS <= MOST_PLACES && USERS <= MOST_PLACES, "of graph_guard_open");

struct watched {
	pid_t pid;
	struct graph_guard *guard;
	bool asked; /* CUPTI is to go */
};

struct graphs {
	struct session *session;
	pthread_mutex_t lock;
	VEC(struct watched) list; /* under lock */
};

struct graphs *graphs_open(struct session *s)
{
	struct graphs *g = xcalloc(1, sizeof(*g));
	g->session = s;
	pthread_mutex_init(&g->lock, NULL);
	return g;
}

/* ---- before ---- */

/* MemPool::uid_ and uuid_, the numbers of the next pool, both 1 at first (c10/cuda/
 * CUDACachingAllocator.cpp of PyTorch 2.5, later ATen/cuda/MemPool.cpp): each capture of a graph
 * has a pool of its own or one that was made for graphs. */
static bool torch_made_pools(pid_t pid)
{
	static const struct {
		const char *library, *counters[2];
	} places[] = {
		{"libc10_cuda.so", {"_ZN3c104cuda7MemPool4uid_E", "_ZN3c104cuda7MemPool5uuid_E"}},
		{"libtorch_cuda.so", {"_ZN2at4cuda7MemPool4uid_E", "_ZN2at4cuda7MemPool5uuid_E"}},
	};
	uint64_t next[2];
	struct err e;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int n = remote_read(pid, places[i].library, places[i].counters, 2, next, &e);
		for (int k = 0; k < n; k++)
			if (next[k] > 1)
				return true;
	}
	return false;
}

static int find_offsets(pid_t pid, const char *const *names, size_t n, uint64_t *ret, size_t *ret_n,
			int *file, struct err *e)
{
	struct remote_place places[MOST_PLACES];
	int found = remote_find(pid, DRIVER, names, n, places, file, e);
	for (int i = 0; i < found; i++)
		ret[i] = places[i].file_offset;
	*ret_n = found > 0 ? (size_t)found : 0;
	return found < 0 ? found : 0;
}

static int open_guard(struct graphs *g, struct graph_guard **ret, pid_t pid, struct err *e)
{
	char path[32];
	int file = -1;
	uint64_t maker_offsets[MOST_PLACES], user_offsets[MOST_PLACES];
	struct graph_places places = {.path = path, .makers = maker_offsets, .users = user_offsets};
	int rc = find_offsets(pid, makers, MAKERS, maker_offsets, &places.nmakers, &file, e);
	if (!rc)
		rc = find_offsets(pid, users, USERS, user_offsets, &places.nusers, &file, e);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	if (!rc)
		rc = graph_guard_open(ret, g->session->tracer, pid, &places, e);
	if (file >= 0)
		close(file);
	return rc;
}

int graphs_watch(struct graphs *g, struct graph_guard **ret, pid_t pid, struct err *e)
{
	struct graph_guard *guard;
	if (torch_made_pools(pid))
		return err_set(e, EBUSY,
			       "its PyTorch has made CUDA graphs, or pools of memory as for them: "
			       "it uses CUDA graphs, and the next launch of one would crash if "
			       "CUPTI came in now: record it from its start, "
			       "record --gpu-timeline -- CMD");
	int rc = open_guard(g, &guard, pid, e);
	if (rc)
		return rc;
	pthread_mutex_lock(&g->lock);
	*vec_push(&g->list) = (struct watched){.pid = pid, .guard = guard};
	pthread_mutex_unlock(&g->lock);
	*ret = guard;
	return 0;
}

void graphs_forget(struct graphs *g, struct graph_guard *guard)
{
	pthread_mutex_lock(&g->lock);
	for (size_t i = g->list.len; i-- > 0;)
		if (g->list.data[i].guard == guard)
			g->list.data[i] = g->list.data[--g->list.len];
	pthread_mutex_unlock(&g->lock);
	graph_guard_close(guard);
}

/* ---- afterwards ---- */

static void tell_held(const struct graphs *g, pid_t pid)
{
	char *reason = xasprintf(
		"process %d: its timeline ends here, and CUPTI goes: it launches CUDA graphs, and "
		"has made none since CUPTI came, beside which older ones would crash",
		pid);
	pipeline_note(g->session->pipeline, SUBJECT, reason);
	session_say(g->session, "GPU timeline: %s", reason);
	free(reason);
}

/* The state of a process that is asked to end; the stop is written again and again, for a shim
 * that is just coming in begins its ring anew. */
static unsigned ask_to_end(const struct graphs *g, pid_t pid)
{
	struct session *s = g->session;
	pthread_mutex_lock(&s->timeline.lock);
	gpu_spans_stop_process(s->timeline.rings, pid);
	unsigned state = gpu_spans_state(s->timeline.rings, pid);
	pthread_mutex_unlock(&s->timeline.lock);
	return state;
}

/* One that failed says so before CUPTI has gone, and gives its ring back after. */
static void look_at(const struct graphs *g, struct watched *w)
{
	if (!graph_guard_holds(w->guard))
		return;
	unsigned state = ask_to_end(g, w->pid);
	if (!w->asked)
		tell_held(g, w->pid);
	w->asked = true;
	if (state == GPU_RING_ENDED || (state == GPU_RING_FAILED && !process_has_ring(w->pid)))
		graph_guard_let_go(w->guard);
}

void graphs_look(struct graphs *g)
{
	pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < g->list.len; i++)
		look_at(g, &g->list.data[i]);
	pthread_mutex_unlock(&g->lock);
}

/* To take a hook off waits for all threads that are held at it, whosever they are: first nobody is
 * held any more. */
void graphs_let_go(struct graphs *g)
{
	pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < g->list.len; i++)
		graph_guard_let_go(g->list.data[i].guard);
	pthread_mutex_unlock(&g->lock);
}

void graphs_close(struct graphs *g)
{
	graphs_let_go(g);
	for (size_t i = 0; i < g->list.len; i++)
		graph_guard_close(g->list.data[i].guard);
	vec_free(&g->list);
	pthread_mutex_destroy(&g->lock);
	free(g);
}
