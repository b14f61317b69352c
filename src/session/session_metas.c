/* session_metas.c - what a recording says of its own making, and what was expected and not found.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/program_name.h"
#include "session/live_setting.h"
#include "session/session_impl.h"

/* Names the boot: recordings of one boot have the same clock. */
static void write_boot_id(struct session *s)
{
	char id[64] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (f && fgets(id, sizeof(id), f)) {
		id[strcspn(id, "\n")] = 0;
		pipeline_meta(s->pipeline, "boot_id", "%s", id);
	}
	if (f)
		fclose(f);
}

/* CLOCK_REALTIME minus CLOCK_MONOTONIC: where the clocks of two hosts stand to each other. */
static void write_realtime_offset(struct session *s)
{
	pipeline_meta(s->pipeline, "realtime_offset_ns", "%ld", (long)realtime_offset_ns());
}

static void write_number(struct session *s, const char *key, uint64_t value)
{
	pipeline_meta(s->pipeline, key, "%lu", (unsigned long)value);
}

static void write_start(struct session *s, uint64_t start_ns)
{
	write_number(s, "start_realtime_ns", realtime_ns());
	write_number(s, "start_monotonic_ns", start_ns);
	write_realtime_offset(s);
}

void metas_begin_segment(struct session *s)
{
	write_start(s, monotonic_ns());
}

/* Of the arguments only what the program is: they may hold secrets. */
static void write_command(struct session *s)
{
	char *program = program_name_of(s->opts->command);
	pipeline_meta(s->pipeline, "command", "%s", s->opts->command[0]);
	pipeline_meta(s->pipeline, "program", "%s", program);
	free(program);
}

/* Whoever runs the same is no part of what is watched: process_is_own. */
static void write_own_executable(struct session *s)
{
	char exe[PATH_MAX];
	if (!proc_exe("/proc", getpid(), exe, sizeof(exe)))
		pipeline_meta(s->pipeline, "own_executable", "%s", exe);
}

