/* gpu_places.c - a list of GPUs by their place on the bus, under a lock. */
#include "collect/gpu_places.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/buffer.h"
#include "collect/nvml.h"

struct place {
	uint32_t index;
	unsigned domain, bus, device;
};

struct gpu_places {
	pthread_mutex_t lock;
	VEC(struct place) list; /* under lock */
	atomic_bool xid_by_kernel;
};

struct gpu_places *gpu_places_new(void)
{
	struct gpu_places *p = xcalloc(1, sizeof(*p));
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

void gpu_places_free(struct gpu_places *p)
{
	vec_free(&p->list);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static bool parse_bus(const char *text, struct place *ret)
{
	return sscanf(text, "%x:%x:%x", &ret->domain, &ret->bus, &ret->device) == 3;
}

void gpu_places_put(struct gpu_places *p, const struct gpu_info *info)
{
	struct place place = {.index = info->index};
	uint32_t known;
	if (!p || info->parent >= 0 || !parse_bus(info->bus_id, &place) ||
	    (gpu_places_find(p, info->bus_id, &known) && known == info->index))
		return;
	pthread_mutex_lock(&p->lock);
	*vec_push(&p->list) = place;
	pthread_mutex_unlock(&p->lock);
}

bool gpu_places_find(struct gpu_places *p, const char *bus, uint32_t *ret_index)
{
	struct place at;
	bool found = false;
	if (!p || !parse_bus(bus, &at))
		return false;
	pthread_mutex_lock(&p->lock);
	for (size_t i = p->list.len; i-- > 0 && !found;) { /* a GPU that came back: the last */
		const struct place *g = &p->list.data[i];
		found = g->domain == at.domain && g->bus == at.bus && g->device == at.device;
		if (found)
			*ret_index = g->index;
	}
	pthread_mutex_unlock(&p->lock);
	return found;
}

void gpu_places_set_xid_by_kernel(struct gpu_places *p)
{
	if (p)
		atomic_store(&p->xid_by_kernel, true);
}

bool gpu_places_xid_by_kernel(const struct gpu_places *p)
{
	return p && atomic_load(&p->xid_by_kernel);
}
