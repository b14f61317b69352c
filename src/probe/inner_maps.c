/* inner_maps.c - all at once: at each change the kernel waits for a grace period of RCU, so that no
 * program uses a map that was taken out. */
#include "probe/inner_maps.h"

#include <bpf/bpf.h>

#include "base/buffer.h"

int inner_maps_install(int array, uint32_t first, const int *fds, uint32_t n)
{
	VEC(uint32_t) keys = {0};
	uint32_t done = n;
	for (uint32_t i = 0; i < n; i++)
		*vec_push(&keys) = first + i;
	int rc = bpf_map_update_batch(array, keys.data, fds, &done, NULL);
	if (rc) { /* no such call before Linux 5.14 */
		rc = 0;
		for (uint32_t i = 0; !rc && i < n; i++)
			rc = bpf_map_update_elem(array, &keys.data[i], &fds[i], BPF_ANY);
	}
	vec_free(&keys);
	return rc;
}
