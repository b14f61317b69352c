/* driver_calls.c - which of the driver's calls hand work to a GPU.
 *
 * Numbers: CUpti_driver_api_trace_cbid of cupti_driver_cbid.h, CUDA 13.0; they are append-only.
 * A driver or CUPTI that does not know one of them refuses it, and the others go on. Variants
 * with _ptsz and _ptds are of programs built for per-thread default streams. */
#include "driver_calls.h"

#include "wire/gpu_calls.h"

/* Ranges, both ends included. */
static const struct {
	uint16_t first, last;
} starters[] = {
	{276, 283}, /* cuMemcpyHtoD_v2 to cuMemcpyAtoHAsync_v2 */
	{287, 293}, /* cuMemcpy2D_v2 to cuMemcpyHtoAAsync_v2 */
	{249, 254}, /* cuMemsetD8_v2 to cuMemsetD2D32_v2 */
	{216, 216}, /* cuMemsetD8Async, then each second number up to D2D32 */
	{218, 218},
	{220, 220},
	{222, 222},
	{224, 224},
	{226, 226},
	{305, 307}, /* cuMemcpy, cuMemcpyAsync, cuLaunchKernel */
	{318, 321}, /* cuMemcpyPeer to cuMemcpy3DPeerAsync */
	{397, 416}, /* cuMemcpyHtoD_v2_ptds to cuMemsetD2D32_v2_ptds */
	{418, 433}, /* cuMemcpyAsync_ptsz to cuMemsetD2D32Async_ptsz */
	{442, 442}, /* cuLaunchKernel_ptsz */
	{467, 468}, /* cuMemPrefetchAsync */
	{477, 478}, /* cuLaunchCooperativeKernel */
	{480, 480}, /* cuLaunchCooperativeKernelMultiDevice */
	{GPU_CALL_GRAPH_LAUNCH, GPU_CALL_GRAPH_LAUNCH_PTSZ},
	{652, 653}, /* cuLaunchKernelEx */
	{716, 717}, /* cuMemPrefetchAsync_v2 */
	{GPU_CALL_BATCH_FIRST, GPU_CALL_BATCH_LAST},
	{796, 799}, /* cuMemcpyBatchAsync_v2, cuMemcpy3DBatchAsync_v2 */
};
#define STARTERS (sizeof(starters) / sizeof(starters[0]))

/* cuGraphInstantiate, _v2, cuGraphUpload, _ptsz, cuGraphInstantiateWithFlags, WithParams, _ptsz */
static const uint16_t graph_makers[] = {513, 578, 580, 581, 643, 656, 657};
#define GRAPH_MAKERS (sizeof(graph_makers) / sizeof(graph_makers[0]))

/* cuLaunchKernel, cuLaunchCooperativeKernel, cuLaunchKernelEx, each with _ptsz */
const uint16_t driver_launches[DRIVER_LAUNCHES] = {307, 442, 477, 478, 652, 653};

static bool set_all(const struct cupti *c, uint8_t on)
{
	bool any = false;
	for (size_t i = 0; i < STARTERS; i++)
		for (uint32_t id = starters[i].first; id <= starters[i].last; id++)
			any |= c->ActivityEnableDriverApi(id, on) == CUPTI_SUCCESS;
	for (size_t i = 0; i < GRAPH_MAKERS; i++)
		c->ActivityEnableDriverApi(graph_makers[i], on);
	return any;
}

bool driver_calls_makes_graph(uint32_t function)
{
	for (size_t i = 0; i < GRAPH_MAKERS; i++)
		if (graph_makers[i] == function)
			return true;
	return false;
}

bool driver_calls_starts_graph(uint32_t function)
{
	return function == GPU_CALL_GRAPH_LAUNCH || function == GPU_CALL_GRAPH_LAUNCH_PTSZ;
}

/* Without numbers of threads that are the kernel's a call belongs nowhere. */
bool driver_calls_enable(const struct cupti *c)
{
	return c->ActivityEnableDriverApi && c->SetThreadIdType &&
	       c->SetThreadIdType(CUPTI_THREAD_ID_SYSTEM) == CUPTI_SUCCESS && set_all(c, 1);
}

void driver_calls_leave_launches(const struct cupti *c)
{
	for (size_t i = 0; c->ActivityEnableDriverApi && i < DRIVER_LAUNCHES; i++)
		c->ActivityEnableDriverApi(driver_launches[i], 0);
}

void driver_calls_disable(const struct cupti *c)
{
	if (c->ActivityEnableDriverApi)
		set_all(c, 0);
	if (c->SetThreadIdType)
		c->SetThreadIdType(CUPTI_THREAD_ID_DEFAULT);
}

bool driver_calls_read(const void *record, struct gpu_ring_call *ret)
{
	const struct cupti_call *in = record;
	if (in->kind != CUPTI_KIND_DRIVER)
		return false;
	*ret = (struct gpu_ring_call){.start_ns = in->start,
				      .end_ns = in->end,
				      .tid = in->thread,
				      .correlation = in->correlation,
				      .function = in->function,
				      .result = in->result};
	return true;
}
