/* gpu_calls.h - numbers of the CUDA driver's calls that start several things each, as the CUPTI
 * shim tells them: CUpti_driver_api_trace_cbid of cupti_driver_cbid.h, CUDA 13.0; append-only. */
#pragma once

enum {
	GPU_CALL_GRAPH_LAUNCH = 514,
	GPU_CALL_GRAPH_LAUNCH_PTSZ = 515,
	/* cuMemcpyBatchAsync, cuMemcpy3DBatchAsync; what was added after them does the like */
	GPU_CALL_BATCH_FIRST = 776,
	GPU_CALL_BATCH_LAST = 779,
};
