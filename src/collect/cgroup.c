/* cgroup.c - what limits of cgroups do to watched processes: CPU time that a quota held back,
 * memory against its limit, threads killed for it. Of each process the nearest group with a limit,
 * from its own upwards, is told of; of memory its own where there is none. Versions 1 and 2.
 * Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst,
 * scheduler/sched-bwc.rst. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collect/growth.h"
#include "collect/kept_file.h"
#include "collect/registry.h"
#include "collect/watched_cgroups.h"

#define LEVELS_MOST   64 /* of groups within groups */
#define CHOOSE_EVERY  2	 /* reads, so each second: what is limited for ten seconds is seen */
#define STAT_EVERY_NS 900000000ULL   /* the kernel sums up for it */
#define HITS_EVERY_NS 10000000000ULL /* at most: an event of each group */
#define NO_LIMIT      (1ULL << 62)   /* version 1 has a very large number */

/* One whose CPU time is limited. */
struct cpu_group {
	struct kept_file stat;
	struct growth throttled, throttled_time;
	uint64_t last_ns;
};

struct memory_group {
	struct kept_file used, events, stat;
	struct kept_file fails; /* of version 1: how often the limit was reached */
	uint64_t limit;		/* 0: none */
	uint64_t high_bytes;	/* likewise: memory.high */
	struct growth hits, high, kills;
	uint64_t new_hits; /* that no event has told yet */
	uint64_t event_ns, stat_ns;
};

struct group {
	char *folder, *name;
	bool is_v1, wanted;
	struct cpu_group cpu;
	struct memory_group memory;
};

struct groups {
	struct group data[CGROUPS_MOST];
	size_t len;
};

struct cgroups {
	const struct collect_env *env;
	const struct collect_sink *sink;
	struct watched_cgroups watched;
	struct groups cpu, memory;
	char *root; /* "/sys/fs/cgroup" */
	double cpus;
	uint64_t reads, last_ns;
};

static int cgroup_open(void **ret_state, const struct collect_env *env,
		       const struct collect_sink *sink, struct err *e)
{
	(void)e;
	char *root = xasprintf("%s/fs/cgroup", env->sys_root);
	if (access(root, F_OK)) {
		free(root);
		return -EOPNOTSUPP;
	}
	struct cgroups *c = xcalloc(1, sizeof(*c));
	c->env = env;
	c->sink = sink;
	c->watched.proc_root = env->proc_root;
	c->root = root;
	c->cpus = (double)sysconf(_SC_NPROCESSORS_CONF);
	*ret_state = c;
	return 0;
}

static void cgroup_add_pid(void *state, pid_t pid, bool is_new)
{
	struct cgroups *c = state;
	(void)is_new;
	watched_cgroups_add(&c->watched, pid);
}

static void cgroup_del_pid(void *state, pid_t pid)
{
	struct cgroups *c = state;
	watched_cgroups_del(&c->watched, pid);
}

/* ---- limits ---- */

/* The first number of a small file; 0: there is none, or it is "max" or "-1". */
static uint64_t number_in(const struct cgroup_place *p, const char *name)
{
	struct kept_file f = {0};
	uint64_t n = 0;
	kept_file_set(&f, p->folder, name);
	const char *at = kept_file_read(&f) ? f.text : "";
	if (!text_number(&at, &n))
		n = 0;
	kept_file_free(&f);
	return n;
}

static uint64_t cpu_quota(const struct cgroup_place *p)
{
	return number_in(p, p->is_v1 ? "cpu.cfs_quota_us" : "cpu.max");
}

static uint64_t memory_limit(const struct cgroup_place *p)
{
	uint64_t n = number_in(p, p->is_v1 ? "memory.limit_in_bytes" : "memory.max");
	return n < NO_LIMIT ? n : 0;
}

/* Above it a group's own threads take pages back; it may go on growing. */
static uint64_t memory_high(const struct cgroup_place *p)
{
	uint64_t n = p->is_v1 ? 0 : number_in(p, "memory.high");
	return n < NO_LIMIT ? n : 0;
}

static uint64_t memory_bound(const struct cgroup_place *p)
{
	uint64_t limit = memory_limit(p);
	return limit ? limit : memory_high(p);
}

/* Moves to the nearest group that has a limit: which; 0: there is none, the place is as it was. */
static uint64_t climb(struct cgroup_place *p, uint64_t (*limit_of)(const struct cgroup_place *p))
{
	struct cgroup_place at = *p;
	for (int i = 0; i < LEVELS_MOST; i++) {
		uint64_t limit = limit_of(&at);
		if (limit) {
			*p = at;
			return limit;
		}
		if (!cgroup_place_up(&at))
			break;
	}
	return 0;
}

