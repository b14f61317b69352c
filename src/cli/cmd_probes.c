/* cmd_probes.c - `eacgm probes`: the catalog, and where each entry would attach in files
 * or in the files that processes have mapped. Attaches nothing and needs no root for
 * files and one's own processes. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json_out.h"
#include "base/map64.h"
#include "base/human.h"
#include "cli/options.h"
#include "cli/target_args.h"
#include "probe/plan.h"

static const char *const description[] = {
	"Without a target, lists the catalog: what can be traced. With files or a target, shows "
	"for each file and catalog entry how many places would be probed, and on what "
	"instructions: the kernel emulates some ('emulated': cheap) and single-steps all others "
	"('stepped': ten times as much).",
	NULL,
};

static const struct opt_def options[] = {
	TARGET_OPTIONS,
	CATALOG_OPTIONS,
	{0, "probes", "WHERE",
	 "inprocess: also how many of the places record --probes inprocess would tell inside of "
	 "the "
	 "process, and why not the others.",
	 "kernel|inprocess", 0},
	{0, "json", NULL, "Print JSON.", NULL, 0},
	{0},
};

static const struct cmd_example examples[] = {
	{"eacgm probes", "what can be traced"},
	{"sudo eacgm probes -p 4242", "where it would be traced in a running process"},
	{"eacgm probes /usr/bin/python3.11", "in one file"},
	{0},
};

struct listing {
	struct plan plan;
	struct map64 seen; /* hash of device and inode: files that were planned */
	json_t *entries;   /* the rows; text is printed from them too */
	int unreadable;	   /* files */
	int closed;	   /* processes whose files this user may not see */
};

/* ---- rows ---- */

static void add_row(struct listing *l, const struct cat_entry *en, const char *library,
		    bool attached, unsigned sites, const char *placement, const char *reason)
{
	json_t *row = json_pack("{s:s s:s s:s s:b s:i s:s s:s}", "layer",
				catalog_layer_name(l->plan.catalog, en->layer), "name", en->id,
				"library", library, "attached", attached, "sites", (int)sites,
				"placement", placement, "reason", reason);
	json_array_append_new(l->entries, row);
}

/* "; 3 inside, the others not: it is too short" */
static void add_inside(char *placement, size_t size, const struct entry_result *r)
{
	size_t len = strlen(placement);
	if (r->inside == r->sites)
		snprintf(placement + len, size - len, "; all inside");
	else
		snprintf(placement + len, size - len, "; %u inside%s%s", r->inside,
			 r->outside[0] ? ", not: " : "", r->outside);
}

static void add_result(struct listing *l, const char *path, const struct entry_result *r)
{
	char placement[256] = "";
	const unsigned cheap = r->by_cost[INSN_NOP5] + r->by_cost[INSN_EMULATED];
	const unsigned stepped = r->by_cost[INSN_STEPPED];
	if (cheap && stepped)
		snprintf(placement, sizeof(placement), "%u emulated, %u stepped", cheap, stepped);
	else if (cheap || stepped)
		snprintf(placement, sizeof(placement), "%s", cheap ? "emulated" : "stepped");
	if (l->plan.inside && r->sites)
		add_inside(placement, sizeof(placement), r);
	add_row(l, r->entry, path, r->sites > 0, r->sites, placement, r->reason);
}

static void list_catalog(struct listing *l)
{
	for (size_t i = 0; i < l->plan.catalog->entries.len; i++) {
		const struct cat_entry *en = &l->plan.catalog->entries.data[i];
		if (!(l->plan.layers & 1u << en->layer))
			continue;
		struct buf globs = {0};
		for (size_t g = 0; g < en->libraries.len; g++)
			buf_printf(&globs, "%s%s", g ? " " : "", en->libraries.data[g]);
		buf_byte(&globs, 0);
		add_row(l, en, (const char *)globs.data, false, 0, "",
			en->off_by_default ? "off by default (--everything)"
			: en->cost == CAT_COST_HIGH
				? "off by default: frequent (--layers with its layer)"
			: en->about ? en->about
				    : "");
		buf_free(&globs);
	}
}

/* ---- files and processes ---- */

static int plan_one(struct listing *l, int fd, const char *path, struct err *e)
{
	struct elf_file *f;
	struct file_plan fp;
	int rc = elf_file_open_fd(&f, fd, path, 0, e);
	if (rc)
		return rc;
	rc = plan_file(&l->plan, f, path, &fp, e);
	elf_file_close(f);
	if (rc)
		return rc;
	for (size_t i = 0; i < fp.results.len; i++)
		add_result(l, path, &fp.results.data[i]);
	file_plan_free(&fp);
	return 0;
}

static int plan_named(struct listing *l, const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return err_set(e, errno, "%s: %s", path, strerror(errno));
	int rc = plan_one(l, fd, path, e);
	close(fd);
	return rc;
}

