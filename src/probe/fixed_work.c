/* fixed_work.c - reads how fast CPUs were while traced processes had them (bpf/fixed_work.h). */
#include "probe/tracer_impl.h"

/* A tick between the two calls is lost. */
static bool take(int fd, uint32_t pid, struct fixed_work *ret)
{
	return !bpf_map_lookup_elem(fd, &pid, ret) && !bpf_map_delete_elem(fd, &pid) && ret->n;
}

void tracer_fixed_work(struct tracer *t,
		       void (*visit)(void *ctx, pid_t pid, const struct fixed_work *w), void *ctx)
{
	int fd = bpf_map__fd(t->bpf->maps.fixed_works);
	uint32_t pid, next;
	struct fixed_work w;
	bool more = t->opts.sample_hz && !bpf_map_get_next_key(fd, NULL, &pid);
	for (; more; pid = next) {
		more = !bpf_map_get_next_key(fd, &pid, &next);
		if (take(fd, pid, &w))
			visit(ctx, (pid_t)pid, &w);
	}
}