/* The least of a group and those above it; 0: none has any. */
static uint64_t least_of(struct cgroup_place at, uint64_t (*limit_of)(const struct cgroup_place *p))
{
	uint64_t least = limit_of(&at);
	for (int i = 0; i < LEVELS_MOST && cgroup_place_up(&at); i++) {
		uint64_t limit = limit_of(&at);
		least = limit && (!least || limit < least) ? limit : least;
	}
	return least;
}

/* ---- which groups ---- */

static void free_group(struct group *g)
{
	kept_file_free(&g->cpu.stat);
	kept_file_free(&g->memory.used);
	kept_file_free(&g->memory.events);
	kept_file_free(&g->memory.stat);
	kept_file_free(&g->memory.fails);
	free(g->folder);
	free(g->name);
}

/* NULL: there are too many. */
static struct group *want(struct groups *groups, const struct cgroup_place *place)
{
	size_t i = 0;
	while (i < groups->len && strcmp(groups->data[i].folder, place->folder) != 0)
		i++;
	if (i == CGROUPS_MOST)
		return NULL;
	struct group *g = &groups->data[i];
	if (i == groups->len) {
		groups->len++;
		*g = (struct group){.folder = xstrdup(place->folder),
				    .name = xstrdup(cgroup_place_name(place)),
				    .is_v1 = place->is_v1};
	}
	g->wanted = true;
	return g;
}

static void want_cpu(struct cgroups *c, struct cgroup_place *p)
{
	struct group *g = climb(p, cpu_quota) ? want(&c->cpu, p) : NULL;
	if (g && !g->cpu.stat.path)
		kept_file_set(&g->cpu.stat, g->folder, "cpu.stat");
}

/* What all processes use is the host's. */
static void want_memory(struct cgroups *c, struct cgroup_place *p)
{
	bool limited = climb(p, memory_bound);
	struct group *g = limited || !cgroup_place_is_all(p) ? want(&c->memory, p) : NULL;
	if (!g)
		return;
	g->memory.limit = limited ? least_of(*p, memory_limit) : 0;
	g->memory.high_bytes = limited ? least_of(*p, memory_high) : 0;
	if (g->memory.used.path)
		return;
	kept_file_set(&g->memory.used, g->folder,
		      g->is_v1 ? "memory.usage_in_bytes" : "memory.current");
	kept_file_set(&g->memory.events, g->folder,
		      g->is_v1 ? "memory.oom_control" : "memory.events");
	kept_file_set(&g->memory.stat, g->folder, "memory.stat");
	if (g->is_v1)
		kept_file_set(&g->memory.fails, g->folder, "memory.failcnt");
}

static void drop_unwanted(struct groups *groups)
{
	size_t left = 0;
	for (size_t i = 0; i < groups->len; i++) {
		if (groups->data[i].wanted)
			groups->data[left++] = groups->data[i];
		else
			free_group(&groups->data[i]);
	}
	groups->len = left;
	for (size_t i = 0; i < groups->len; i++)
		groups->data[i].wanted = false;
}

static void choose_groups(struct cgroups *c)
{
	const char *texts[CGROUPS_MOST];
	struct cgroup_place place;
	size_t n = watched_cgroups_texts(&c->watched, texts, CGROUPS_MOST);
	for (int again = 0; again < 2; again++) { /* when the others are gone there is room */
		for (size_t i = 0; i < n; i++) {
			if (cgroup_place_find(&place, c->root, texts[i], "cpu"))
				want_cpu(c, &place);
			if (cgroup_place_find(&place, c->root, texts[i], "memory"))
				want_memory(c, &place);
		}
		drop_unwanted(&c->cpu);
		drop_unwanted(&c->memory);
	}
}

/* ---- what is told ---- */

static void read_cpu(const struct cgroups *c, struct group *g, uint64_t now_ns)
{
	struct entity of = ENTITY_NAMED(ENTITY_CGROUP, g->name);
	struct cpu_group *cpu = &g->cpu;
	uint64_t throttled, time, by;
	double ratio;
	bool ok = kept_file_read(&cpu->stat);
	uint64_t read_ns = kept_file_time(c->env, now_ns), passed_ns = read_ns - cpu->last_ns;
	cpu->last_ns = read_ns;
	if (!ok || !text_number_of(cpu->stat.text, "nr_throttled", &throttled) ||
	    !text_number_of(cpu->stat.text, g->is_v1 ? "throttled_time" : "throttled_usec",
			    &time)) {
		growth_forget(&cpu->throttled);
		growth_forget(&cpu->throttled_time);
		return;
	}
	if (growth_take(&cpu->throttled_time, time, &by) &&
	    growth_ratio(by, (double)passed_ns / (g->is_v1 ? 1 : 1000), c->cpus, &ratio))
		sink_counter(c->sink, now_ns, &of, "throttled_ratio", ratio);
	if (growth_take(&cpu->throttled, throttled, &by))
		sink_counter(c->sink, now_ns, &of, "throttled_periods_per_s",
			     growth_per_s(by, passed_ns));
}

