/* metric.h - what a row of the metric table stands for, and how one is made. */
#pragma once

#include "base/entity.h"
#include "base/strtab.h"
#include "events/rows.h"

/* The unit that the end of a counter's name says: "rss_bytes". */
enum metric_unit metric_unit_of(const char *name);

/* "bytes/s"; NULL of a count, and of a later version's. */
const char *metric_unit_text(uint8_t unit);

/* A row of an entity's numbers; its strings are the caller's to fill in: label, host, name. */
struct m_metric metric_of(const struct entity *of, const char *name);

/* A hash of what it says, and whether two say the same. */
uint64_t metric_hash(const struct m_metric *m);
bool metric_is(const struct m_metric *a, const struct m_metric *b);

/* What its counters are of; borrows from the strings. */
struct entity metric_entity(const struct m_metric *m, const struct strtab *strings);