void metas_begin(struct session *s)
{
	struct utsname u;
	char cpu[CPU_MODEL_BYTES];
	uname(&u);
	cpu_model(cpu);
	pipeline_meta(s->pipeline, "host", "%s", u.nodename);
	pipeline_meta(s->pipeline, "kernel", "%s", u.release);
	if (cpu[0])
		pipeline_meta(s->pipeline, "cpu", "%s", cpu);
	pipeline_meta(s->pipeline, "version", "%s", EACGM_VERSION);
	pipeline_meta(s->pipeline, "mode", "%s", s->opts->mode_text);
	pipeline_meta(s->pipeline, "target", "%s", s->opts->target_text);
	pipeline_meta(s->pipeline, "waits", "%d", s->opts->counts_waits);
	pipeline_meta(s->pipeline, "sample_hz", "%u", s->opts->sample_hz);
	write_own_executable(s);
	if (s->opts->command)
		write_command(s);
	if (s->call_costs_error.msg[0])
		pipeline_note(s->pipeline, "cost of probes", s->call_costs_error.msg);
	write_start(s, s->start_ns);
	write_boot_id(s);
	write_number(s, "cpus", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
}

static void write_running_cost(struct session *s)
{
	static const char *const names[SPENT_KINDS] = {"calls", "stepped",  "returns", "loads",
						       "ticks", "switches", "forks",   "execs",
						       "exits", "stalls"};
	struct tracer_spending spent[SPENT_KINDS];
	struct running_cost cost;
	char key[32];
	session_running_cost(s, spent, &cost);
	write_number(s, "running_cpu_ns", (uint64_t)cost.sum_ns);
	write_number(s, "traps_cpu_ns", (uint64_t)cost.traps_ns);
	for (int kind = 0; kind < SPENT_KINDS; kind++) {
		snprintf(key, sizeof(key), "spent_%s", names[kind]);
		if (spent[kind].runs)
			pipeline_meta(s->pipeline, key, "%lu, %.0f ns each",
				      (unsigned long)spent[kind].runs,
				      spent[kind].ns / (double)spent[kind].runs);
	}
	const struct trap_costs *traps = &s->call_costs.traps;
	pipeline_meta(s->pipeline, "trap_ns", "entry %.0f, stepped %.0f, return %.0f, mapping %.0f",
		      traps->entry_ns, traps->stepped_ns, traps->return_ns, traps->mapping_ns);
	pipeline_meta(s->pipeline, "slowed", "%.2f", cost.slowed);
}

/* Those that have ended told it themselves. */
static void tell_used(struct session *s)
{
	for (size_t i = 0; i < s->live.len; i++)
		pipeline_process_used(s->pipeline, s->live.data[i],
				      process_cpu_ns(s->live.data[i]));
}

static void write_costs(struct session *s)
{
	struct tracer_holds holds;
	uint64_t own_ns = session_cpu_ns(s);
	own_cost_look(&s->clock.cost, own_ns);
	write_number(s, "collector_cpu_ns", own_ns);
	write_number(s, "displacing_cpu_ns", s->clock.cost.displacing_ns);
	write_number(s, "start_cpu_ns", s->clock.start_cpu_ns);
	write_running_cost(s);
	tracer_holds(s->tracer, &holds);
	write_number(s, "holds", holds.count);
	write_number(s, "held_ns", holds.held_ns);
	write_number(s, "held_cpu_ns", holds.cpu_ns);
	/* a launched command's time is exact once it was waited for; others are sampled */
	write_number(s, "job_cpu_ns",
		     s->command.ended ? s->command.cpu_ns : collectors_cpu_ns(s->collectors));
}

/* How recording went on and off; how long the links took that came last, ahead of it. */
static void tell_bursts(struct session *s)
{
	const struct session_clock *c = &s->clock;
	write_number(s, "burst_switches", c->switches);
	write_number(s, "burst_switch_us", c->switches ? c->switching_ns / c->switches / 1000 : 0);
	write_number(s, "burst_switch_most_us", c->longest_switch_ns / 1000);
	pipeline_meta(s->pipeline, "burst_places_ms", "%.1f",
		      (double)tracer_places_on_ns(s->tracer) / 1e6);
}

void metas_end(struct session *s)
{
	struct tracer_stats st;
	tracer_stats(s->tracer, &st);
	write_number(s, "end_monotonic_ns", s->end_ns);
	tell_used(s);
	write_costs(s);
	pipeline_meta(s->pipeline, "attach_method", "%s", attach_method_name(st.method));
	write_number(s, "attach_sites", st.sites);
	write_number(s, "attach_sites_stepped", st.sites_stepped);
	pipeline_meta(s->pipeline, "attach_ms", "%.1f", (double)st.attach_ns / 1e6);
	pipeline_meta(s->pipeline, "plan_ms", "%.1f", (double)st.plan_ns / 1e6);
	if (s->opts->burst_on_ns)
		tell_bursts(s);
	write_number(s, "files_read", st.files_read);
	write_number(s, "files_cached", st.files_cached);
	write_number(s, "files_expected", st.files_expected);
	write_number(s, "places_mapped", st.places_mapped);
	if (!s->opts->stacks && !s->opts->sample_hz && !s->opts->waits)
		return;
	write_number(s, "unwind_files", st.unwinder.files);
	write_number(s, "unwind_files_cached", st.unwinder.cached);
	write_number(s, "unwind_files_shared", st.unwinder.shared);
	write_number(s, "unwind_files_refused", st.unwinder.refused);
	write_number(s, "unwind_bytes", st.unwinder.words_bytes);
	pipeline_meta(s->pipeline, "unwind_ms", "%.1f", (double)st.unwinder.build_ns / 1e6);
}

/* ---- what was expected and not found ---- */

struct found {
	const struct catalog *catalog;
	struct session *s;
	bool *met; /* per entry: a library of it was met */
};

static void note_result(void *ctx, const char *path, const struct entry_result *r)
{
	struct found *f = ctx;
	f->met[r->entry - f->catalog->entries.data] = true;
	if (r->reason[0] && !r->off && (r->entry->expected || cat_entry_is_users(r->entry)))
		pipeline_note(f->s->pipeline, path, r->reason);
}

/* An entry before it is of the same library, and tells of it. */
static bool is_told(const struct catalog *c, size_t i)
{
	const struct cat_entry *en = &c->entries.data[i];
	for (size_t k = 0; k < i && en->libraries.len; k++) {
		const struct cat_entry *before = &c->entries.data[k];
		if (before->libraries.len &&
		    !strcmp(before->libraries.data[0], en->libraries.data[0]))
			return true;
	}
	return false;
}

static bool is_expected(const struct session *s, const struct cat_entry *en)
{
	/* on a host without GPUs nobody expects them, but who asks for them by name */
	bool needs_gpu = layer_traits(en->layer) & LAYER_NEEDS_GPU;
	if (needs_gpu && !atomic_load(&s->saw_gpu) &&
	    !(s->opts->frequent && s->opts->layers != ~0u))
		return false;
	return s->opts->layers & 1u << en->layer && !en->off_by_default &&
	       (en->expected || cat_entry_is_users(en)) && en->libraries.len;
}

void metas_note_missing(struct session *s)
{
	const struct catalog *c = s->opts->catalog;
	struct found f = {.catalog = c, .s = s, .met = xcalloc(c->entries.len, sizeof(*f.met))};
	tracer_results(s->tracer, note_result, &f);
	for (size_t i = 0; i < c->entries.len; i++) {
		const struct cat_entry *en = &c->entries.data[i];
		if (is_expected(s, en) && !f.met[i] && !is_told(c, i))
			pipeline_note(s->pipeline, en->libraries.data[0], NOTE_NOT_LOADED);
	}
	free(f.met);
}
