/* causes_memory.c - memory of another NUMA node, and cgroups that are at their limit. Counters of
 * nodes are the host's: they tell that it happened, not to whom. */
#include "incident/causes_memory.h"

#include <math.h>
#include <string.h>

#include "base/entity.h"

/* Pages or faults a second, and times as many as usual: fewer are a host's ordinary moves. A page
 * is 4 KiB: 1000 of them are 4 MB. */
#define PAGES_LEAST 1000.0
#define PAGES_TIMES 3.0
#define OTHER_SHARE 0.1 /* more of what is allocated: less is no reason */

#define FULL 0.9 /* of a cgroup's limit: files in memory are given back from here on */

static double value(const struct counter_change *c, bool usual)
{
	double ret = !c ? 0 : usual ? c->usual : c->mean;
	return isnan(ret) ? 0 : ret;
}

static bool is_far_more(const struct counter_change *c)
{
	return value(c, false) > value(c, true) + PAGES_LEAST &&
	       value(c, false) > PAGES_TIMES * value(c, true);
}

static double other_share(const struct counter_change *local, const struct counter_change *other,
			  bool usual)
{
	double all = value(local, usual) + value(other, usual);
	return all > 0 ? value(other, usual) / all : 0;
}

bool causes_remote_memory(const struct evidence *e)
{
	const struct counter_change *local =
		evidence_counter(e, ENTITY_HOST, "numa_local_pages_per_s");
	const struct counter_change *other =
		evidence_counter(e, ENTITY_HOST, "numa_other_pages_per_s");
	if (!other) /* one node, or nothing is known of nodes */
		return false;
	return (is_far_more(other) &&
		other_share(local, other, false) > other_share(local, other, true) + OTHER_SHARE) ||
	       is_far_more(evidence_counter(e, ENTITY_HOST, "numa_hint_faults_per_s")) ||
	       is_far_more(evidence_counter(e, ENTITY_HOST, "numa_migrated_pages_per_s"));
}

/* The counter of the same cgroup with a name; NULL: there is none. */
static const struct counter_change *of_group(const struct evidence *e, const struct m_metric *group,
					     const char *name)
{
	for (size_t i = 0; i < e->counters.len; i++) {
		const struct m_metric *m = &e->t->metrics.data[e->counters.data[i].metric];
		if (m->kind == ENTITY_CGROUP && m->label == group->label &&
		    m->host == group->host &&
		    !strcmp(strtab_get(&e->t->strings, m->name, NULL), name))
			return &e->counters.data[i];
	}
	return NULL;
}

static bool is_limit(const char *name)
{
	return !strcmp(name, "memory_limit_bytes") || !strcmp(name, "memory_high_bytes");
}

const struct counter_change *causes_full_cgroup(const struct evidence *e)
{
	for (size_t i = 0; i < e->counters.len; i++) {
		const struct counter_change *limit = &e->counters.data[i];
		const struct m_metric *m = &e->t->metrics.data[limit->metric];
		if (m->kind != ENTITY_CGROUP || !(limit->mean > 0) || !evidence_is_its_host(e, m) ||
		    !is_limit(strtab_get(&e->t->strings, m->name, NULL)))
			continue;
		const struct counter_change *used = of_group(e, m, "memory_used_bytes");
		if (used && used->mean >= FULL * limit->mean)
			return limit;
	}
	return NULL;
}
