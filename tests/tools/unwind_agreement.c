/* unwind_agreement.c - compares the stacks that the BPF programs walk with those of libdw, frame
 * by frame, at the same stop.
 *
 * The programs stop a sampled process with SIGSTOP before it runs its next instruction
 * (stops_at_samples in bpf/stack.h); then libdwfl walks the stack of the sampled thread, and the
 * process goes on. Python's frames are not put in: both sides see the interpreter's own.
 * Where the two differ both stacks are shown, with gdb's where --gdb is given. Needs root.
 *
 *   usage: unwind_agreement [--stops N] [--seconds S] [--until WORD] [--show N] [--gdb] -- CMD...
 *
 * --until: the command is sampled once it has printed WORD. Prints `name value` pairs at the end.
 *
 * links: probe symbolize parser base */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <elfutils/libdwfl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/map64.h"
#include "probe/tracer.h"
#include "symbolize/elf_file.h"
#include "symbolize/proc_maps.h"

#define HZ 997

struct stack {
	uint8_t end;
	uint32_t frames, kernel;
	uint64_t frame[STACK_FRAMES];
};

struct sampled {
	uint32_t tid;
	uint64_t stack;
};

/* What libdw says of one thread. */
struct walked {
	uint32_t frames;
	uint64_t frame[STACK_FRAMES];
	bool more;
};

struct options {
	unsigned stops, seconds, show;
	bool gdb;
	const char *until;
};

struct counts {
	unsigned stacks, agree, frames, moved, cut_both, differ, deepest;
	unsigned by_end[STACK_ENDS];
};

struct agreement {
	struct options opts;
	struct tracer *tracer;
	Dwfl *dwfl;
	uint64_t maps_hash;
	pid_t pid;
	VEC(struct stack *) stacks;
	struct map64 by_id; /* stack id -> index of stacks */
	VEC(struct sampled) samples;
	uint64_t bias_of[UNWIND_TABLES_MAX]; /* of the command's files; told before stacks have them
					      */
	struct counts n;
};

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "unwind_agreement: %s: %s\n", what, why);
	exit(1);
}

static double now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- the command ---- */

/* Returns the end of a pipe that holds what it prints. */
static int start_command(struct agreement *a, char **argv)
{
	int out[2];
	if (pipe(out))
		fail("pipe", strerror(errno));
	a->pid = fork();
	if (a->pid < 0)
		fail("fork", strerror(errno));
	if (!a->pid) {
		dup2(out[1], 1);
		close(out[0]);
		close(out[1]);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(out[1]);
	return out[0];
}

static void wait_for_word(int fd, const char *word)
{
	char text[4096] = "";
	size_t len = 0;
	while (!strstr(text, word) && len < sizeof(text) - 1) {
		ssize_t n = read(fd, text + len, sizeof(text) - 1 - len);
		if (n <= 0)
			fail("the command ended before it printed", word);
		len += (size_t)n;
		text[len] = 0;
	}
}

/* ---- BPF's side ---- */

static void on_table(void *ctx, uint32_t table, const struct proc_map *m, const char *build_id,
		     int fd)
{
	struct agreement *a = ctx;
	struct elf_file *f;
	struct err e;
	(void)build_id;
	a->bias_of[table] = m->start; /* the vDSO's */
	if (fd < 0)
		return;
	if (!elf_file_open_fd(&f, fd, m->path, 0, &e)) {
		elf_segments_bias(elf_file_segments(f), m->start, m->end, m->file_offset,
				  &a->bias_of[table]);
		elf_file_close(f);
	}
	close(fd);
}

/* As libdw has it. */
static uint64_t address_of(const struct agreement *a, uint64_t frame)
{
	frame &= ~GUESSED_FRAME_BIT;
	return frame & FILE_FRAME_BIT ? FILE_FRAME_AT(frame) + a->bias_of[FILE_FRAME_TABLE(frame)]
				      : frame;
}

static int on_record(void *ctx, void *record, size_t len)
{
	struct agreement *a = ctx;
	const struct rec_stack *r = record;
	const struct rec_sample *s = record;
	(void)len;
	if (r->kind == REC_SAMPLE)
		*vec_push(&a->samples) = (struct sampled){.tid = s->tid, .stack = s->stack};
	if (r->kind != REC_STACK)
		return 0;
	struct stack *kept = xcalloc(1, sizeof(*kept));
	kept->end = r->end;
	kept->frames = r->frames;
	kept->kernel = r->kernel;
	for (uint32_t i = 0; i < r->frames; i++)
		kept->frame[i] = i < r->kernel ? r->frame[i] : address_of(a, r->frame[i]);
	map64_set(&a->by_id, r->id, a->stacks.len);
	*vec_push(&a->stacks) = kept;
	return 0;
}

static void start_tracer(struct agreement *a)
{
	static struct catalog none;
	struct tracer_options opts = {.catalog = &none,
				      .sample_hz = HZ,
				      .stops_at_samples = true,
				      .without_guard = true,
				      .events = {.on_table = on_table, .ctx = a}};
	struct err e = {0};
	if (tracer_open(&a->tracer, &opts, &e) || tracer_set_drain(a->tracer, on_record, a, &e) ||
	    tracer_add_pid(a->tracer, a->pid, &e) || tracer_scan_pid(a->tracer, a->pid, &e) < 0)
		fail("cannot trace", e.msg);
	if (!tracer_stacks_settle(a->tracer, 60000))
		fail("cannot trace", "unwind tables take longer than a minute");
	if (tracer_start_sampling(a->tracer, &e))
		fail("cannot sample", e.msg);
}

/* ---- libdw's side ---- */

static int no_debuginfo(Dwfl_Module *m, void **u, const char *n, Dwarf_Addr b, const char *f,
			const char *d, GElf_Word c, char **p)
{
	(void)m, (void)u, (void)n, (void)b, (void)f, (void)d, (void)c, (void)p;
	return -1;
}

static void report_modules(struct agreement *a)
{
	dwfl_report_begin(a->dwfl);
	if (dwfl_linux_proc_report(a->dwfl, a->pid))
		fail("libdwfl", dwfl_errmsg(-1));
	dwfl_report_end(a->dwfl, NULL, NULL);
}

static void start_dwfl(struct agreement *a)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_linux_proc_find_elf,
		.find_debuginfo = no_debuginfo,
	};
	a->dwfl = dwfl_begin(&callbacks);
	if (!a->dwfl)
		fail("libdwfl", dwfl_errmsg(-1));
	report_modules(a);
	if (dwfl_linux_proc_attach(a->dwfl, a->pid, false))
		fail("libdwfl cannot attach", dwfl_errmsg(-1));
}

