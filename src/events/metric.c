/* metric.c - units by the ends of names, entities as rows. */
#include "events/metric.h"

#include <string.h>

#include "base/map64.h"

static const struct {
	const char *end, *text;
} units[METRIC_UNITS] = {
	[UNIT_BYTES] = {"_bytes", "bytes"},
	[UNIT_NS] = {"_ns", "ns"},
	[UNIT_RATIO] = {"_ratio", "ratio"},
	[UNIT_BYTES_PER_S] = {"_bytes_per_s", "bytes/s"},
	[UNIT_PER_S] = {"_per_s", "1/s"},
	[UNIT_CELSIUS] = {"_celsius", "°C"},
	[UNIT_MHZ] = {"_mhz", "MHz"},
	[UNIT_W] = {"_w", "W"},
	[UNIT_J] = {"_j", "J"},
};

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n >= m && !strcmp(s + n - m, end);
}

enum metric_unit metric_unit_of(const char *name)
{
	for (unsigned i = UNIT_COUNT + 1; i < METRIC_UNITS; i++)
		if (ends_with(name, units[i].end))
			return (enum metric_unit)i;
	return UNIT_COUNT;
}

const char *metric_unit_text(uint8_t unit)
{
	return unit < METRIC_UNITS ? units[unit].text : NULL;
}

struct m_metric metric_of(const struct entity *of, const char *name)
{
	return (struct m_metric){.kind = of->kind,
				 .unit = (uint8_t)metric_unit_of(name),
				 .pid = of->pid,
				 .gpu = of->gpu,
				 .instance = of->instance};
}

uint64_t metric_hash(const struct m_metric *m)
{
	uint64_t h = hash_u64((uint64_t)m->kind << 32 | m->pid);
	h = hash_u64(h ^ ((uint64_t)m->gpu << 32 | (uint32_t)m->instance));
	h = hash_u64(h ^ ((uint64_t)m->label << 32 | m->host));
	return hash_u64(h ^ m->name);
}

bool metric_is(const struct m_metric *a, const struct m_metric *b)
{
	return a->kind == b->kind && a->pid == b->pid && a->gpu == b->gpu &&
	       a->instance == b->instance && a->label == b->label && a->host == b->host &&
	       a->name == b->name;
}

struct entity metric_entity(const struct m_metric *m, const struct strtab *strings)
{
	struct entity e = {.kind = m->kind, .pid = m->pid, .gpu = m->gpu, .instance = m->instance};
	e.label = strtab_get(strings, m->label, NULL);
	e.host = strtab_get(strings, m->host, &e.host_len);
	return e;
}
