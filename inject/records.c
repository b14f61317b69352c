/* records.c - puts the fields of each kind of record where the ring has them. Judges nothing: times
 * of 0 are the caller's. */
#include "records.h"

#include <stddef.h>

bool records_read(const void *record, struct gpu_ring_span *ret, const char **name)
{
	const struct cupti_kernel *k = record;
	const struct cupti_copy *c = record;
	const struct cupti_peer_copy *p = record;
	const struct cupti_set *s = record;
	const struct cupti_sync *y = record;
	const struct cupti_graph *g = record;
#define COMMON(r)                                                                                  \
	.start_ns = (r)->start, .end_ns = (r)->end, .device = (r)->device,                         \
	.context = (r)->context, .stream = (r)->stream, .correlation = (r)->correlation,           \
	.graph_node = (r)->graph_node, .graph = (r)->graph
#define COPY(r)                                                                                    \
	COMMON(r), .work = GPU_RING_COPY, .copy_kind = (r)->copy_kind, .bytes = (r)->bytes,        \
		   .source_kind = (r)->source_kind, .destination_kind = (r)->destination_kind,     \
		   .async = (r)->flags & CUPTI_COPY_ASYNC
	*name = NULL;
	switch (((const struct cupti_record *)record)->kind) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		*ret = (struct gpu_ring_span){
			COMMON(k),
			.work = GPU_RING_KERNEL,
			.grid = {(uint32_t)k->grid[0], (uint32_t)k->grid[1], (uint32_t)k->grid[2]},
			.block = {(uint32_t)k->block[0], (uint32_t)k->block[1],
				  (uint32_t)k->block[2]},
			.shared_bytes = (uint32_t)k->static_shared + (uint32_t)k->dynamic_shared,
			.registers = k->registers,
		};
		*name = k->name;
		return true;
	case CUPTI_KIND_MEMCPY:
		*ret = (struct gpu_ring_span){COPY(c)};
		return true;
	case CUPTI_KIND_MEMCPY2:
		*ret = (struct gpu_ring_span){COPY(p)};
		return true;
	case CUPTI_KIND_MEMSET:
		*ret = (struct gpu_ring_span){COMMON(s), .work = GPU_RING_SET, .bytes = s->bytes};
		return true;
	case CUPTI_KIND_SYNCHRONIZATION:
		*ret = (struct gpu_ring_span){.start_ns = y->start,
					      .end_ns = y->end,
					      .context = y->context,
					      .stream = y->stream,
					      .correlation = y->correlation,
					      .work = GPU_RING_SYNC,
					      .copy_kind = (uint8_t)y->type};
		return true;
	case CUPTI_KIND_GRAPH_TRACE:
		*ret = (struct gpu_ring_span){.start_ns = g->start,
					      .end_ns = g->end,
					      .device = g->device,
					      .context = g->context,
					      .stream = g->stream,
					      .correlation = g->correlation,
					      .graph = g->graph,
					      .work = GPU_RING_GRAPH};
		return true;
	default:
		return false;
	}
#undef COMMON
#undef COPY
}
