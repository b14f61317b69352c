/* watch.c - hands collectives to hangs.c as they are recorded, and what it finds to the
 * recording and to the session. */
#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "pipeline/hangs.h"
#include "pipeline/pipeline_impl.h"

#define CHECK_NS 250000000ULL

struct watch {
	struct hangs *hangs;
	void (*tell)(void *ctx, const char *sentence);
	void *ctx;
	uint64_t checked_ns;
	atomic_bool asks;
};

static void on_hang(void *ctx, const struct hang *hang)
{
	static const char *const names[] = {"collective_hang", "collective_resumed",
					    "collective_mismatch"};
	struct pipeline *p = ctx;
	for (unsigned i = 0; i < hang->nranks; i++) {
		struct m_event row = {.time_ns = hang->time_ns,
				      .entity = pipeline_kept_string(p, hang->ranks[i]),
				      .name = pipeline_kept_string(p, names[hang->kind]),
				      .text = pipeline_kept_string(p, hang->sentence)};
		emit_event(p, &row);
	}
	p->watch->tell(p->watch->ctx, hang->sentence);
}

void pipeline_watch_hangs(struct pipeline *p, void (*tell)(void *ctx, const char *sentence),
			  void *ctx)
{
	p->watch = xcalloc(1, sizeof(*p->watch));
	p->watch->hangs = hangs_new(on_hang, p);
	p->watch->tell = tell;
	p->watch->ctx = ctx;
}

void watch_free(struct pipeline *p)
{
	if (p->watch)
		hangs_free(p->watch->hangs);
	free(p->watch);
}

void watch_comm(struct pipeline *p, const struct m_comm *comm)
{
	if (!p->watch)
		return;
	if (comm->end_ns)
		hangs_destroyed(p->watch->hangs, comm);
	else
		hangs_member(p->watch->hangs, comm);
	/* calls may be read after the end of their process was told */
	if (pipeline_process_of(p, comm->pid)->row.end_ns)
		hangs_ended(p->watch->hangs, comm->pid);
}

void watch_process_ended(struct pipeline *p, uint32_t tgid)
{
	if (p->watch)
		hangs_ended(p->watch->hangs, tgid);
}

void watch_collective(struct pipeline *p, const struct known_probe *probe,
		      const struct rec_call *in, uint64_t bytes, const struct m_comm *comm)
{
	if (!p->watch || probe->sequence_arg < 0 || probe->sequence_arg >= in->nargs ||
	    in->flags & CALL_ERROR)
		return;
	hangs_entered(p->watch->hangs, comm,
		      &(struct hang_call){
			      .function = rec_string_get(p->writer, probe->name),
			      .sequence = in->args[probe->sequence_arg],
			      .bytes = bytes,
			      .time_ns = in->start_ns,
		      });
}

void watch_check(struct pipeline *p)
{
	uint64_t now_ns;
	if (!p->watch || (now_ns = monotonic_ns()) - p->watch->checked_ns < CHECK_NS)
		return;
	p->watch->checked_ns = now_ns;
	hangs_check(p->watch->hangs, now_ns);
	atomic_store(&p->watch->asks, hangs_asks(p->watch->hangs));
}

bool pipeline_asks_open_collectives(const struct pipeline *p)
{
	return p->watch && atomic_load(&p->watch->asks);
}
