/* cmd_doctor.c - `eacgm doctor`: what this host can trace; for each thing it cannot, why,
 * and what to do. Tries features instead of reading version numbers. */
#include <errno.h>
#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_out.h"
#include "cli/doctor_privileges.h"
#include "base/human.h"
#include "cli/options.h"
#include "collect/nvml.h"
#include "collect/registry.h"
#include "cli/terminal.h"
#include "probe/plan.h"
#include "probe/refusal.h"
#include "probe/tracer.h"
#include "symbolize/kallsyms.h"

static const char *const description[] = {
	"Checks what tracing needs: privileges, kernel features (each by trying it), and what "
	"there is to trace. Each problem comes with its reason and its remedy. The exit status "
	"is 0 when calls can be recorded, else 1.",
	NULL,
};

static const struct opt_def options[] = {
	{0, "json", NULL, "Print JSON.", NULL, 0},
	{0},
};

static const struct cmd_example examples[] = {
	{"sudo eacgm doctor", "can this host be traced?"},
	{0},
};

enum verdict { GOOD, LIMITED, BAD, ABSENT };
static const char *const verdict_names[] = {"ok", "limited", "missing", "absent"};

struct diagnosis {
	json_t *checks;
	json_t *refused; /* a BPF program, and what the kernel's verifier said; or NULL */
	bool can_record;
};

/* Paths, names of devices and what goes wrong with them come from outside. */
static void add(struct diagnosis *d, const char *check, enum verdict v, const char *detail,
		const char *remedy)
{
	char *clean_check = text_clean(check), *clean_detail = text_clean(detail);
	json_array_append_new(d->checks, json_pack("{s:s s:s s:s s:s}", "check", clean_check,
						   "verdict", verdict_names[v], "detail",
						   clean_detail, "remedy", remedy));
	free(clean_check);
	free(clean_detail);
	if (v == BAD)
		d->can_record = false;
}

/* ---- the kernel ---- */

static void check_privileges(struct diagnosis *d)
{
	if (geteuid() == 0)
		add(d, "privileges", GOOD, "root", "");
	else
		add(d, "privileges", BAD, "not root",
		    "run with sudo; what is kept of root's rights is listed below");
}

static void check_kernel(struct diagnosis *d)
{
	struct utsname u;
	uname(&u);
	add(d, "kernel", GOOD, u.release, "");
	const char *btf = getenv("EACGM_BTF");
	if (!btf)
		btf = "/sys/kernel/btf/vmlinux";
	if (!access(btf, R_OK))
		add(d, "kernel type information (BTF)", GOOD, btf, "");
	else
		add(d, "kernel type information (BTF)", BAD, "absent",
		    "use a kernel built with CONFIG_DEBUG_INFO_BTF=y");
}

static void check_attach(struct diagnosis *d)
{
	struct err e = {0};
	enum attach_method m = attach_try_methods(&e);
	switch (m) {
	case ATTACH_SESSION:
		add(d, "uprobes", GOOD, "session links (one for entry and return)", "");
		break;
	case ATTACH_MULTI:
		add(d, "uprobes", GOOD, "multi links (one for each direction)", "");
		break;
	case ATTACH_SINGLE:
		add(d, "uprobes", LIMITED,
		    "one perf event per probe: attaching thousands takes long",
		    "a kernel of 6.6 or later attaches them in milliseconds");
		break;
	default:
		add(d, "uprobes", BAD, e.msg,
		    geteuid() ? "run as root" : "use a kernel built with CONFIG_UPROBE_EVENTS=y");
	}
}

/* Of processor time, where the kernel emulates the probed instruction. */
static void check_cost(struct diagnosis *d, struct tracer *t)
{
	struct call_costs costs;
	struct err e;
	char text[160];
	if (tracer_measure_calls(t, &costs, &e)) {
		add(d, "cost of a traced call", LIMITED, e.msg, "");
		return;
	}
	double more_ns = costs.traps.stepped_ns - costs.traps.entry_ns;
	snprintf(text, sizeof(text),
		 "a traced call costs %.2f us here, its record included (%.1f us where the kernel "
		 "has to single-step)",
		 costs.call_ns / 1e3, (costs.call_ns + more_ns) / 1e3);
	add(d, "cost of a traced call", GOOD, text, "");
}

