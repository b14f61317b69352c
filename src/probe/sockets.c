/* sockets.c - TCP connections of targets: asks the kernel for those of a process, and attaches
 * the program that tells of opening and closing. What they mean is src/collect's. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "probe/tracer_impl.h"

void sockets_choose(struct tracer *t)
{
	bpf_program__set_autoload(t->bpf->progs.connections, t->opts.sockets);
	bpf_program__set_autoload(t->bpf->progs.on_socket_state, t->opts.sockets);
}

int tracer_watch_sockets(struct tracer *t, struct err *e)
{
	if (!t->opts.sockets)
		return 0;
	t->socket_link = bpf_program__attach(t->bpf->progs.on_socket_state);
	if (!t->socket_link)
		return err_set(e, errno, "what connections move last is not known: %s",
			       strerror(errno));
	return 0;
}

void sockets_unwatch(struct tracer *t)
{
	bpf_link__destroy(t->socket_link);
	t->socket_link = NULL;
}

struct socket_visit {
	void (*visit)(void *ctx, const struct rec_socket *s);
	void *ctx;
};

static void visit_socket(void *ctx, const void *row)
{
	struct socket_visit *v = ctx;
	struct rec_socket s;
	memcpy(&s, row, sizeof(s));
	v->visit(v->ctx, &s);
}

int tracer_sockets(struct tracer *t, pid_t pid,
		   void (*visit)(void *ctx, const struct rec_socket *s), void *ctx, struct err *e)
{
	struct socket_visit v = {visit, ctx};
	union bpf_iter_link_info info = {.task.pid = (uint32_t)pid};
	DECLARE_LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &info,
			    .link_info_len = sizeof(info));
	if (!t->opts.sockets)
		return 0;
	return drain_iterator(t->bpf->progs.connections, &opts, sizeof(struct rec_socket),
			      visit_socket, &v, e);
}
