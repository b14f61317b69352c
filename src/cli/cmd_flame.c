/* cmd_flame.c - eacgm flame: flame graphs and profiles of a recording. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "analyze/flame.h"
#include "base/human.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "export/flame.h"
#include "export/output.h"
#include "recording/recording.h"
#include "report/report.h"
#include "symbolize/demangle.h"

/* ---- options ---- */

static int moment_from(struct flame_options *o, const struct args *a, struct err *e)
{
	const char *at = args_get(a, "at");
	if (!at)
		return 0;
	o->at = !strcmp(at, "end")    ? FLAME_AT_END
		: !strcmp(at, "peak") ? FLAME_AT_PEAK
				      : FLAME_AT_TIME;
	if (o->kind != FLAME_GPU_INUSE)
		return err_set(e, EINVAL, "'--at' is for '--kind gpu-inuse'");
	return o->at == FLAME_AT_TIME ? args_time(a, "at", 0, TIME_TEXT_MOST_NS, &o->at_ns, e) : 0;
}

static enum flame_level level_from(const struct args *a)
{
	const char *level = args_get(a, "level");
	if (!level || !strcmp(level, "auto"))
		return FLAME_AUTO;
	return !strcmp(level, "torch") ? FLAME_TORCH : FLAME_DRIVER;
}

static int options_from(struct flame_options *o, const struct args *a, struct err *e)
{
	const char *kind = args_get(a, "kind"), *backward = args_get(a, "backward");
	const char *format = args_get(a, "format");
	uint64_t pid = 0, tid = 0;
	*o = (struct flame_options){
		.kind = flame_kind_of(kind ? kind : "cpu"),
		.native = args_has(a, "native"),
		.lines = args_has(a, "lines"),
		.processes = args_has(a, "processes"),
		.threads = args_has(a, "threads"),
		.wakers = args_has(a, "wakers"),
		.level = level_from(a),
		.backward = backward && !strcmp(backward, "own") ? FLAME_BACKWARD_OWN
								 : FLAME_BACKWARD_FORWARD,
		.moments = format && !strcmp(format, "speedscope") && !args_has(a, "diff"),
		.demangle = demangle,
	};
	int rc = args_u64(a, "process", 1, UINT32_MAX, &pid, e);
	rc = rc ? rc : args_u64(a, "thread", 1, UINT32_MAX, &tid, e);
	rc = rc ? rc : args_time(a, "from", 0, TIME_TEXT_MOST_NS, &o->from_ns, e);
	rc = rc ? rc : args_time(a, "to", 1, TIME_TEXT_MOST_NS, &o->to_ns, e);
	rc = rc ? rc : moment_from(o, a, e);
	o->pid = (uint32_t)pid;
	o->tid = (uint32_t)tid;
	if (!rc && args_has(a, "to") && o->to_ns <= o->from_ns)
		rc = err_set(e, EINVAL, "'--to' must be later than '--from'");
	return rc;
}

/* run.eacgm -> run.cpu.svg, beside it. */
static char *output_path(const struct args *a, const struct flame_format *format)
{
	static const char end[] = ".eacgm";
	const char *path = a->words.data[0], *wanted = args_get(a, "output");
	const char *kind = args_get(a, "kind");
	size_t len = strlen(path);
	if (wanted)
		return xstrdup(strcmp(wanted, "-") != 0 ? wanted : "/dev/stdout");
	if (len > sizeof(end) - 1 && !strcmp(path + len - (sizeof(end) - 1), end))
		len -= sizeof(end) - 1;
	return xasprintf("%.*s.%s%s.%s", (int)len, path, kind ? kind : "cpu",
			 args_has(a, "diff") ? ".diff" : "", format->extension);
}

/* ---- work ---- */

static void show_progress(void *ctx, uint64_t done, uint64_t total)
{
	progress_step(ctx, done, total);
}

/* Files are named without their folders where that tells them apart. */
static const char *title_name(const char *path, const char *other)
{
	const char *slash = strrchr(path, '/'), *other_slash = strrchr(other, '/');
	const char *name = slash ? slash + 1 : path;
	return strcmp(name, other_slash ? other_slash + 1 : other) != 0 ? name : path;
}

