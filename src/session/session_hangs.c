/* session_hangs.c - tells which ranks do not enter a collective that others
 * wait in. What is entered comes with the records; calls that block in NCCL have none yet, so
 * while a communicator is quiet they are looked for among the open calls. */
#include <string.h>

#include "session/session_impl.h"

static void tell(void *ctx, const char *sentence)
{
	session_say(ctx, "%s", sentence);
}

/* Sequence numbers come with every call, so ranks can be compared only where every call is
 * recorded. */
void hang_watch_start(struct session *s)
{
	const struct session_options *o = s->opts;
	s->hangs.on = session_records_calls(o, LAYER_HAS_COLLECTIVES) && !o->burst_on_ns;
	if (s->hangs.on)
		pipeline_watch_hangs(s->pipeline, tell, s);
}

void hang_watch_probe(struct session *s, const struct probe_info *info)
{
	const char *role = info->entry->role;
	if (!role || strcmp(role, "collective"))
		return;
	while (s->hangs.collectives.len <= info->id)
		vec_push(&s->hangs.collectives);
	s->hangs.collectives.data[info->id] = true;
}

static void take_open(void *ctx, const struct rec_call *c)
{
	struct session *s = ctx;
	if (c->probe < s->hangs.collectives.len && s->hangs.collectives.data[c->probe])
		pipeline_open_collective(s->pipeline, c);
}

void hang_watch_tick(struct session *s)
{
	struct err e; /* asked again a second later */
	if (s->hangs.on && s->hangs.collectives.len && pipeline_asks_open_collectives(s->pipeline))
		tracer_open_calls(s->tracer, take_open, s, &e);
}

void hang_watch_free(struct session *s)
{
	vec_free(&s->hangs.collectives);
}
