/* gpu_places.h - what collectors of GPUs tell each other: where each GPU is on the PCI bus, and
 * whether the kernel tells of Xid errors. From any thread; a NULL one knows nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct gpu_info;
struct gpu_places;

struct gpu_places *gpu_places_new(void);
void gpu_places_free(struct gpu_places *p);

void gpu_places_put(struct gpu_places *p, const struct gpu_info *info);
/* The index of the GPU at an address as "0000:00:06"; false: none was put there. */
bool gpu_places_find(struct gpu_places *p, const char *bus, uint32_t *ret_index);

void gpu_places_set_xid_by_kernel(struct gpu_places *p);
bool gpu_places_xid_by_kernel(const struct gpu_places *p);
