/* holds.c - what user space owes the tasks that bpf/hold.h holds: a sign that it runs, answers, and
 * more time for those that it works on.
 *
 * The sign comes from a thread that does nothing else: it stops when the program is stopped, and
 * only then. Nobody is held while it is missing. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/nap.h"
#include "base/thread.h"
#include "parser/parser.h"
#include "probe/tracer_impl.h"

/* What a process is held while a file that it brought is looked into. On a host that has just
 * started PyTorch's come from the disk, which takes more than two seconds. Nobody waits for a job
 * in its first minutes, which would pass with the disk as well; for one that runs others may wait.
 */
#define GRANTED_NS	    2000000000ULL
#define GRANTED_STARTING_NS 10000000000ULL
#define STARTING_NS	    120000000000ULL

#define BEAT_NS 100000000 /* HEARTBEAT_MOST_NS of bpf/hold.h has room for a host that stutters */

struct heart {
	pthread_t thread;
	atomic_bool stop;
	struct nap pause;
	uint64_t *beat_ns;
};

static void *beat(void *arg)
{
	struct heart *h = arg;
	while (!atomic_load(&h->stop)) {
		__atomic_store_n(h->beat_ns, monotonic_ns(), __ATOMIC_SEQ_CST);
		nap_for(&h->pause, BEAT_NS);
	}
	return NULL;
}

int heart_start(struct tracer *t, struct err *e)
{
	struct heart *h = xcalloc(1, sizeof(*h));
	struct sched_param first = {.sched_priority = 2}; /* before guards, of others too */
	h->beat_ns = (uint64_t *)&t->bpf->bss->heartbeat_ns;
	nap_init(&h->pause);
	int rc = thread_start(&h->thread, beat, h, "eacgm-heart");
	if (rc) {
		nap_free(&h->pause);
		free(h);
		return err_set(e, -rc, "cannot start a thread: %s", strerror(-rc));
	}
	/* on a busy host it would be late; where that is not allowed, some are not held */
	pthread_setschedparam(h->thread, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
	t->heart = h;
	return 0;
}

void heart_stop(struct tracer *t)
{
	if (!t->heart)
		return;
	atomic_store(&t->heart->stop, true);
	nap_end(&t->heart->pause);
	pthread_join(t->heart->thread, NULL);
	nap_free(&t->heart->pause);
	free(t->heart);
	t->heart = NULL;
}

static void answer(uint64_t *slots, size_t n, uint64_t sequence)
{
	__atomic_store_n(&slots[sequence & (n - 1)], sequence, __ATOMIC_SEQ_CST);
}

void tracer_answer_maps(struct tracer *t, uint64_t sequence)
{
	struct eacgm_bpf__bss *b = t->bpf->bss;
	answer((uint64_t *)b->answered_maps, sizeof(b->answered_maps) / 8, sequence);
}

void tracer_refuse_maps(struct tracer *t, uint64_t sequence)
{
	struct eacgm_bpf__bss *b = t->bpf->bss;
	size_t slots = sizeof(b->granted_ns) / 8;
	__atomic_store_n((uint64_t *)&b->granted_ns[sequence & (slots - 1)], HOLD_REFUSED,
			 __ATOMIC_SEQ_CST);
	tracer_answer_maps(t, sequence);
}

void tracer_answer_unwind(struct tracer *t, uint64_t sequence)
{
	struct eacgm_bpf__bss *b = t->bpf->bss;
	answer((uint64_t *)b->answered_unwind, sizeof(b->answered_unwind) / 8, sequence);
}

uint64_t holds_granted_ns(const struct tracer *t)
{
	uint64_t patience = t->opts.patience ? t->opts.patience : 1;
	bool starts = t->opts.starts_targets && monotonic_ns() - t->opened_ns < STARTING_NS;
	return starts ? GRANTED_STARTING_NS : GRANTED_NS * patience;
}

void tracer_grant(struct tracer *t, uint64_t sequence, uint64_t ns)
{
	struct eacgm_bpf__bss *b = t->bpf->bss;
	size_t slots = sizeof(b->granted_ns) / 8;
	__atomic_store_n((uint64_t *)&b->granted_ns[sequence & (slots - 1)], monotonic_ns() + ns,
			 __ATOMIC_SEQ_CST);
}

uint64_t tracer_helpers_cpu_ns(const struct tracer *t)
{
	uint64_t guard_ns = t->guard_pid > 0 ? process_cpu_ns(t->guard_pid) : t->guard_cpu_ns;
	return guard_ns + parser_cpu_ns(t->parser_host);
}

void tracer_holds(const struct tracer *t, struct tracer_holds *ret)
{
	const struct eacgm_bpf__bss *b = t->bpf->bss;
	ret->count = __atomic_load_n(&b->holds, __ATOMIC_SEQ_CST);
	ret->held_ns = __atomic_load_n(&b->held_ns, __ATOMIC_SEQ_CST);
	ret->cpu_ns = __atomic_load_n(&b->held_cpu_ns, __ATOMIC_SEQ_CST);
}
