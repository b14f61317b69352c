/* fixed_work.c - reads how fast CPUs were while traced processes had them (bpf/fixed_work.h). */
#include "base/clock.h"
#include "probe/tracer_impl.h"

#define TICKS_LEAST 5		  /* fewer tell nothing: they wait for more */
#define WAITED_NS   2000000000ULL /* so long */

/* A tick between the two calls is lost. */
static bool take(int fd, uint32_t pid, uint64_t now_ns, struct fixed_work *ret)
{
	if (bpf_map_lookup_elem(fd, &pid, ret) ||
	    (ret->n < TICKS_LEAST && now_ns < ret->since_ns + WAITED_NS))
		return false;
	return !bpf_map_delete_elem(fd, &pid) && ret->n >= TICKS_LEAST;
}

void tracer_fixed_work(struct tracer *t,
		       void (*visit)(void *ctx, pid_t pid, const struct fixed_work *w), void *ctx)
{
	int fd = bpf_map__fd(t->bpf->maps.fixed_works);
	uint64_t now_ns = monotonic_ns();
	uint32_t pid, next;
	struct fixed_work w;
	bool more = t->opts.sample_hz && !bpf_map_get_next_key(fd, NULL, &pid);
	for (; more; pid = next) {
		more = !bpf_map_get_next_key(fd, &pid, &next);
		if (take(fd, pid, now_ns, &w))
			visit(ctx, (pid_t)pid, &w);
	}
}
