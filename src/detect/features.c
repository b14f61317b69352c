/* features.c - the list of features, and rows of them in order. */
#include "detect/features.h"

#include <stdlib.h>
#include <string.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Of calls: cuda and nccl have all, others the first OF_THE_HOST. windows.c computes them
 * in this order. */
#define OF_THE_HOST 9
static const struct feature of_calls[] = {
	{"slowdown", "ln ratio", "time in calls, over the usual time of calls of the same keys"},
	{"gap", "ln ratio", "time between calls, over the usual time before calls of these keys"},
	{"shift", "sigma", "mean z of the calls' durations"},
	{"gap_shift", "sigma", "mean z of the times between calls"},
	{"spread", "ln sigma", "how much the calls' z differ"},
	{"tail", "asin sqrt ratio", "share of calls that took longer than z = 4"},
	{"gap_tail", "asin sqrt ratio", "share of times between calls that were longer than z = 4"},
	{"errors", "asin sqrt ratio", "share of calls that failed"},
	{"pace_loss", "ln ratio",
	 "usual pace of the work that the process always does, over its pace"},
	{"device_slowdown", "ln ratio",
	 "time the GPU worked, over the usual time of work of its keys"},
	{"device_shift", "sigma", "mean z of the durations of the GPU's kernels and copies"},
	{"device_tail", "asin sqrt ratio", "share of these that took longer than z = 4"},
};

/* Of a GPU: its counters, each against its usual value while the job does what it does. Counters
 * that nobody else's work moves are mixed with those that only it moves, on purpose. */
static const struct feature of_hardware[] = {
	{"sm_ratio", "sigma", "time in which any kernel ran"},
	{"gpm_sm_ratio", "sigma", "multiprocessors that had work"},
	{"gpm_tensor_ratio", "sigma", "time in tensor instructions"},
	{"gpm_dram_ratio", "sigma", "share of the memory's bandwidth"},
	{"memory_used_bytes", "sigma", "memory allocated on the device"},
	{"other_memory_bytes", "sigma", "memory of processes that are not the job's"},
	{"other_sm_ratio", "sigma", "time of processes that are not the job's"},
	{"power_w", "sigma", "power"},
	{"temperature_celsius", "sigma", "temperature"},
	{"sm_clock_mhz", "sigma", "clock of the multiprocessors"},
	{"clocks_held", "sigma", "share of time in which the driver held the clocks down"},
	{"pcie_rx_bytes_per_s", "sigma", "bytes into the GPU"},
	{"pcie_tx_bytes_per_s", "sigma", "bytes out of the GPU"},
	{"nvlink_rx_bytes_per_s", "sigma", "bytes from other GPUs"},
	{"nvlink_tx_bytes_per_s", "sigma", "bytes to other GPUs"},
};

/* Of a process: what it used and what it waited for. */
static const struct feature of_host[] = {
	{"cpu_ratio", "sigma", "CPU time, cores"},
	{"preempted_ratio", "sigma", "time in which threads could have run and did not"},
	{"wait_disk_ratio", "sigma", "time in which threads waited for the disk"},
	{"wait_network_ratio", "sigma", "time in which threads waited for the network"},
	{"wait_gil_ratio", "sigma", "time in which threads waited for Python's lock"},
	{"wait_futex_ratio", "sigma", "time in which threads waited for locks"},
	{"wait_other_ratio", "sigma", "time in which threads waited for anything else"},
	{"rss_bytes", "sigma", "resident memory"},
	{"preemptions_per_s", "sigma", "involuntary context switches"},
	{"net_sent_bytes_per_s", "sigma", "bytes sent"},
	{"net_received_bytes_per_s", "sigma", "bytes received"},
	{"net_retransmits_per_s", "sigma", "segments that were sent again"},
	{"calls_per_s", "sigma", "traced calls that ended, while the process ran throughout"},
};

/* Of a step: its phases by what they add to it, so that a phase of no length cannot alarm. */
static const struct feature of_steps[] = {
	{"duration", "ln ratio", "the step's duration"},
	{"load", "ln ratio", "the step's duration, had only loading been unusual"},
	{"forward", "ln ratio", "likewise, the forward pass"},
	{"backward", "ln ratio", "likewise, the backward pass"},
	{"communication", "ln ratio", "likewise, collectives"},
	{"optimizer", "ln ratio", "likewise, the update"},
	{"checkpoint", "ln ratio", "likewise, copies to the host after the update"},
	{"launches", "ln ratio", "launches of kernels"},
	{"operations", "ln ratio", "outermost operations"},
};

_Static_assert(LEN(of_calls) <= FEATURES_MOST && LEN(of_hardware) <= FEATURES_MOST &&
		       LEN(of_host) <= FEATURES_MOST && LEN(of_steps) <= FEATURES_MOST,
	       "a row holds FEATURES_MOST");

const struct feature *features_of(enum detect_layer layer, uint32_t *ret_n)
{
	switch (layer) {
	case DETECT_HARDWARE:
		*ret_n = LEN(of_hardware);
		return of_hardware;
	case DETECT_HOST:
		*ret_n = LEN(of_host);
		return of_host;
	case DETECT_STEP:
		*ret_n = LEN(of_steps);
		return of_steps;
	default:
		*ret_n = detect_layer_traits(layer) & LAYER_NEEDS_GPU ? LEN(of_calls) : OF_THE_HOST;
		return of_calls;
	}
}

size_t feature_place(enum detect_layer layer, const char *name)
{
	uint32_t n;
	const struct feature *features = features_of(layer, &n);
	for (uint32_t f = 0; f < n; f++)
		if (!strcmp(features[f].name, name))
			return f;
	return FEATURES_MOST;
}

static int by_series(const void *a, const void *b)
{
	const struct feature_row *x = a, *y = b;
	if (x->gpu != y->gpu)
		return x->gpu < y->gpu ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

void feature_rows_sort(struct feature_row *rows, size_t n)
{
	qsort(rows, n, sizeof(*rows), by_series);
}

uint64_t feature_row_due(const struct feature_row *row, uint64_t window_ns)
{
	uint64_t over = row->end_ns % window_ns;
	return row->layer == DETECT_STEP && over ? row->end_ns + window_ns - over : row->end_ns;
}

/* Layers of calls come first, also those that only files name. */
static int judged_as(enum detect_layer layer)
{
	bool calls = layer < DETECT_HARDWARE || layer >= DETECT_NAMED;
	return (int)layer + (calls ? 0 : DETECT_LAYERS);
}

int feature_rows_due_compare(const struct feature_row *x, const struct feature_row *y,
			     uint64_t window_ns)
{
	uint64_t of_x = feature_row_due(x, window_ns), of_y = feature_row_due(y, window_ns);
	if (of_x != of_y)
		return of_x < of_y ? -1 : 1;
	int layer_of_x = judged_as(x->layer), layer_of_y = judged_as(y->layer);
	if (layer_of_x != layer_of_y)
		return layer_of_x < layer_of_y ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->gpu != y->gpu)
		return x->gpu < y->gpu ? -1 : 1;
	return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}