/* Tells libdw of mappings that came or went. */
static void follow_maps(struct agreement *a)
{
	proc_maps_t maps = {0};
	struct err e;
	uint64_t hash = 0;
	if (proc_maps_read("/proc", a->pid, &maps, &e))
		return;
	for (size_t i = 0; i < maps.len; i++)
		if (maps.data[i].executable)
			hash = (hash ^ maps.data[i].start ^ maps.data[i].end << 20) * 31 +
			       maps.data[i].inode;
	proc_maps_free(&maps);
	if (hash != a->maps_hash && a->maps_hash)
		report_modules(a);
	a->maps_hash = hash;
}

/* Addresses as the programs give them: in the calling instruction. */
static int on_frame(Dwfl_Frame *frame, void *ctx)
{
	struct walked *w = ctx;
	Dwarf_Addr pc = 0;
	bool exact = false;
	if (!dwfl_frame_pc(frame, &pc, &exact))
		return DWARF_CB_ABORT;
	if (w->frames == STACK_FRAMES) {
		w->more = true;
		return DWARF_CB_ABORT;
	}
	if (pc)
		w->frame[w->frames++] = pc - !exact;
	return DWARF_CB_OK;
}

/* ---- comparing ---- */

static void show_address(const struct agreement *a, uint64_t at)
{
	Dwfl_Module *m = dwfl_addrmodule(a->dwfl, at);
	Dwarf_Addr start = 0;
	const char *path = m ? dwfl_module_info(m, NULL, &start, NULL, NULL, NULL, NULL, NULL) : "";
	const char *symbol = m ? dwfl_module_addrname(m, at) : NULL;
	const char *slash = path ? strrchr(path, '/') : NULL;
	printf(" %#lx %s+%#lx %s", at,
	       slash  ? slash + 1
	       : path ? path
		      : "",
	       at - start, symbol ? symbol : "?");
}

static void show_difference(const struct agreement *a, uint32_t tid, const struct stack *s,
			    const struct walked *w)
{
	static const char *const ends[] = STACK_END_NAMES;
	uint32_t from = 0;
	while (from < s->frames && from < w->frames && s->frame[from] == w->frame[from])
		from++;
	printf("# thread %u: ours has %u frames (%s), libdw %u; they differ from frame %u on\n",
	       tid, s->frames, ends[s->end], w->frames, from);
	for (uint32_t i = from > 2 ? from - 2 : 0; i < from + 3; i++) {
		printf("#   %3u ours ", i);
		if (i < s->frames)
			show_address(a, s->frame[i]);
		printf("\n#       libdw");
		if (i < w->frames)
			show_address(a, w->frame[i]);
		printf("\n");
	}
	fflush(stdout);
	if (!a->opts.gdb)
		return;
	char command[256];
	snprintf(command, sizeof(command),
		 "gdb -nx -batch -p %d -ex 'thread find %u' -ex 'thread apply all bt 40' 2>&1 | "
		 "grep -v '^warning' | sed 's/^/#   gdb: /'",
		 a->pid, tid);
	if (system(command))
		printf("#   gdb failed\n");
}

