/* fake_cupti.h - how a test drives the fake CUPTI: its functions beside the real ones. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fake_work {
	uint32_t kind; /* CUpti_ActivityKind */
	const char *name;
	uint64_t start_ns, end_ns; /* of fake_cupti_clock */
	uint64_t bytes;
	uint64_t graph_node;
	uint32_t device, context, stream, correlation;
	uint8_t copy_kind;
};

/* The GPU did something. 0 when nobody asked for records of the kind. */
typedef int fake_cupti_did_fn(const struct fake_work *work);
struct fake_call {
	uint32_t function; /* CUpti_driver_api_trace_cbid */
	uint32_t correlation;
	uint64_t start_ns, end_ns; /* of fake_cupti_clock */
};

/* This thread called the driver. 0 when nobody asked for records of the function. */
typedef int fake_cupti_called_fn(const struct fake_call *call);
/* This thread is at the entry (0) or the exit (1) of a call of the driver. */
typedef void fake_cupti_entered_fn(uint32_t site);
/* This thread is at the entry (0) or the exit (1) of a launch, whose arguments are as in
 * generated_cuda_meta.h. own: of the caller, the same at both. */
typedef void fake_cupti_at_launch_fn(uint32_t site, uint32_t function, const void *arguments,
				     uint32_t correlation, uint64_t *own, const int *result);
/* CUPTI lost records. */
typedef void fake_cupti_drop_fn(uint64_t records);
/* Whether a client has it make records, from its first request to cuptiFinalize. */
typedef bool fake_cupti_is_in_fn(void);
/* The clock of the records: the one that was registered, else CLOCK_REALTIME. */
typedef uint64_t fake_cupti_clock_fn(void);
