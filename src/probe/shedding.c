/* shedding.c - how often each probe is come by, and probes that are on in bursts alone. Which ones
 * those are is decided elsewhere (src/session/budget.h).
 *
 * A place costs nothing only where it has no link. Links are of many places, and each that goes
 * waits for the kernel, so a place moves by new links for those that stay; when these are there,
 * the old one goes. In between some places have two: the newer one records (the kernel calls it
 * first), and calls that began with the older one have a moment to end. Places that record moments,
 * which could not be told apart then, stay where they are. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/tracer_impl.h"

#define END_NS	  5000000 /* for calls that are open to end */
#define END_TURNS 5

void shedding_choose(struct tracer *t)
{
	t->bpf->rodata->counts_hits = t->opts.counts_hits;
	if (t->opts.counts_hits)
		bpf_map__set_max_entries(t->bpf->maps.hits, HITS_STRIPES * MAX_PROBES);
}

int shedding_open(struct tracer *t, struct err *e)
{
	struct shedding *s = &t->shedding;
	if (!t->opts.counts_hits)
		return 0;
	s->hits_bytes = sizeof(uint64_t) * HITS_STRIPES * MAX_PROBES;
	void *mapped =
		mmap(NULL, s->hits_bytes, PROT_READ, MAP_SHARED, bpf_map__fd(t->bpf->maps.hits), 0);
	if (mapped == MAP_FAILED)
		return err_set(e, errno, "cannot map counters of probes: %s", strerror(errno));
	s->hits = mapped;
	return 0;
}

void shedding_close(struct tracer *t)
{
	if (t->shedding.hits)
		munmap((void *)(uintptr_t)t->shedding.hits, t->shedding.hits_bytes);
	t->shedding.hits = NULL;
	vec_free(&t->shedding.in_bursts);
	vec_free(&t->shedding.loads);
}

bool shedding_has(const struct tracer *t, uint32_t probe)
{
	return probe < t->shedding.in_bursts.len && t->shedding.in_bursts.data[probe];
}

/* ---- what is known of probes ---- */

static void look_at_site(struct probe_load *load, const struct site_group *g,
			 const struct site *site)
{
	load->stepped |= site->cost == INSN_STEPPED;
	load->returns |= site->action == SITE_SPAN;
	load->fixed &= g->inside || g->moments;
}

static uint64_t hits_of(const struct tracer *t, uint32_t probe)
{
	uint64_t sum = 0;
	unsigned cpus = (unsigned)libbpf_num_possible_cpus();
	for (unsigned stripe = 0; stripe < HITS_STRIPES && stripe < cpus; stripe++)
		sum += t->shedding.hits[HITS_KEY(stripe, probe)];
	return sum;
}

/* What does not change but with a file that comes or goes. */
static void make_loads(struct tracer *t, size_t n)
{
	t->shedding.loads.len = 0;
	for (size_t i = 0; i < n; i++) {
		const struct probe_info *info = &t->plan.probes.data[i];
		*vec_push(&t->shedding.loads) = (struct probe_load){
			.name = info->name,
			.role = info->entry->role ? info->entry->role : "",
			.layer = info->entry->layer,
			.frequent = info->entry->cost == CAT_COST_HIGH,
			.fixed = true,
		};
	}
	for (size_t i = 0; i < t->files.list.len; i++) {
		const struct probed_file *f = t->files.list.data[i];
		for (size_t k = 0; k < f->groups.len; k++) {
			const struct site_group *g = &f->groups.data[k];
			for (size_t s = 0; s < g->sites.len; s++)
				if (g->sites.data[s].probe < n)
					look_at_site(
						&t->shedding.loads.data[g->sites.data[s].probe], g,
						&g->sites.data[s]);
		}
	}
}

void tracer_loads(struct tracer *t,
		  void (*visit)(void *ctx, uint32_t probe, const struct probe_load *load),
		  void *ctx)
{
	size_t n = t->shedding.hits ? t->probes_told : 0;
	if (t->shedding.loads.len != n)
		make_loads(t, n);
	for (uint32_t i = 0; i < n; i++) {
		t->shedding.loads.data[i].hits = hits_of(t, i);
		visit(ctx, i, &t->shedding.loads.data[i]);
	}
}

