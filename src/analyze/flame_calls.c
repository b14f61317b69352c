/* flame_calls.c - reads all calls as the flame graph's options ask. */
#include "analyze/flame_impl.h"

void *flame_calls(struct flame_job *job, size_t state_bytes, flame_take *take, void *ctx,
		  size_t *ret_workers)
{
	struct call_blocks_options o = {.workers = job->o->workers,
					.progress = job->o->progress,
					.progress_ctx = job->o->progress_ctx};
	return call_blocks_read(job->reader, &o, state_bytes, take, ctx, ret_workers);
}
