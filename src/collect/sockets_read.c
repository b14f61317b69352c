/* sockets_read.c - once a second, the TCP sockets of the watched processes: what NCCL's socket
 * transport moves, and had to send again, and what waits in them. What is made of them is in
 * sockets.c. */
#include <errno.h>

#include "base/buffer.h"
#include "collect/registry.h"
#include "collect/sockets.h"

#define PROCESSES_A_ROUND 256 /* some 50 us each; of more, each has its turn */

struct reading {
	const struct collect_env *env;
	const struct collect_sink *sink;
	struct sockets *sockets;
	VEC(pid_t) pids;
	size_t next;
	bool failed; /* was told */
};

static int sockets_open(void **ret_state, const struct collect_env *env,
			const struct collect_sink *sink, struct err *e)
{
	if (!env->sockets)
		return -EOPNOTSUPP;
	struct reading *r = xcalloc(1, sizeof(*r));
	r->env = env;
	r->sink = sink;
	r->sockets = sockets_new(env->started);
	if (env->watch(env->kernel, REC_SOCKET, e))
		sink_note(sink, collector_sockets.name, e->msg);
	*ret_state = r;
	return 0;
}

static void sockets_add_pid(void *state, pid_t pid, bool is_new)
{
	struct reading *r = state;
	(void)is_new;
	*vec_push(&r->pids) = pid;
}

static void sockets_del_pid(void *state, pid_t pid)
{
	struct reading *r = state;
	for (size_t i = r->pids.len; i-- > 0;)
		if (r->pids.data[i] == pid)
			r->pids.data[i] = r->pids.data[--r->pids.len];
}

static void take(void *ctx, const struct rec_socket *row)
{
	struct reading *r = ctx;
	sockets_take(r->sockets, row);
}

static void sockets_take_record(void *state, const void *record)
{
	take(state, record);
}

static void read_process(struct reading *r, pid_t pid)
{
	struct err e = {0};
	int rc = r->env->sockets(r->env->kernel, pid, take, r, &e);
	sockets_taken(r->sockets, (uint32_t)pid);
	if (!rc || rc == -ESRCH || r->failed)
		return;
	r->failed = true;
	sink_note(r->sink, collector_sockets.name, e.msg);
}

static void sockets_read(void *state, uint64_t now_ns)
{
	struct reading *r = state;
	size_t n = r->pids.len < PROCESSES_A_ROUND ? r->pids.len : PROCESSES_A_ROUND;
	for (size_t i = 0; i < n; i++)
		read_process(r, r->pids.data[r->next++ % r->pids.len]);
	for (size_t i = 0; i < r->pids.len; i++)
		sockets_lives(r->sockets, (uint32_t)r->pids.data[i]);
	sockets_changed(r->sockets, r->sink);
	sockets_counters(r->sockets, now_ns, r->sink);
}

static void sockets_close(void *state)
{
	struct reading *r = state;
	sockets_free(r->sockets);
	vec_free(&r->pids);
	free(r);
}

const struct collector collector_sockets = {
	.name = "connections",
	.layers = LAYER_HAS_COLLECTIVES,
	.period_ns = 1000000000,
	.record = REC_SOCKET,
	.open = sockets_open,
	.add_pid = sockets_add_pid,
	.del_pid = sockets_del_pid,
	.take_record = sockets_take_record,
	.read = sockets_read,
	.close = sockets_close,
};