/* ---- moving places ---- */

static bool can_move(const struct site_group *g)
{
	return !g->inside && !g->moments;
}

/* The group that a group's places go to. */
static struct site_group *partner_of(struct probed_file *f, const struct site_group *g)
{
	struct site_group *found = NULL;
	for (size_t i = 0; i < f->groups.len && !found; i++) {
		struct site_group *other = &f->groups.data[i];
		if (can_move(other) && other->layer == g->layer &&
		    other->by_callback == g->by_callback && other->in_bursts != g->in_bursts)
			found = other;
	}
	if (found)
		return found;
	struct site_group made = {
		.layer = g->layer, .by_callback = g->by_callback, .in_bursts = !g->in_bursts};
	*vec_push(&f->groups) = made;
	return &f->groups.data[f->groups.len - 1];
}

static size_t count_leaving(const struct tracer *t, const struct site_group *g)
{
	size_t n = 0;
	for (size_t i = 0; i < g->sites.len; i++)
		n += shedding_has(t, g->sites.data[i].probe) != g->in_bursts;
	return n;
}

/* Puts those that leave behind the others, without their order; returns how many stay. */
static size_t part(const struct tracer *t, struct site_group *g)
{
	size_t stay = 0;
	for (size_t i = 0; i < g->sites.len; i++) {
		struct site s = g->sites.data[i];
		if (shedding_has(t, s.probe) != g->in_bursts)
			continue;
		g->sites.data[i] = g->sites.data[stay];
		g->sites.data[stay++] = s;
	}
	return stay;
}

static int attach_more(struct tracer *t, const struct probed_file *f, struct attach_links *links,
		       const struct site *sites, size_t n, struct err *e)
{
	char path[32];
	struct attach_links more = {0};
	tracer_file_path(f, path);
	int rc = n ? attach_sites(&more, t->method, &t->programs, path, sites, n, e) : 0;
	if (rc)
		return err_wrap(e, rc, "%s", f->path);
	for (size_t i = 0; i < more.fds.len; i++)
		*vec_push(&links->fds) = more.fds.data[i];
	vec_free(&more.fds);
	return 0;
}

/* Links that are to go. */
typedef VEC(struct attach_links) links_t;

/* Always on -> in bursts, which are off now. */
static int leave_for_bursts(struct tracer *t, struct probed_file *f, struct site_group *g,
			    size_t stay, links_t *gone, struct err *e)
{
	struct attach_links links = {0};
	int rc = g->attached ? attach_more(t, f, &links, g->sites.data, stay, e) : 0;
	if (rc)
		return rc;
	*vec_push(gone) = g->links;
	g->links = links;
	return 0;
}

static void hand_over(struct site_group *from, size_t stay, struct site_group *to)
{
	for (size_t i = stay; i < from->sites.len; i++)
		*vec_push(&to->sites) = from->sites.data[i];
	from->sites.len = stay;
}

static int move_places(struct tracer *t, struct probed_file *f, size_t group, links_t *gone,
		       struct err *e)
{
	struct site_group *to = partner_of(f, &f->groups.data[group]);
	struct site_group *from = &f->groups.data[group];
	size_t stay = part(t, from), had = to->sites.len;
	int rc = from->in_bursts ? 0 : leave_for_bursts(t, f, from, stay, gone, e);
	if (rc)
		return rc;
	hand_over(from, stay, to);
	if (to->in_bursts || tracer_group_is_off(t, to))
		return 0;
	to->attached = true;
	return attach_more(t, f, &to->links, to->sites.data + had, to->sites.len - had, e);
}

static void set_flag(bool *flag, bool value)
{
	__atomic_store_n(flag, value, __ATOMIC_SEQ_CST);
}

/* Tells the programs that the places of all that is in bursts are off, and since when: they make
 * nothing of it before it is whole. */