static void tell_hits(const struct cgroups *c, const struct entity *of, struct memory_group *m,
		      uint64_t now_ns)
{
	char text[64];
	if (!m->new_hits || (m->event_ns && now_ns - m->event_ns < HITS_EVERY_NS))
		return;
	snprintf(text, sizeof(text), "%llu times", (unsigned long long)m->new_hits);
	sink_event(c->sink, now_ns, of, "memory_limit_hit", text);
	m->new_hits = 0;
	m->event_ns = now_ns;
}

/* By how much a number of its events grew; one that is not there counts as none. */
static uint64_t grown(struct growth *g, const char *text, const char *key)
{
	uint64_t now, by = 0;
	if (text_number_of(text, key, &now))
		growth_take(g, now, &by);
	else
		growth_forget(g);
	return by;
}

static uint64_t new_hits(struct group *g)
{
	struct memory_group *m = &g->memory;
	uint64_t now, by = 0;
	const char *at;
	if (!g->is_v1)
		return grown(&m->hits, m->events.text, "max") +
		       grown(&m->high, m->events.text, "high");
	at = kept_file_read(&m->fails) ? m->fails.text : "";
	if (text_number(&at, &now))
		growth_take(&m->hits, now, &by);
	else
		growth_forget(&m->hits);
	return by;
}

static void read_memory_events(const struct cgroups *c, struct group *g, const struct entity *of,
			       uint64_t now_ns)
{
	struct memory_group *m = &g->memory;
	char text[64];
	if (!kept_file_read(&m->events))
		return;
	uint64_t kills = grown(&m->kills, m->events.text, "oom_kill");
	m->new_hits += new_hits(g);
	tell_hits(c, of, m, now_ns);
	if (!kills)
		return;
	snprintf(text, sizeof(text), "%llu killed", (unsigned long long)kills);
	sink_event(c->sink, now_ns, of, "oom_kill", text);
}

/* What the kernel can take back at once does not bring a group to its limit. */
static void read_unreclaimable(const struct cgroups *c, struct group *g, const struct entity *of,
			       uint64_t used, uint64_t now_ns)
{
	static const char *const keys[2][3] = {
		{"inactive_file", "active_file", "slab_reclaimable"},
		{"total_inactive_file", "total_active_file", "total_slab_reclaimable"},
	};
	struct memory_group *m = &g->memory;
	uint64_t bytes;
	if (!m->limit || (m->stat_ns && now_ns - m->stat_ns < STAT_EVERY_NS) ||
	    !kept_file_read(&m->stat))
		return;
	m->stat_ns = now_ns;
	for (int i = 0; i < 3; i++)
		if (text_number_of(m->stat.text, keys[g->is_v1][i], &bytes))
			used = used > bytes ? used - bytes : 0;
	sink_counter(c->sink, now_ns, of, "memory_unreclaimable_bytes", (double)used);
}

static void read_memory(const struct cgroups *c, struct group *g, uint64_t now_ns)
{
	struct entity of = ENTITY_NAMED(ENTITY_CGROUP, g->name);
	struct memory_group *m = &g->memory;
	uint64_t used;
	const char *at = kept_file_read(&m->used) ? m->used.text : "";
	if (text_number(&at, &used)) {
		sink_counter(c->sink, now_ns, &of, "memory_used_bytes", (double)used);
		read_unreclaimable(c, g, &of, used, now_ns);
	}
	if (m->limit)
		sink_counter(c->sink, now_ns, &of, "memory_limit_bytes", (double)m->limit);
	if (m->high_bytes)
		sink_counter(c->sink, now_ns, &of, "memory_high_bytes", (double)m->high_bytes);
	read_memory_events(c, g, &of, now_ns);
}

static void cgroup_read(void *state, uint64_t now_ns)
{
	struct cgroups *c = state;
	uint64_t passed_ns;
	if (!growth_passed(&c->last_ns, now_ns, &passed_ns))
		return;
	if (watched_cgroups_update(&c->watched) || ++c->reads % CHOOSE_EVERY == 0)
		choose_groups(c);
	for (size_t i = 0; i < c->cpu.len; i++)
		read_cpu(c, &c->cpu.data[i], now_ns);
	for (size_t i = 0; i < c->memory.len; i++)
		read_memory(c, &c->memory.data[i], now_ns);
}

static void cgroup_close(void *state)
{
	struct cgroups *c = state;
	for (size_t i = 0; i < c->cpu.len; i++)
		free_group(&c->cpu.data[i]);
	for (size_t i = 0; i < c->memory.len; i++)
		free_group(&c->memory.data[i]);
	watched_cgroups_free(&c->watched);
	free(c->root);
	free(c);
}

const struct collector collector_cgroup = {
	.name = "cgroups",
	.period_ns = 500000000,
	.open = cgroup_open,
	.add_pid = cgroup_add_pid,
	.del_pid = cgroup_del_pid,
	.read = cgroup_read,
	.close = cgroup_close,
};