static void add_refusal(struct diagnosis *d)
{
	const struct refusal *r = tracer_refusal();
	if (!r || d->refused)
		return;
	json_t *lines = json_array();
	for (const char *at = r->lines; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		char *line = xasprintf("%.*s", (int)strcspn(at, "\n"), at);
		char *clean = text_clean(line);
		json_array_append_new(lines, json_string(clean));
		free(clean);
		free(line);
	}
	d->refused = json_pack("{s:s s:o}", "program", r->program, "verifier", lines);
}

/* Those of all that record and the agent can be told to do, but stacks: nothing of it is on. */
static void check_programs(struct diagnosis *d)
{
	struct catalog none = {0};
	struct tracer_options opts = {.catalog = &none,
				      .btf_path = getenv("EACGM_BTF"),
				      .counts_waits = true,
				      .counts_stalls = true,
				      .disk_io = true,
				      .sockets = true,
				      .leaves_out = true,
				      .counts_hits = true,
				      .loads_inside = true};
	struct tracer *t = NULL;
	struct tracer_stats st;
	struct err e = {0};
	if (geteuid())
		return; /* said above */
	if (tracer_open(&t, &opts, &e)) {
		add(d, "BPF programs", BAD, e.msg, "");
		add_refusal(d);
		return;
	}
	tracer_stats(t, &st);
	add(d, "BPF programs", GOOD, "loaded and verified", "");
	if (st.can_hold) {
		add(d, "C++ exceptions", GOOD, "may pass traced functions", "");
		add(d, "late libraries", GOOD, "held until their probes are attached", "");
	}
	check_cost(d, t);
	tracer_close(t);
}

/* Whether stacks can be taken: the programs, a clock on a CPU, the scheduler's tracepoints. */
static void check_stacks(struct diagnosis *d)
{
	struct catalog none = {0};
	struct tracer_options opts = {.catalog = &none,
				      .btf_path = getenv("EACGM_BTF"),
				      .stacks = true,
				      .sample_hz = 99,
				      .waits = true,
				      .loads_inside = true};
	struct tracer *t = NULL;
	struct err e = {0};
	if (geteuid())
		return; /* said above */
	if (tracer_open(&t, &opts, &e) || tracer_start_sampling(t, &e)) {
		add(d, "stacks", LIMITED, e.msg, "record with --profile off");
		add_refusal(d);
	} else {
		add(d, "stacks", GOOD, "CPU clock, waits, and at calls", "");
	}
	char symbol[KERNEL_SYMBOL_TEXT];
	bool kernel_tells = t && tracer_kernel_symbol(t, 0, symbol, sizeof(symbol));
	tracer_close(t);
	if (kernel_tells)
		return;
	struct kallsyms *k = kallsyms_load("/proc");
	if (!k)
		add(d, "names of the kernel's functions", LIMITED,
		    "/proc/kallsyms tells no addresses", "sysctl kernel.kptr_restrict=1");
	kallsyms_free(k);
}

static void check_limits(struct diagnosis *d)
{
	struct statvfs fs;
	char text[64];
	if (statvfs(".", &fs))
		return;
	double gigabytes = (double)fs.f_bavail * (double)fs.f_frsize / 1e9;
	snprintf(text, sizeof(text), "%.1f GB free here", gigabytes);
	add(d, "disk", gigabytes < 0.2 ? LIMITED : GOOD, text,
	    gigabytes < 0.2 ? "write elsewhere: record -o /path/run.eacgm" : "");
}

/* ---- GPUs ---- */

static void count_gpu(void *ctx, uint64_t time_ns, const struct gpu_info *info, bool present)
{
	char text[256];
	(void)time_ns;
	if (!present || info->parent >= 0)
		return;
	snprintf(text, sizeof(text), "%s, %.0f GB, driver %s%s", info->name,
		 (double)info->memory_bytes / 1e9, info->driver, info->has_gpm ? ", GPM" : "");
	add(ctx, info->entity, GOOD, text, "");
}

