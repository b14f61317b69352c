/* catch.c - the user's side of bpf/catch.h. */
#include "probe/catch.h"

#include <errno.h>

#include "probe/tracer_impl.h"

#define MOST_PLACES 8 /* of attach_hooks */

struct catch
{
	struct tracer *tracer;
	struct attach_links links;
};

int catch_open(struct catch **ret, struct tracer *t, const char *path, const uint64_t *offsets,
	       size_t n, struct err *e)
{
	struct hook_site sites[MOST_PLACES] = {0};
	struct catch *c = xcalloc(1, sizeof(*c));
	c->tracer = t;
	for (size_t i = 0; i < n && i < MOST_PLACES; i++)
		sites[i].offset = offsets[i];
	int rc = t->can_hold ? 0
			     : err_set(e, ENOTSUP,
				       "this kernel (before 6.0?) has no sleepable uprobes");
	if (!rc)
		rc = attach_hooks(&c->links, t->method,
				  bpf_program__fd(t->bpf->progs.driver_entered), path, sites,
				  n < MOST_PLACES ? n : MOST_PLACES, e);
	if (rc) {
		catch_close(c);
		return rc;
	}
	*ret = c;
	return 0;
}

void catch_arm(struct catch *c, pid_t pid)
{
	struct eacgm_bpf__bss *b = c->tracer->bpf->bss;
	__atomic_store_n(&b->caught_ns, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&b->caught_tid, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&b->catch_tgid, (uint32_t)pid, __ATOMIC_SEQ_CST);
}

pid_t catch_poll(const struct catch *c, uint64_t *ret_since_ns)
{
	struct eacgm_bpf__bss *b = c->tracer->bpf->bss;
	*ret_since_ns = __atomic_load_n(&b->caught_ns, __ATOMIC_SEQ_CST);
	return *ret_since_ns ? (pid_t)__atomic_load_n(&b->caught_tid, __ATOMIC_SEQ_CST) : 0;
}

void catch_let_go(struct catch *c)
{
	__atomic_store_n(&c->tracer->bpf->bss->catch_tgid, 0, __ATOMIC_SEQ_CST);
}

void catch_close(struct catch *c)
{
	catch_let_go(c);
	attach_detach(&c->links);
	free(c);
}
