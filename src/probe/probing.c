/* probing.c - puts hooks and probes on one file, by its facts. Which process has the file is
 * scan.c's concern, and so is the order: hooks before probes. unused_files.c takes them off again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "probe/tracer_impl.h"

void tracer_note(struct tracer *t, const char *subject, const char *reason)
{
	if (t->opts.events.on_note)
		t->opts.events.on_note(t->opts.events.ctx, subject, reason);
}

void tracer_file_path(const struct probed_file *f, char ret[32])
{
	snprintf(ret, 32, "/proc/self/fd/%d", f->fd);
}

/* ---- hooks: exception guard and dynamic linker ---- */

static void hook_kind(struct tracer *t, struct probed_file *f, enum hook_kind kind,
		      const struct bpf_program *program)
{
	const struct file_hooks *h = &f->facts.hooks[kind];
	char path[32];
	struct err e;
	tracer_file_path(f, path);
	if (!h->n ||
	    !attach_hooks(&f->hooks, t->method, bpf_program__fd(program), path, h->sites, h->n, &e))
		return;
	f->unguarded |= kind == HOOK_UNWIND_BEGINS;
	tracer_note(t, f->path, e.msg);
}

void tracer_hook_file(struct tracer *t, struct probed_file *f)
{
	f->state = FILE_HOOKED;
	if (!t->can_hold)
		return;
	size_t had = f->hooks.fds.len;
	hook_kind(t, f, HOOK_UNWIND_BEGINS, t->bpf->progs.unwind_begins);
	for (size_t i = had; i < f->hooks.fds.len; i++)
		tracer_guard_keep(t, GUARD_OWNER_FILE | f->number, f->hooks.fds.data[i]);
	hook_kind(t, f, HOOK_UNWIND_ENDS, t->bpf->progs.unwind_ends);
	hook_kind(t, f, HOOK_LOADER, t->bpf->progs.maps_changed);
}

/* ---- probes ---- */

void tracer_tell_plan(struct tracer *t)
{
	int layouts = bpf_map__fd(t->bpf->maps.py_layouts);
	for (; t->layouts_told < t->plan.layouts.len; t->layouts_told++) {
		uint32_t key = (uint32_t)t->layouts_told;
		bpf_map_update_elem(layouts, &key, &t->plan.layouts.data[key], BPF_ANY);
	}
	int descs = bpf_map__fd(t->bpf->maps.probes);
	for (; t->probes_told < t->plan.probes.len; t->probes_told++) {
		const struct probe_info *info = &t->plan.probes.data[t->probes_told];
		if (info->desc.nargs || info->desc.stack_chance)
			bpf_map_update_elem(descs, &info->id, &info->desc, BPF_ANY);
		if (t->opts.events.on_probe)
			t->opts.events.on_probe(t->opts.events.ctx, info);
	}
}

bool tracer_group_is_off(const struct tracer *t, const struct site_group *g)
{
	return t->switching.off || t->switching.off_for_good ||
	       t->off_callbacks & 1u << g->by_callback || (g->inside && !g->outside) ||
	       (g->in_bursts && !t->shedding.bursts_on);
}

static struct site_group *group_of(const struct tracer *t, struct probed_file *f, enum layer layer,
				   enum callback by_callback, bool inside, bool moments,
				   bool in_bursts)
{
	for (size_t i = 0; i < f->groups.len; i++) {
		struct site_group *known = &f->groups.data[i];
		if (known->layer == layer && known->by_callback == by_callback &&
		    known->inside == inside && known->moments == moments &&
		    known->in_bursts == in_bursts)
			return known;
	}
	struct site_group *g = vec_push(&f->groups);
	g->layer = layer;
	g->by_callback = by_callback;
	g->inside = inside;
	g->outside = inside && t->opts.inside_running && !t->inside_alone;
	g->moments = moments;
	g->in_bursts = in_bursts;
	return g;
}

/* Attaches what can be attached: one place that the kernel refuses must not cost the
 * others. Returns how many were refused; e holds the last reason. */
static size_t attach_most(struct attach_links *links, struct tracer *t, const char *path,
			  const struct site *sites, size_t n, struct err *e)
{
	struct attach_links some = {0};
	if (!attach_sites(&some, t->method, &t->programs, path, sites, n, e)) {
		for (size_t i = 0; i < some.fds.len; i++)
			*vec_push(&links->fds) = some.fds.data[i];
		vec_free(&some.fds);
		return 0;
	}
	if (n <= 1)
		return n;
	size_t half = n / 2;
	return attach_most(links, t, path, sites, half, e) +
	       attach_most(links, t, path, sites + half, n - half, e);
}

static int attach_groups(struct tracer *t, struct probed_file *f, struct err *e)
{
	char path[32];
	tracer_file_path(f, path);
	uint64_t start_ns = monotonic_ns();
	size_t refused = 0;
	for (size_t i = 0; i < f->groups.len; i++) {
		struct site_group *g = &f->groups.data[i];
		if (tracer_group_is_off(t, g))
			continue;
		refused += attach_most(&g->links, t, path, g->sites.data, g->sites.len, e);
		g->attached = true;
	}
	t->attach_ns += monotonic_ns() - start_ns;
	return refused ? err_wrap(e, -EIO, "%zu places are not traced", refused) : 0;
}

void tracer_probe_file(struct tracer *t, struct probed_file *f)
{
	struct err e;
	f->state = FILE_PROBED;
	t->shedding.loads.len = 0;
	for (size_t i = 0; i < f->facts.plan.sites.len; i++) {
		const struct site *site = &f->facts.plan.sites.data[i];
		enum callback by_callback = t->plan.probes.data[site->probe].by_callback;
		bool inside = t->insider && site->inside.moved;
		bool moments = t->opts.counts_hits && site->action == SITE_INSTANT;
		bool in_bursts = !inside && !moments && shedding_has(t, site->probe);
		struct site *put = vec_push(
			&group_of(t, f, site->layer, by_callback, inside, moments, in_bursts)
				 ->sites);
		*put = *site;
		if (inside)
			put->cookie |= COOKIE_TOLD_INSIDE;
		f->places += !inside;
	}
	vec_free(&f->facts.plan.sites);
	if (f->groups.len && attach_groups(t, f, &e))
		tracer_note(t, f->path, e.msg);
}