static void compare(struct agreement *a, const struct sampled *sample)
{
	uint64_t found;
	struct walked w = {0};
	if (!sample->stack || !map64_get(&a->by_id, sample->stack, &found))
		return;
	const struct stack *s = a->stacks.data[found];
	if (s->kernel)
		return; /* not stopped there */
	dwfl_getthread_frames(a->dwfl, (pid_t)sample->tid, on_frame, &w);
	if (!w.frames || !s->frames || w.frame[0] != s->frame[0]) {
		a->n.moved++; /* the thread was let go after this sample */
		return;
	}
	a->n.stacks++;
	a->n.frames += s->frames;
	a->n.by_end[s->end]++;
	if (s->frames > a->n.deepest)
		a->n.deepest = s->frames;
	/* what comes next is no code, for both; libdw counts it as a frame */
	if (s->end == STACK_NO_MAPPING && w.frames > s->frames)
		w.frames = s->frames;
	bool same = s->frames == w.frames && !memcmp(s->frame, w.frame, s->frames * 8);
	if (same && (s->end == STACK_WHOLE || w.more)) {
		a->n.agree++;
		return;
	}
	if (same)
		a->n.cut_both++;
	else
		a->n.differ++;
	if (a->n.differ + a->n.cut_both <= a->opts.show)
		show_difference(a, sample->tid, s, &w);
}

/* Lets the process go until it is stopped again; false when that does not come, or it ended. */
static bool go_on(struct agreement *a, double deadline_s)
{
	int status;
	kill(a->pid, SIGCONT);
	while (now_s() < deadline_s) {
		pid_t rc = waitpid(a->pid, &status, WUNTRACED | WNOHANG);
		if (rc < 0 || (rc && !WIFSTOPPED(status)))
			return false;
		if (rc)
			return true;
		tracer_control(a->tracer);
		usleep(100);
	}
	return false;
}

static void run(struct agreement *a)
{
	double deadline_s = now_s() + a->opts.seconds;
	while (a->n.stacks < a->opts.stops && go_on(a, deadline_s)) {
		a->samples.len = 0;
		tracer_drain(a->tracer);
		if (!a->samples.len)
			continue;
		follow_maps(a);
		for (size_t i = 0; i < a->samples.len; i++)
			compare(a, &a->samples.data[i]);
	}
}

static void report(const struct agreement *a)
{
	static const char *const ends[] = STACK_END_NAMES;
	const struct counts *n = &a->n;
	printf("stacks %u agree %u differ %u cut_both %u moved %u frames %u deepest %u", n->stacks,
	       n->agree, n->differ, n->cut_both, n->moved, n->frames, n->deepest);
	for (int i = 1; i < STACK_ENDS; i++)
		if (n->by_end[i])
			printf(" %s %u", ends[i], n->by_end[i]);
	printf("\n");
}

static struct options read_options(int argc, char **argv)
{
	static const struct option longs[] = {{"stops", 1, 0, 'n'}, {"seconds", 1, 0, 's'},
					      {"until", 1, 0, 'u'}, {"show", 1, 0, 'w'},
					      {"gdb", 0, 0, 'g'},   {0}};
	struct options o = {.stops = 300, .seconds = 60, .show = 5};
	int c;
	while ((c = getopt_long(argc, argv, "+", longs, NULL)) != -1) {
		if (c == 'n')
			o.stops = (unsigned)atoi(optarg);
		else if (c == 's')
			o.seconds = (unsigned)atoi(optarg);
		else if (c == 'u')
			o.until = optarg;
		else if (c == 'w')
			o.show = (unsigned)atoi(optarg);
		else if (c == 'g')
			o.gdb = true;
		else
			exit(2);
	}
	if (optind >= argc)
		fail("usage", "unwind_agreement [OPTION...] -- CMD...");
	return o;
}

int main(int argc, char **argv)
{
	struct agreement a = {.opts = read_options(argc, argv)};
	int out = start_command(&a, argv + optind);
	if (a.opts.until)
		wait_for_word(out, a.opts.until);
	else
		usleep(200000); /* past its dynamic linker */
	start_tracer(&a);
	start_dwfl(&a);
	run(&a);
	tracer_close(a.tracer);
	kill(a.pid, SIGKILL);
	waitpid(a.pid, NULL, 0);
	dwfl_end(a.dwfl);
	report(&a);
	for (size_t i = 0; i < a.stacks.len; i++)
		free(a.stacks.data[i]);
	vec_free(&a.stacks);
	map64_free(&a.by_id);
	vec_free(&a.samples);
	return a.n.stacks < a.opts.stops;
}
