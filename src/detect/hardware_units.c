/* hardware_units.c - the GPUs and processes that counters are of, by the metrics of
 * counters, and the windows of each that are open. */
#include <stdlib.h>
#include <string.h>

#include "base/entity.h"
#include "detect/hardware_impl.h"

#define UNITS_MOST   8192
#define METRICS_MOST (1u << 18) /* that were looked at */
#define OPEN_MOST    (1u << 17)
#define GPU_UNIT     (1ULL << 63)

/* ---- units ---- */

void hardware_forget_units(struct hardware *h)
{
	for (size_t i = 0; i < h->units.len; i++)
		vec_free(&h->units.data[i].open);
	vec_free(&h->units);
	map64_free(&h->unit_of);
	map64_free(&h->unit_of_metric);
	h->any_gone = h->any_own = h->cuda_traced = false;
	h->counters = 0;
	h->cuda_events = 0;
}

static void drop_unit(struct hardware *h, size_t i)
{
	map64_del(&h->unit_of, h->units.data[i].id);
	if (h->units.data[i].gpu_id) /* the name that said so must say it again of the next */
		map64_free(&h->unit_of_metric);
	vec_free(&h->units.data[i].open);
	h->units.data[i] = h->units.data[--h->units.len];
	if (i < h->units.len)
		map64_set(&h->unit_of, h->units.data[i].id, i);
}

void hardware_drop_gone(struct hardware *h)
{
	if (!h->any_gone)
		return;
	h->any_gone = false;
	for (size_t i = h->units.len; i-- > 0;) {
		struct unit *u = &h->units.data[i];
		if (u->gone && !unit_first(u))
			drop_unit(h, i);
		else
			h->any_gone |= u->gone;
	}
}

void hardware_process_gone(struct hardware *h, uint32_t pid)
{
	uint64_t i;
	if (!map64_get(&h->unit_of, pid, &i))
		return;
	h->units.data[i].gone = h->any_gone = true;
	hardware_drop_gone(h);
}

/* Processes whose end was not told and that have nothing open go first; all, where these are
 * few. */
static void make_room(struct hardware *h)
{
	for (size_t i = h->units.len; i-- > 0;)
		if (h->units.data[i].layer == DETECT_HOST && !unit_first(&h->units.data[i]))
			drop_unit(h, i);
	if (h->units.len > UNITS_MOST / 2)
		hardware_forget_units(h);
}

static struct unit *unit_of(struct hardware *h, uint64_t id, enum detect_layer layer)
{
	uint64_t i;
	if (map64_get(&h->unit_of, id, &i))
		return &h->units.data[i];
	if (h->units.len >= UNITS_MOST)
		make_room(h);
	map64_set(&h->unit_of, id, h->units.len);
	struct unit *u = vec_push(&h->units);
	*u = (struct unit){.id = id, .layer = layer, .gpu = -1};
	if (layer == DETECT_HOST)
		u->pid = (uint32_t)id;
	return u;
}

struct unit *hardware_process(struct hardware *h, uint32_t pid)
{
	return unit_of(h, pid, DETECT_HOST);
}

/* ---- metrics ---- */

/* The id of the unit that a metric is of, 0 for others. A process on a GPU is noted; its counters
 * are not the GPU's. */
static uint64_t unit_id(struct hardware *h, const struct detect_names *names,
			const struct m_metric *m)
{
	if (m->kind == ENTITY_PROCESS)
		return m->pid;
	if (m->kind != ENTITY_GPU || m->instance >= 0)
		return 0;
	uint64_t id = hash_u64((uint64_t)m->host << 32 | m->gpu) | GPU_UNIT;
	if (m->pid)
		hardware_process(h, m->pid)->gpu_id = id;
	struct unit *u = unit_of(h, id, DETECT_HARDWARE);
	u->gpu = (int32_t)m->gpu;
	u->lists |= !strcmp(names->string(names->ctx, m->name), "other_processes");
	if (m->pid)
		u->own = h->any_own = true;
	return m->pid ? 0 : id;
}

struct unit *hardware_unit(struct hardware *h, const struct detect_names *names, uint32_t metric)
{
	uint64_t id = 0;
	if (!map64_get(&h->unit_of_metric, metric, &id)) {
		if (h->unit_of_metric.len >= METRICS_MOST)
			map64_free(&h->unit_of_metric);
		const struct m_metric *m = names->metric(names->ctx, metric);
		id = m ? unit_id(h, names, m) : 0;
		map64_set(&h->unit_of_metric, metric, id);
	}
	return id ? unit_of(h, id, id & GPU_UNIT ? DETECT_HARDWARE : DETECT_HOST) : NULL;
}

void hardware_metric_gone(struct hardware *h, uint32_t metric)
{
	map64_del(&h->unit_of_metric, metric);
	map64_del(&h->counter_of, metric);
}

/* ---- windows ---- */

struct counter_window *unit_first(const struct unit *u)
{
	return u->first < u->open.len ? &u->open.data[u->first] : NULL;
}

struct counter_window *unit_first_with(const struct unit *u, uint64_t number)
{
	struct counter_window *w = unit_first(u);
	return w && w->number == number ? w : NULL;
}

/* Their places are taken again when they are half of all: each window is moved about once. */
void unit_drop_first(struct unit *u)
{
	if (++u->first * 2 < u->open.len)
		return;
	u->open.len -= u->first;
	memmove(u->open.data, u->open.data + u->first, u->open.len * sizeof(*u->open.data));
	u->first = 0;
}

/* The first open one that is not before the number. */
static size_t place_of(const struct unit *u, uint64_t number)
{
	size_t low = u->first, high = u->open.len;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (u->open.data[mid].number < number)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct counter_window *unit_window(struct hardware *h, struct unit *u, uint64_t number)
{
	size_t at = place_of(u, number);
	if (at < u->open.len && u->open.data[at].number == number)
		return &u->open.data[at];
	if (number < h->closed || u->open.len - u->first >= OPEN_MOST)
		return NULL;
	vec_push(&u->open);
	memmove(&u->open.data[at + 1], &u->open.data[at],
		(u->open.len - 1 - at) * sizeof(*u->open.data));
	u->open.data[at] = (struct counter_window){.number = number};
	return &u->open.data[at];
}