static void plan_process(struct listing *l, pid_t pid)
{
	proc_maps_t maps = {0};
	struct err e;
	int rc = proc_code_read("/proc", pid, &maps, &e);
	if (rc) {
		l->closed += rc == -EACCES || rc == -EPERM;
		return;
	}
	for (size_t i = 0; i < maps.len; i++) {
		const struct proc_map *m = &maps.data[i];
		uint64_t known, key = hash_u64(m->device) ^ m->inode;
		if (!m->inode || !plan_wants(&l->plan, m->path) || map64_get(&l->seen, key, &known))
			continue;
		map64_set(&l->seen, key, 1);
		int fd = proc_map_open("/proc", pid, m, NULL);
		if (fd < 0 || plan_one(l, fd, m->path, &e))
			l->unreadable++;
		if (fd >= 0)
			close(fd);
	}
	proc_maps_free(&maps);
}

static void plan_target(struct listing *l, const struct target *t)
{
	pids_t everyone = {0};
	const pids_t *pids = &t->pids;
	if (t->all) {
		proc_all("/proc", &everyone);
		pids = &everyone;
	}
	for (size_t i = 0; i < pids->len; i++)
		plan_process(l, pids->data[i]);
	vec_free(&everyone);
}

/* ---- output ---- */

static const char *text_of(const json_t *row, const char *key)
{
	return json_string_value(json_object_get(row, key));
}

static void print_text(const struct listing *l, bool planned)
{
	size_t i;
	json_t *row;
	const char *library = "";
	if (!planned)
		printf("%-8s %-32s %s\n", "LAYER", "ENTRY", "LIBRARIES");
	json_array_foreach (l->entries, i, row) {
		const char *reason = text_of(row, "reason");
		if (!planned) {
			text_printf(stdout, "%-8s %-32s %s\n", text_of(row, "layer"),
				    text_of(row, "name"), text_of(row, "library"));
			text_printf(stdout, "%-8s   %s\n", "", reason);
			continue;
		}
		if (strcmp(library, text_of(row, "library"))) {
			library = text_of(row, "library");
			text_printf(stdout, "%s\n", library);
		}
		text_printf(stdout, "  %-8s %-32s %6lld  %s%s%s\n", text_of(row, "layer"),
			    text_of(row, "name"),
			    (long long)json_integer_value(json_object_get(row, "sites")),
			    text_of(row, "placement"),
			    reason[0] && text_of(row, "placement")[0] ? "; " : "", reason);
	}
	if (!json_array_size(l->entries) && !l->closed)
		puts("no file of the target is in the catalog (see 'eacgm probes' for what is)");
	if (l->closed)
		printf("%d %s could not be looked into: run as root\n", l->closed,
		       l->closed == 1 ? "process" : "processes");
	if (l->unreadable)
		printf("%d files could not be read: run as root\n", l->unreadable);
}

static int list(const struct args *a, struct listing *l, const struct target *t, struct err *e)
{
	bool planned = a->words.len || t->pids.len || t->all || t->cgroup;
	int rc = 0;
	for (size_t i = 0; i < a->words.len && !rc; i++)
		rc = plan_named(l, a->words.data[i], e);
	if (rc)
		return rc;
	if (planned)
		plan_target(l, t);
	else
		list_catalog(l);
	if (args_has(a, "json")) {
		json_t *top = json_pack("{s:O}", "entries", l->entries);
		json_out_file(top, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(top);
	} else {
		print_text(l, planned);
	}
	return 0;
}

static int run(const struct args *a)
{
	struct err e = {0};
	struct target target = {0};
	struct catalog catalog = {0};
	struct listing l = {.entries = json_array()};
	int rc = catalog_from_args(&catalog, a, &e);
	if (!rc && layers_from_args(&l.plan.layers, &catalog, a, &e)) {
		catalog_free(&catalog);
		json_decref(l.entries);
		return usage_error(a->command, "%s", e.msg);
	}
	if (!rc)
		rc = target_parse(&target, a, &e);
	l.plan.catalog = &catalog;
	l.plan.frequent = args_has(a, "layers");
	l.plan.all_entries = args_has(a, "everything");
	l.plan.inside = args_has(a, "probes") && !strcmp(args_get(a, "probes"), "inprocess");
	if (!rc)
		rc = list(a, &l, &target, &e);
	plan_free(&l.plan);
	map64_free(&l.seen);
	json_decref(l.entries);
	catalog_free(&catalog);
	target_free(&target);
	return rc ? command_failed(a->command, &e) : 0;
}

const struct command cmd_probes = {
	.name = "probes",
	.synopsis = "[TARGET] [OPTION...] [FILE...]",
	.summary = "what can be traced, and where each entry would attach",
	.description = description,
	.options = options,
	.examples = examples,
	.min_args = 0,
	.max_args = -1,
	.run = run,
};
