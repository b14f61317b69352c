/* graphs.c - graphs that are captured on two streams, made of nodes, nested, updated, and
 * launched: graphs N. Prints "graphs LAUNCHES", "captured LAUNCHES", "direct LAUNCHES",
 * "graph_kernels RUNS", each a line of two words, of what is true of the program. */
#include "gpu.h"

static CUstream first, second;
static CUfunction kernels[KERNELS];
static unsigned captured, direct, graph_launches;
static uint64_t graph_kernels;

static void launch(unsigned kernel, CUstream stream, unsigned *count)
{
	MUST(cuLaunchKernel(kernels[kernel], 8, 1, 1, 64, 1, 1, 0, stream, NULL, NULL));
	++*count;
}

/* Three kernels on the one stream, two on the other, a copy and a fill: 5 kernels. */
static CUgraph capture(void)
{
	static char host[64];
	CUevent fork, join;
	CUgraph graph;
	CUdeviceptr p;
	MUST(cuMemAlloc_v2(&p, 4096));
	MUST(cuEventCreate(&fork, 0));
	MUST(cuEventCreate(&join, 0));
	MUST(cuStreamBeginCapture_v2(first, 0));
	launch(0, first, &captured);
	MUST(cuEventRecord(fork, first));
	MUST(cuStreamWaitEvent(second, fork, 0));
	launch(1, second, &captured);
	launch(2, first, &captured);
	launch(1, second, &captured);
	MUST(cuMemcpyHtoDAsync_v2(p, host, 64, second));
	MUST(cuMemsetD8Async(p, 0, 32, first));
	MUST(cuEventRecord(join, second));
	MUST(cuStreamWaitEvent(first, join, 0));
	launch(2, first, &captured);
	MUST(cuStreamEndCapture(first, &graph));
	launch(3, second, &direct); /* after the capture */
	launch(3, first, &direct);
	return graph;
}

/* Two kernels, a copy, a fill, and a graph in it. */
static CUgraph by_hand(CUgraph child)
{
	CUgraph graph;
	CUgraphNode node;
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
	CUDA_MEMCPY3D copy = {.width = 1};
	MUST(cuGraphCreate(&graph, 0));
	MUST(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params));
	MUST(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params));
	MUST(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, NULL));
	MUST(cuGraphAddMemsetNode(&node, graph, NULL, 0, &copy, NULL));
	params.type = CU_GRAPH_NODE_TYPE_MEMSET;
	MUST(cuGraphAddNode(&node, graph, NULL, 0, &params));
	if (child)
		MUST(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
	return graph;
}

static void replay(CUgraph graph, unsigned times, unsigned kernels_in_it)
{
	CUgraphExec exec;
	MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
	MUST(cuGraphUpload(exec, first));
	for (unsigned i = 0; i < times; i++)
		MUST(cuGraphLaunch(exec, i % 2 ? first : second));
	MUST(cuGraphExecDestroy(exec));
	graph_launches += times;
	graph_kernels += (uint64_t)times * kernels_in_it;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	CUmodule module;
	CUgraph clone;
	MUST(cuInit(0));
	MUST(cuModuleLoadData(&module, "image"));
	for (unsigned i = 0; i < KERNELS; i++)
		MUST(cuModuleGetFunction(&kernels[i], module, kernel_name(i)));
	MUST(cuStreamCreate(&first, 0));
	MUST(cuStreamCreate(&second, 0));
	launch(4, first, &direct);
	CUgraph graph = capture();
	replay(graph, n, 5);
	replay(by_hand(NULL), n + 1, 2);
	replay(by_hand(graph), n + 2, 7);
	MUST(cuGraphClone(&clone, graph));
	replay(clone, n + 3, 5);
	replay(capture(), 1, 5); /* the same streams again */
	if (fake_kernels_run() != direct + graph_kernels)
		return 98;
	printf("captured %u\ndirect %u\ngraphs %u\ngraph_kernels %lu\n", captured, direct,
	       graph_launches, (unsigned long)graph_kernels);
	return 0;
}
