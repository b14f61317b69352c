/* pressure.c - pressure stall information of the host and of the cgroups (version 2) that watched
 * processes are in: for which share of the time threads waited for a CPU, for memory, for disks.
 * Source: the kernel's Documentation/accounting/psi.rst. Its averages of 10 s are not used. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "collect/growth.h"
#include "collect/kept_file.h"
#include "collect/registry.h"
#include "collect/watched_cgroups.h"

enum { CPU, MEMORY, IO, RESOURCES };

static const struct {
	const char *of_host, *of_cgroup; /* files */
	const char *some, *full;	 /* counters; NULL: cgroup.c tells of quotas, and of
					  * hosts it is not defined */
} resources[RESOURCES] = {
	[CPU] = {"cpu", "cpu.pressure", "cpu_pressure_ratio", NULL},
	[MEMORY] = {"memory", "memory.pressure", "memory_pressure_ratio",
		    "memory_full_pressure_ratio"},
	[IO] = {"io", "io.pressure", "io_pressure_ratio", "io_full_pressure_ratio"},
};

/* Of the host, or of a cgroup. */
struct stalls {
	char *folder; /* of a cgroup */
	char *name;
	struct {
		struct kept_file file;
		struct growth some, full;
		uint64_t last_ns;
	} of[RESOURCES];
	bool wanted;
};

struct pressure {
	const struct collect_env *env;
	const struct collect_sink *sink;
	struct stalls host;
	struct stalls cgroups[CGROUPS_MOST];
	size_t cgroups_len;
	struct watched_cgroups watched;
	char *groups; /* "/sys/fs/cgroup" */
	uint64_t last_ns;
};

static void free_stalls(struct stalls *s)
{
	for (int i = 0; i < RESOURCES; i++)
		kept_file_free(&s->of[i].file);
	free(s->folder);
	free(s->name);
}

static int pressure_open(void **ret_state, const struct collect_env *env,
			 const struct collect_sink *sink, struct err *e)
{
	(void)e;
	struct pressure *p = xcalloc(1, sizeof(*p));
	char *folder = xasprintf("%s/pressure", env->proc_root);
	bool any = false;
	p->env = env;
	p->sink = sink;
	for (int i = 0; i < RESOURCES; i++) {
		kept_file_set(&p->host.of[i].file, folder, resources[i].of_host);
		any |= kept_file_read(&p->host.of[i].file);
	}
	free(folder);
	if (!any) { /* a kernel without it, or started with psi=0 */
		free_stalls(&p->host);
		free(p);
		return -EOPNOTSUPP;
	}
	p->watched.proc_root = env->proc_root;
	p->groups = xasprintf("%s/fs/cgroup", env->sys_root);
	*ret_state = p;
	return 0;
}

static void pressure_add_pid(void *state, pid_t pid, bool is_new)
{
	struct pressure *p = state;
	(void)is_new;
	watched_cgroups_add(&p->watched, pid);
}

static void pressure_del_pid(void *state, pid_t pid)
{
	struct pressure *p = state;
	watched_cgroups_del(&p->watched, pid);
}

/* ---- cgroups ---- */

static void want(struct pressure *p, const struct cgroup_place *place)
{
	size_t i = 0;
	while (i < p->cgroups_len && strcmp(p->cgroups[i].folder, place->folder) != 0)
		i++;
	if (i == CGROUPS_MOST)
		return;
	struct stalls *s = &p->cgroups[i];
	if (i == p->cgroups_len) {
		p->cgroups_len++;
		*s = (struct stalls){.folder = xstrdup(place->folder),
				     .name = xstrdup(cgroup_place_name(place))};
		for (int r = 0; r < RESOURCES; r++)
			kept_file_set(&s->of[r].file, s->folder, resources[r].of_cgroup);
	}
	s->wanted = true;
}