static void tell_left(struct tracer *t, uint64_t since_ns)
{
	struct eacgm_bpf__bss *to = t->bpf->bss;
	size_t n = t->shedding.in_bursts.len;
	to->times_left_ns[t->shedding.times_left++ % TIMES_LEFT] = since_ns;
	for (size_t i = 0; i < n && i < MAX_PROBES; i++) {
		if (!t->shedding.in_bursts.data[i]) {
			to->first_left_ns[i] = 0; /* the next is the first */
			continue;
		}
		if (!to->first_left_ns[i])
			to->first_left_ns[i] = since_ns;
		__atomic_store_n(&to->last_left_ns[i], since_ns, __ATOMIC_RELEASE);
	}
}

/* Takes links off whose places are in bursts, which are off. They begin no calls from here on, and
 * calls that are open end, most of them; of the others no end is seen. */
static void end_and_take_off(struct tracer *t, const links_t *gone)
{
	set_flag(&t->bpf->bss->bursts_closed, true);
	for (int i = 0; i < END_TURNS; i++) {
		tracer_control(t);
		nanosleep(&(struct timespec){.tv_nsec = END_NS / END_TURNS}, NULL);
	}
	uint64_t now_ns = monotonic_ns();
	tracer_links_off(t, gone->data, gone->len); /* until then some ends are seen */
	tell_left(t, now_ns);
	set_flag(&t->bpf->bss->bursts_closed, false);
}

int tracer_set_bursts(struct tracer *t, const bool *in_bursts, size_t n, struct err *e)
{
	links_t gone = {0};
	int rc = 0;
	t->shedding.in_bursts.len = 0;
	for (size_t i = 0; i < n; i++) {
		*vec_push(&t->shedding.in_bursts) = in_bursts[i];
		if (i < MAX_PROBES)
			set_flag(&t->bpf->bss->in_bursts[i], in_bursts[i]);
	}
	set_flag(&t->bpf->bss->replacing, true);
	for (size_t i = 0; i < t->files.list.len; i++) {
		struct probed_file *f = t->files.list.data[i];
		for (size_t g = 0, had = f->groups.len; g < had; g++) {
			struct site_group *sg = &f->groups.data[g];
			if (!can_move(sg) || !count_leaving(t, sg))
				continue;
			int one = move_places(t, f, g, &gone, e);
			rc = one ? one : rc;
		}
	}
	if (gone.len)
		end_and_take_off(t, &gone);
	set_flag(&t->bpf->bss->replacing, false);
	vec_free(&gone);
	return rc;
}

/* ---- bursts ---- */

static int burst_on(struct tracer *t, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < t->files.list.len; i++) {
		struct probed_file *f = t->files.list.data[i];
		for (size_t g = 0; g < f->groups.len; g++) {
			struct site_group *sg = &f->groups.data[g];
			if (!sg->in_bursts || sg->attached || !sg->sites.len ||
			    tracer_group_is_off(t, sg))
				continue;
			int one = tracer_group_on(t, f, sg, e);
			rc = one ? one : rc;
		}
	}
	return rc;
}

static void burst_off(struct tracer *t)
{
	links_t gone = {0};
	for (size_t i = 0; i < t->files.list.len; i++) {
		struct probed_file *f = t->files.list.data[i];
		for (size_t g = 0; g < f->groups.len; g++) {
			struct site_group *sg = &f->groups.data[g];
			if (!sg->in_bursts || !sg->attached)
				continue;
			*vec_push(&gone) = sg->links;
			sg->links = (struct attach_links){0};
			sg->attached = false;
		}
	}
	end_and_take_off(t, &gone);
	vec_free(&gone);
}

static uint64_t switched_ns(const struct tracer *t)
{
	return thread_cpu_ns() + __atomic_load_n(&t->switching.cpu_ns, __ATOMIC_SEQ_CST);
}

int tracer_burst(struct tracer *t, bool on, struct err *e)
{
	uint64_t began_ns = switched_ns(t);
	int rc = 0;
	t->shedding.bursts_on = on;
	if (on)
		rc = burst_on(t, e);
	else
		burst_off(t);
	t->shedding.burst_cpu_ns += switched_ns(t) - began_ns;
	return rc;
}

uint64_t tracer_bursts_cpu_ns(const struct tracer *t)
{
	return t->shedding.burst_cpu_ns;
}
