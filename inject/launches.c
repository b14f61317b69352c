/* launches.c - reads the arguments of the driver's launches: those of cuLaunchKernel,
 * cuLaunchCooperativeKernel and cuLaunchKernelEx, whose structs begin as in
 * generated_cuda_meta.h of CUDA 13.0 (and of 11 and 12), CUlaunchConfig as in cuda.h. */
#include "launches.h"

#include <stddef.h>
#include <string.h>

#include "driver_calls.h"
#include "ticks.h"

/* CUlaunchConfig */
struct launch_config {
	uint32_t grid[3], block[3];
	uint32_t shared_bytes;
	void *stream;
};
_Static_assert(offsetof(struct launch_config, stream) == 32, "CUlaunchConfig");

/* cuLaunchKernel_params; cuLaunchCooperativeKernel_params begins likewise */
struct launch_arguments {
	void *kernel;
	uint32_t grid[3], block[3];
	uint32_t shared_bytes;
	void *stream;
};
_Static_assert(offsetof(struct launch_arguments, stream) == 40, "cuLaunchKernel_params");

/* cuLaunchKernelEx_params */
struct launch_ex_arguments {
	const struct launch_config *config;
	void *kernel;
};

#define LONGEST_TICKS (1ULL << 37) /* half a minute and more */

enum { LAUNCH_EX = 652, LAUNCH_EX_PTSZ = 653 };

static struct {
	void *subscriber;
	bool subscribed;
	void (*take)(struct launch *launch);
} launches;

static void fill(struct launch *l, const uint32_t *grid, const uint32_t *block,
		 uint32_t shared_bytes, const void *stream, const void *kernel)
{
	memcpy(l->grid, grid, sizeof(l->grid));
	memcpy(l->block, block, sizeof(l->block));
	l->shared_bytes = shared_bytes;
	l->stream = (uint64_t)(uintptr_t)stream;
	l->kernel = (uint64_t)(uintptr_t)kernel;
}

static void read_arguments(struct launch *l, const void *arguments)
{
	const struct launch_arguments *a = arguments;
	const struct launch_ex_arguments *ex = arguments;
	if (l->function != LAUNCH_EX && l->function != LAUNCH_EX_PTSZ)
		fill(l, a->grid, a->block, a->shared_bytes, a->stream, a->kernel);
	else if (ex->config)
		fill(l, ex->config->grid, ex->config->block, ex->config->shared_bytes,
		     ex->config->stream, ex->kernel);
}

static void on_call(void *user, uint32_t domain, uint32_t function,
		    const struct cupti_callback *data)
{
	(void)user;
	(void)domain;
	if (data->site == CUPTI_SITE_ENTRY) {
		*data->own = ticks_now();
		return;
	}
	struct launch l = {.start = *data->own,
			   .end = ticks_now(),
			   .correlation = data->correlation,
			   .function = (uint16_t)function};
	if (data->result)
		memcpy(&l.result, data->result, sizeof(l.result));
	read_arguments(&l, data->arguments);
	/* else it began before we came, and left us nothing, or anything */
	if (l.start && l.start <= l.end && l.end - l.start < LONGEST_TICKS)
		launches.take(&l);
}

void launches_subscribe(const struct cupti *c)
{
	launches.subscribed = c->Subscribe && c->Unsubscribe && c->EnableCallback &&
			      c->Subscribe(&launches.subscriber, on_call, NULL) == CUPTI_SUCCESS;
}

bool launches_start(const struct cupti *c, void (*take)(struct launch *launch))
{
	launches.take = take;
	if (!launches.subscribed)
		launches_subscribe(c);
	for (size_t i = 0; launches.subscribed && i < DRIVER_LAUNCHES; i++)
		c->EnableCallback(1, launches.subscriber, CUPTI_DOMAIN_DRIVER, driver_launches[i]);
	return launches.subscribed;
}

void launches_stop(const struct cupti *c)
{
	if (launches.subscribed)
		c->Unsubscribe(launches.subscriber);
	launches.subscribed = false;
}
