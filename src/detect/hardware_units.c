/* hardware_units.c - the GPUs and processes that counters are of, by the names that counters have
 * for them, and the windows of each that are open. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "detect/hardware_impl.h"

#define UNITS_MOST    8192
#define ENTITIES_MOST (1u << 16) /* strings that were looked at */
#define OPEN_MOST     (1u << 17)
#define GPU_UNIT      (1ULL << 63)

/* ---- units ---- */

void hardware_forget_units(struct hardware *h)
{
	for (size_t i = 0; i < h->units.len; i++)
		vec_free(&h->units.data[i].open);
	vec_free(&h->units);
	map64_free(&h->unit_of);
	map64_free(&h->entity_of);
	h->any_gone = h->any_own = false;
	h->cuda_events = 0;
}

static void drop_unit(struct hardware *h, size_t i)
{
	map64_del(&h->unit_of, h->units.data[i].id);
	if (h->units.data[i].gpu_id) /* the name that said so must say it again of the next */
		map64_free(&h->entity_of);
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

/* ---- names ---- */

/* "pid 12", "gpu 0", "gpu 0 pid 12", "HOST gpu 0": the id of the unit that the counter is of, 0 for
 * others. A process on a GPU is noted; its counters are not the GPU's. */
static uint64_t parse_entity(struct hardware *h, const char *entity)
{
	const char *gpu = strncmp(entity, "gpu ", 4) ? strstr(entity, " gpu ") : entity;
	unsigned index, pid;
	int end = 0;
	if (!gpu && sscanf(entity, "pid %u%n", &pid, &end) == 1 && !entity[end])
		return pid;
	if (!gpu || sscanf(gpu += *gpu == ' ', "gpu %u%n", &index, &end) != 1)
		return 0;
	uint64_t id = hash_bytes(entity, (size_t)(gpu - entity) + (size_t)end) | GPU_UNIT;
	if (!gpu[end]) {
		unit_of(h, id, DETECT_HARDWARE)->gpu = (int32_t)index;
		return id;
	}
	const char *rest = gpu + end;
	if (sscanf(rest, " pid %u%n", &pid, &end) == 1 && !rest[end] && pid) {
		hardware_process(h, pid)->gpu_id = id;
		struct unit *u = unit_of(h, id, DETECT_HARDWARE);
		u->gpu = (int32_t)index;
		u->own = h->any_own = true;
	}
	return 0;
}

/* What a GPU is called says its number once; its unit stays. */
static struct unit *unit_of_entity(struct hardware *h, uint64_t id)
{
	if (!id)
		return NULL;
	return unit_of(h, id, id & GPU_UNIT ? DETECT_HARDWARE : DETECT_HOST);
}

struct unit *hardware_entity(struct hardware *h, const struct detect_names *names, uint32_t string)
{
	uint64_t id;
	if (map64_get(&h->entity_of, string, &id))
		return unit_of_entity(h, id);
	if (h->entity_of.len >= ENTITIES_MOST)
		map64_free(&h->entity_of);
	id = parse_entity(h, names->string(names->ctx, string));
	map64_set(&h->entity_of, string, id);
	return unit_of_entity(h, id);
}

void hardware_name_gone(struct hardware *h, uint32_t string)
{
	map64_del(&h->entity_of, string);
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