static void check_gpus(struct diagnosis *d)
{
	const struct collect_env env = {.nvml_library = getenv("EACGM_NVML")};
	const struct collect_sink sink = {.ctx = d, .gpu = count_gpu};
	void *nvml = NULL;
	struct err e = {0};
	if (collector_nvml.open(&nvml, &env, &sink, &e)) {
		add(d, "GPU telemetry", ABSENT, e.msg, "");
		return;
	}
	collector_nvml.read(nvml, monotonic_ns());
	collector_nvml.close(nvml);
	add(d, "GPU telemetry", GOOD, "NVML answers", "");
	if (!access("/sys/kernel/tracing/events/nvidia/nvidia_dev_xid", F_OK) ||
	    !access("/sys/kernel/debug/tracing/events/nvidia/nvidia_dev_xid", F_OK))
		add(d, "Xid errors", GOOD, "the driver's tracepoint", "");
	else
		add(d, "Xid errors", LIMITED, "by NVML: without the driver's sentence",
		    "mount tracefs, or use a driver of 580 or later");
}

/* ---- what there is to trace ---- */

/* Plans a file of the catalog: how much of a layer is found in it. */
static void check_file(struct diagnosis *d, const struct catalog *c, const char *what,
		       const char *path)
{
	struct plan plan = {.catalog = c, .layers = ~0u, .frequent = true};
	struct elf_file *f;
	struct file_plan fp = {0};
	struct err e;
	char text[4224];
	unsigned sites = 0, stepped = 0;
	if (elf_file_open(&f, path, &e))
		return;
	if (!plan_file(&plan, f, path, &fp, &e)) {
		for (size_t i = 0; i < fp.sites.len; i++) {
			sites++;
			stepped += fp.sites.data[i].cost == INSN_STEPPED;
		}
	}
	snprintf(text, sizeof(text), "%s: %u functions%s", path, sites,
		 elf_file_has_symtab(f) ? "" : " (stripped: exported ones only)");
	if (sites)
		add(d, what, stepped > sites / 2 ? LIMITED : GOOD, text,
		    stepped > sites / 2 ? "most probes would be single-stepped, which is slow"
					: "");
	file_plan_free(&fp);
	plan_free(&plan);
	elf_file_close(f);
}

static void check_files(struct diagnosis *d, const struct catalog *c, const char *what,
			const char *const *globs, size_t n, const char *absent)
{
	size_t before = json_array_size(d->checks);
	char seen[16][4096];
	size_t seen_len = 0;
	for (size_t i = 0; i < n; i++) {
		glob_t g;
		if (glob(globs[i], 0, NULL, &g))
			continue;
		for (size_t k = 0; k < g.gl_pathc && seen_len < 16; k++) {
			char real[4096];
			bool known = !realpath(g.gl_pathv[k], real);
			for (size_t s = 0; s < seen_len; s++)
				known |= !strcmp(seen[s], real);
			if (known)
				continue;
			memcpy(seen[seen_len++], real, sizeof(real));
			check_file(d, c, what, real);
		}
		globfree(&g);
	}
	if (json_array_size(d->checks) == before)
		add(d, what, ABSENT, absent, "");
}