static int make_tree(struct calltree *ret, const struct args *a, const struct flame_options *wanted,
		     const struct rec_reader *reader, const struct rec_reader *base, struct err *e)
{
	struct flame_options o = *wanted;
	struct progress progress;
	progress_begin(&progress, "reading");
	o.visit.progress = show_progress;
	o.visit.progress_ctx = &progress;
	const char *path = a->words.data[0], *base_path = args_get(a, "diff");
	int rc;
	if (base)
		rc = flame_make_diff(ret, rec_source(reader), title_name(path, base_path),
				     rec_source(base), title_name(base_path, path),
				     !args_has(a, "no-normalize"), &o, e);
	else
		rc = flame_make(ret, rec_source(reader), &o, e);
	progress_end(&progress);
	return rc;
}

/* Signals wait until the file is named or taken away; writing takes a moment. What is written to
 * directly may wait for its reader for ever, and leaves nothing to take away. A reader that goes
 * away is an error like a full disk. */
static int write_tree(const struct calltree *t, const struct flame_format *format, const char *path,
		      struct err *e)
{
	struct output output;
	struct output_owner owner = output_owner_from_sudo();
	sigset_t waiting, before;
	sigemptyset(&waiting);
	if (!output_file_is_direct(path))
		sigfillset(&waiting);
	sigprocmask(SIG_BLOCK, &waiting, &before);
	signal(SIGPIPE, SIG_IGN);
	int rc = output_open(&output, path, &owner, e);
	if (!rc) {
		errno = 0;
		rc = format->write(output.stream, t, e);
		if (!rc && ferror(output.stream))
			rc = output_error(&output, e);
		rc = output_close(&output, rc, e);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static const char *human_weight(char ret[static HUMAN_BYTES], const struct calltree *t)
{
	uint64_t total = (uint64_t)t->nodes.data[0].total[0];
	if (!strcmp(t->unit, "ns"))
		return human_ns(ret, total);
	return !strcmp(t->unit, "bytes") ? human_bytes(ret, total) : human_count(ret, total);
}

static void tell(const struct args *a, const struct calltree *t, const struct rec_reader *r,
		 const char *path)
{
	char weight[HUMAN_BYTES], nodes[HUMAN_BYTES];
	if (rec_tables(r)->damaged_at)
		fprintf(stderr,
			"eacgm %s: the recording is damaged, what follows is left out: %s\n",
			a->command->name, rec_tables(r)->damage);
	text_printf(stderr, "%s: %s: %s in %s frames\n", path, t->title, human_weight(weight, t),
		    human_count(nodes, t->nodes.len - 1));
}

static int run_with(const struct args *a, const struct flame_options *o,
		    const struct rec_reader *reader, const struct rec_reader *base, struct err *e)
{
	const char *name = args_get(a, "format");
	const struct flame_format *format = flame_format(name ? name : "svg");
	struct calltree tree;
	int rc = make_tree(&tree, a, o, reader, base, e);
	if (rc)
		return rc;
	char *path = output_path(a, format);
	rc = write_tree(&tree, format, path, e);
	if (!rc)
		tell(a, &tree, reader, path);
	free(path);
	calltree_free(&tree);
	return rc;
}

static int run(const struct args *a)
{
	struct err e = {0};
	struct flame_options o;
	if (options_from(&o, a, &e))
		return usage_error(a->command, "%s", e.msg);
	struct rec_reader *reader = NULL, *base = NULL;
	int rc = rec_open(&reader, a->words.data[0], &e);
	if (!rc && args_has(a, "diff"))
		rc = rec_open(&base, args_get(a, "diff"), &e);
	if (!rc)
		rc = report_check_from(rec_tables(reader), o.from_ns, &e);
	if (!rc)
		rc = run_with(a, &o, reader, base, &e);
	rec_close(base);
	rec_close(reader);
	return rc ? command_failed(a->command, &e) : 0;
}

static const struct opt_def options[] = {
	{'k', "kind", "KIND",
	 "Of what: cpu (time on the CPU; the default), offcpu (time that threads waited, by "
	 "reason), gpu (GPU time by who launched it, or launches where the recording has no GPU "
	 "times), gpu-alloc (GPU memory allocated), gpu-inuse (GPU memory allocated and not yet "
	 "freed, see --at), pinned (pinned host memory allocated).",
	 "cpu|offcpu|gpu|gpu-alloc|gpu-inuse|pinned", 0},
	{'f', "format", "FORMAT",
	 "svg (a page that is zoomed and searched in a browser; the default), folded (lines for "
	 "flamegraph.pl and its kin), pprof (for go tool pprof and Pyroscope) or speedscope (for "
	 "speedscope.app).",
	 "svg|folded|pprof|speedscope", 0},
	{'o', "output", "FILE",
	 "Where to write; '-' is the standard output. Unless told, a file beside the recording, "
	 "with its name, the kind and the ending of the format.",
	 NULL, OPT_FILE},
	{0, "diff", "BASE",
	 "Show what has changed against this recording, of the same kind: what takes more is red, "
	 "what takes less is blue.",
	 NULL, OPT_FILE},
	{0, "no-normalize", NULL,
	 "With --diff: compare as it is. Unless told, the base is scaled to the same total.", NULL,
	 0},
	{'p', "process", "PID", "This process only.", NULL, 0},
	{0, "thread", "TID", "This thread only.", NULL, 0},
	{0, "from", "TIME",
	 "Only what begins from this time of the recording on: seconds, or with a unit, as 1.5, "
	 "200ms or 3m.",
	 NULL, 0},
	{0, "to", "TIME", "Only what begins before this time of the recording.", NULL, 0},
	{0, "processes", NULL,
	 "Tell processes apart that ran the same program; they are put together unless told.", NULL,
	 0},
	{0, "threads", NULL, "Make the thread's name the first frame.", NULL, 0},
	{0, "lines", NULL,
	 "Tell frames of one function apart by line; frames without a name by address.", NULL, 0},
	{0, "native", NULL,
	 "Keep the Python interpreter's own frames between Python frames; they are left out "
	 "otherwise.",
	 NULL, 0},
	{0, "wakers", NULL, "Of kind offcpu: below the reason, which thread ended the waiting.",
	 NULL, 0},
	{0, "level", "LEVEL",
	 "Whose GPU memory counts: driver (what the driver gave), torch (what PyTorch's caching "
	 "allocator gave of that) or auto (torch where the recording has it; the default).",
	 "auto|driver|torch", 0},
	{0, "backward", "WHERE",
	 "Of kind gpu: where kernels of backward passes stand: forward (under the call of their "
	 "operator in the forward pass; the default) or own (under the stack that launched them).",
	 "forward|own", 0},
	{0, "at", "MOMENT",
	 "Of kind gpu-inuse: end (of the recording, or of the process; the default), peak (of each "
	 "process and device for itself), or a time from the recording's start.",
	 NULL, 0},
	{0},
};

static const char *const description[] = {
	"Writes a flame graph: which stacks of calls, from the thread's start through Python, "
	"native code and PyTorch operators down to GPU kernels, took the time or the memory. The "
	"width of a frame is its share.",
	"What a kind needs is recorded with 'eacgm record --profile'. Nothing is lost between the "
	"recording and the graph: what has no stack stands under '[stack not taken]', and a stack "
	"that is not whole begins with '[cut: REASON]'.",
	"The file appears under its name when it is whole: a failure leaves what was there before.",
	NULL,
};

static const struct cmd_example examples[] = {
	{"eacgm flame run.eacgm", "Writes run.cpu.svg, to be opened in a browser."},
	{"eacgm flame run.eacgm -k gpu -f speedscope", "Writes run.gpu.speedscope.json."},
	{"eacgm flame run.eacgm -k gpu-inuse --at peak",
	 "Who holds the GPU's memory when most of it is in use."},
	{"eacgm flame new.eacgm --diff old.eacgm", "What takes more time than before."},
	{"eacgm flame run.eacgm -k offcpu --from 10 --to 20 -f folded -o - | sort",
	 "What was waited for in ten seconds of the run."},
	{0},
};

const struct command cmd_flame = {
	.name = "flame",
	.synopsis = "FILE [-k KIND] [-f FORMAT] [-o OUT]",
	.summary = "draw flame graphs of CPU, waiting, GPU and memory",
	.description = description,
	.options = options,
	.examples = examples,
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