static void drop_unwanted(struct pressure *p)
{
	size_t left = 0;
	for (size_t i = 0; i < p->cgroups_len; i++) {
		if (p->cgroups[i].wanted)
			p->cgroups[left++] = p->cgroups[i];
		else
			free_stalls(&p->cgroups[i]);
	}
	p->cgroups_len = left;
}

/* That of all processes is the host's. */
static void choose_cgroups(struct pressure *p)
{
	const char *texts[CGROUPS_MOST];
	struct cgroup_place place;
	size_t n = watched_cgroups_texts(&p->watched, texts, CGROUPS_MOST);
	for (size_t i = 0; i < p->cgroups_len; i++)
		p->cgroups[i].wanted = false;
	for (int again = 0; again < 2; again++) { /* when the others are gone there is room */
		for (size_t i = 0; i < n; i++)
			if (cgroup_place_find(&place, p->groups, texts[i], NULL) &&
			    !cgroup_place_is_all(&place))
				want(p, &place);
		drop_unwanted(p);
	}
}

/* ---- what is told ---- */

/* The total of a line "some avg10=0.00 avg60=0.00 avg300=0.00 total=12", in microseconds. */
static bool total_of(const char *text, const char *key, uint64_t *ret)
{
	for (const char *line = text; *line; line = text_next_line(line)) {
		const char *end = line + strcspn(line, "\n");
		const char *total = text_after_key(line, key) ? strstr(line, " total=") : NULL;
		if (!total || total >= end)
			continue;
		total += strlen(" total=");
		return text_number(&total, ret);
	}
	return false;
}

static void tell(const struct pressure *p, uint64_t now_ns, const struct entity *of,
		 const char *name, const uint64_t *total_us, struct growth *g, uint64_t passed_ns)
{
	uint64_t by_us;
	double ratio;
	if (!total_us)
		growth_forget(g);
	else if (growth_take(g, *total_us, &by_us) &&
		 growth_ratio(by_us, (double)passed_ns / 1000, 1, &ratio))
		sink_counter(p->sink, now_ns, of, name, ratio);
}

static void read_stalls(const struct pressure *p, struct stalls *s, const struct entity *of,
			uint64_t now_ns)
{
	for (int i = 0; i < RESOURCES; i++) {
		uint64_t some, full;
		bool ok = kept_file_read(&s->of[i].file);
		const char *text = ok ? s->of[i].file.text : "";
		uint64_t read_ns = kept_file_time(p->env, now_ns);
		uint64_t passed_ns = read_ns - s->of[i].last_ns;
		s->of[i].last_ns = read_ns;
		tell(p, now_ns, of, resources[i].some, total_of(text, "some", &some) ? &some : NULL,
		     &s->of[i].some, passed_ns);
		if (resources[i].full)
			tell(p, now_ns, of, resources[i].full,
			     total_of(text, "full", &full) ? &full : NULL, &s->of[i].full,
			     passed_ns);
	}
}

static void pressure_read(void *state, uint64_t now_ns)
{
	struct pressure *p = state;
	uint64_t passed_ns;
	if (!growth_passed(&p->last_ns, now_ns, &passed_ns))
		return;
	if (watched_cgroups_update(&p->watched))
		choose_cgroups(p);
	read_stalls(p, &p->host, &ENTITY_NAMED(ENTITY_HOST, ""), now_ns);
	for (size_t i = 0; i < p->cgroups_len; i++)
		read_stalls(p, &p->cgroups[i], &ENTITY_NAMED(ENTITY_CGROUP, p->cgroups[i].name),
			    now_ns);
}

static void pressure_close(void *state)
{
	struct pressure *p = state;
	free_stalls(&p->host);
	for (size_t i = 0; i < p->cgroups_len; i++)
		free_stalls(&p->cgroups[i]);
	watched_cgroups_free(&p->watched);
	free(p->groups);
	free(p);
}

const struct collector collector_pressure = {
	.name = "pressure",
	.period_ns = 500000000,
	.open = pressure_open,
	.add_pid = pressure_add_pid,
	.del_pid = pressure_del_pid,
	.read = pressure_read,
	.close = pressure_close,
};