static void check_software(struct diagnosis *d)
{
	static const char *const pythons[] = {"/usr/bin/python3",
					      "/usr/local/bin/python3",
					      "/usr/lib/x86_64-linux-gnu/libpython3*.so.1.0",
					      "/opt/conda/bin/python3",
					      "/root/.pyenv/versions/*/bin/python3",
					      "/home/*/.pyenv/versions/*/bin/python3"};
	static const char *const torches[] = {
		"/usr/lib/x86_64-linux-gnu/libtorch_cpu.so*",
		"/usr/lib/python3*/*-packages/torch/lib/libtorch_cpu.so",
		"/usr/local/lib/python3*/*-packages/torch/lib/libtorch_cpu.so",
		"/opt/*/lib/python3*/site-packages/torch/lib/libtorch_cpu.so",
		"/opt/*/.venv/lib/python3*/site-packages/torch/lib/libtorch_cpu.so",
	};
	struct catalog c = {0};
	struct err e;
	if (catalog_load_builtin(&c, &e)) {
		add(d, "catalog", BAD, e.msg, "");
		return;
	}
	check_files(d, &c, "Python", pythons, sizeof(pythons) / sizeof(pythons[0]),
		    "no interpreter in the usual places; others are found when a job runs them");
	static const char *const drivers[] = {
		"/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1",
		"/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"};
	static const char *const nccls[] = {
		"/usr/lib/x86_64-linux-gnu/libnccl.so.2",
		"/usr/local/cuda*/lib64/libnccl.so.2",
		"/usr/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2",
		"/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2",
		"/opt/*/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
		"/opt/*/.venv/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
	};
	check_files(d, &c, "CUDA driver", drivers, sizeof(drivers) / sizeof(drivers[0]),
		    "libcuda.so.1 not in the usual places; it is found when a job loads it");
	check_files(d, &c, "NCCL", nccls, sizeof(nccls) / sizeof(nccls[0]),
		    "not in the usual places; it is found when a job loads it");
	check_files(d, &c, "PyTorch", torches, sizeof(torches) / sizeof(torches[0]),
		    "not in the usual places; it is found when a job loads it");
	catalog_free(&c);
}

/* ---- output ---- */

static void print_refusal(const json_t *refused)
{
	size_t i;
	json_t *line;
	printf("\nWhat the kernel's verifier said last of %s:\n",
	       json_string_value(json_object_get(refused, "program")));
	json_array_foreach (json_object_get(refused, "verifier"), i, line)
		printf("  %s\n", json_string_value(line));
}

static void print_text(const struct diagnosis *d, const json_t *privileges)
{
	static const char *const colours[] = {"\033[32m", "\033[33m", "\033[31m", "\033[2m"};
	bool colour = terminal_colour(stdout);
	size_t i;
	json_t *c;
	json_array_foreach (d->checks, i, c) {
		const char *verdict = json_string_value(json_object_get(c, "verdict"));
		const char *remedy = json_string_value(json_object_get(c, "remedy"));
		const char *on = "";
		for (int v = 0; v < 4 && colour; v++) {
			if (!strcmp(verdict, verdict_names[v]))
				on = colours[v];
		}
		printf("%s%-8s%s %-30s %s\n", on, verdict, colour ? "\033[0m" : "",
		       json_string_value(json_object_get(c, "check")),
		       json_string_value(json_object_get(c, "detail")));
		if (remedy[0])
			printf("%-8s %-30s -> %s\n", "", "", remedy);
	}
	if (d->refused)
		print_refusal(d->refused);
	doctor_privileges_print(privileges);
	puts(d->can_record ? "\nThis host can be traced." : "\nThis host cannot be traced yet.");
}

static int run(const struct args *a)
{
	struct diagnosis d = {.checks = json_array(), .can_record = true};
	check_privileges(&d);
	check_kernel(&d);
	check_attach(&d);
	check_programs(&d);
	check_stacks(&d);
	check_limits(&d);
	check_gpus(&d);
	check_software(&d);
	json_t *privileges = doctor_privileges();
	if (args_has(a, "json")) {
		json_t *top = json_pack("{s:b s:O s:O}", "can_record", d.can_record, "checks",
					d.checks, "privileges", privileges);
		if (d.refused)
			json_object_set(top, "refused", d.refused);
		json_out_file(top, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(top);
	} else {
		print_text(&d, privileges);
	}
	json_decref(privileges);
	json_decref(d.checks);
	json_decref(d.refused);
	return d.can_record ? 0 : 1;
}

const struct command cmd_doctor = {
	.name = "doctor",
	.synopsis = "[OPTION...]",
	.summary = "what this host can trace, and what is missing",
	.description = description,
	.options = options,
	.examples = examples,
	.min_args = 0,
	.max_args = 0,
	.run = run,
};
