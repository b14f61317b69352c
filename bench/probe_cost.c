/* probe_cost.c - what one traced call costs, recording to disk included, beside the floor:
 * an empty program attached in the same way, in the same run, rounds interleaved.
 *
 * A child calls a function in a tight loop and tells nanoseconds per call; probes are put
 * on and taken off between its rounds. Prints a table; --json FILE writes the figures.
 * Needs root. links: probe pipeline recording symbolize base */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/pipeline.h"
#include "probe/tracer_impl.h"

#define CALLS	   50000 /* of one round */
#define WARM_CALLS (CALLS / 20)

/* ---- the functions: what their first instruction is decides what a probe costs ---- */

__asm__(".text\n"
	".globl bench_push\n.type bench_push,@function\nbench_push:\n"
	"push %rbx\npop %rbx\nret\n.size bench_push,.-bench_push\n"
	".globl bench_endbr\n.type bench_endbr,@function\nbench_endbr:\n"
	"endbr64\npush %rbx\npop %rbx\nret\n.size bench_endbr,.-bench_endbr\n"
	".globl bench_lea\n.type bench_lea,@function\nbench_lea:\n"
	"lea (%rdi),%rax\nret\n.size bench_lea,.-bench_lea\n");
void bench_push(void);
void bench_endbr(void);
void bench_lea(void);

static const struct {
	const char *name;
	void (*fn)(void);
} functions[] = {{"push", bench_push}, {"endbr64", bench_endbr}, {"lea (stepped)", bench_lea}};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

enum what { UNTRACED, EMPTY, RECORDED, WHATS };

struct bench {
	struct tracer *t;
	struct pipeline *p;
	int empty_fd;
	int go, result;
	pid_t child;
	bool stop;
	pthread_t mover;
	uint64_t made; /* calls that had a recording probe on them */
	VEC(double) ns[FUNCTIONS][WHATS];
};

static double now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void child_main(int go, int result)
{
	char which;
	while (read(go, &which, 1) == 1) {
		void (*fn)(void) = functions[(int)which].fn;
		for (long i = 0; i < WARM_CALLS; i++)
			fn();
		double start = now_ns();
		for (long i = 0; i < CALLS; i++)
			fn();
		double ns = (now_ns() - start) / CALLS;
		if (write(result, &ns, sizeof(ns)) != sizeof(ns))
			break;
	}
	_exit(0);
}

static int on_record(void *ctx, void *record, size_t len)
{
	pipeline_record(ctx, record, len);
	return 0;
}

static void *move(void *arg)
{
	struct bench *b = arg;
	struct err e;
	double flushed = now_ns();
	while (!__atomic_load_n(&b->stop, __ATOMIC_SEQ_CST)) {
		int n = tracer_drain(b->t);
		pipeline_pass_end(b->p);
		if (now_ns() - flushed > 5e8) {
			pipeline_flush(b->p, &e);
			flushed = now_ns();
		}
		if (n < 1000)
			nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	}
	return NULL;
}

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* The place where eacgm would put its probe. */
static struct site site_of(size_t f)
{
	struct elf_file *self;
	struct elf_symbol s;
	struct site site = {.action = SITE_SPAN,
			    .cookie = COOKIE_MAKE(f, SITE_SPAN, LAYER_USER, 0, 0)};
	static const char *const symbols[] = {"bench_push", "bench_endbr", "bench_lea"};
	if (elf_file_open(&self, "/proc/self/exe", NULL) || !elf_file_find(self, symbols[f], &s))
		exit(1);
	const void *code = elf_file_bytes(self, s.address, s.size);
	site.offset = s.file_offset + insn_choose(code, s.size, 1).offset;
	elf_file_close(self);
	return site;
}

static double measure(struct bench *b, size_t f)
{
	char which = (char)f;
	double ns = 0;
	if (write(b->go, &which, 1) != 1 || read(b->result, &ns, sizeof(ns)) != sizeof(ns))
		exit(1);
	return ns;
}

static void round_of(struct bench *b, size_t f, enum what w)
{
	struct attach_links links = {0};
	struct attach_programs programs = b->t->programs;
	struct site site = site_of(f);
	struct err e;
	if (w == EMPTY)
		programs.span_session = b->empty_fd;
	if (w != UNTRACED &&
	    attach_sites(&links, ATTACH_SESSION, &programs, "/proc/self/exe", &site, 1, &e)) {
		fprintf(stderr, "probe_cost: %s\n", e.msg);
		exit(1);
	}
	*vec_push(&b->ns[f][w]) = measure(b, f);
	if (w == RECORDED)
		b->made += CALLS + WARM_CALLS;
	attach_detach(&links);
}

static int compare(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;
	return (a > b) - (a < b);
}

static double median(struct bench *b, size_t f, enum what w)
{
	qsort(b->ns[f][w].data, b->ns[f][w].len, sizeof(double), compare);
	return b->ns[f][w].data[b->ns[f][w].len / 2];
}

static void start(struct bench *b, const char *out)
{
	static struct catalog none;
	struct tracer_options opts = {.catalog = &none, .with_empty = true};
	struct rec_writer *w;
	struct err e = {0};
	int go[2], result[2];
	if (tracer_open(&b->t, &opts, &e) || rec_writer_open(&w, out, NULL, &e)) {
		fprintf(stderr, "probe_cost: %s\n", e.msg);
		exit(1);
	}
	if (b->t->method != ATTACH_SESSION) {
		puts("probe_cost: this kernel has no session links (6.13)");
		exit(0);
	}
	b->empty_fd = bpf_program__fd(b->t->bpf->progs.empty_session);
	b->p = pipeline_new(w, "/proc", NULL);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		struct pipeline_probe p = {.id = i,
					   .layer = "user",
					   .name = (char *)functions[i].name,
					   .library = "bench",
					   .symbol = functions[i].name,
					   .name_arg = -1};
		pipeline_define_probe(b->p, &p);
	}
	if (pipe(go) || pipe(result))
		exit(1);
	b->child = fork();
	if (!b->child) {
		close(go[1]);
		child_main(go[0], result[1]);
	}
	b->go = go[1];
	b->result = result[0];
	tracer_add_pid(b->t, b->child, &e);
	tracer_set_drain(b->t, on_record, b->p, &e);
	pthread_create(&b->mover, NULL, move, b);
}

static void add_loss(void *ctx, enum loss_cause cause, uint32_t cpu, uint64_t count)
{
	uint64_t *lost = ctx;
	(void)cpu;
	if (cause == LOSS_RING_FULL || cause == LOSS_STACK_FULL || cause == LOSS_NO_STATE)
		*lost += count;
}

/* A cost without the losses beside it would say nothing: a dropped record is cheap. */
static json_t *report_counts(struct bench *b)
{
	struct pipeline_stats st;
	tracer_drain(b->t);
	pipeline_pass_end(b->p);
	pipeline_stats(b->p, &st);
	uint64_t lost = st.lost;
	tracer_losses(b->t, add_loss, &lost);
	printf("calls %lu, recorded %lu, lost %lu\n", (unsigned long)b->made,
	       (unsigned long)st.calls, (unsigned long)lost);
	return json_pack("{s:I s:I s:I}", "calls", (json_int_t)b->made, "recorded",
			 (json_int_t)st.calls, "lost", (json_int_t)lost);
}

/* Every round's figure in the order measured: whoever reads the file can pair them. */
static json_t *rounds_json(struct bench *b, size_t f)
{
	static const char *const names[WHATS] = {"untraced_ns", "empty_ns", "recorded_ns"};
	json_t *all = json_object();
	for (int w = 0; w < WHATS; w++) {
		json_t *list = json_array();
		for (size_t i = 0; i < b->ns[f][w].len; i++)
			json_array_append_new(list, json_real(b->ns[f][w].data[i]));
		json_object_set_new(all, names[w], list);
	}
	return all;
}

static json_t *report(struct bench *b)
{
	json_t *rows = json_array(), *rounds[FUNCTIONS];
	for (size_t f = 0; f < FUNCTIONS; f++)
		rounds[f] = rounds_json(b, f); /* before median() sorts */
	printf("%-16s %10s %10s %10s %14s %18s\n", "first insn", "untraced", "empty", "recorded",
	       "recorded/floor", "recorded/push's");
	double push = median(b, 0, RECORDED) - median(b, 0, UNTRACED);
	for (size_t f = 0; f < FUNCTIONS; f++) {
		double ns[WHATS];
		for (int w = 0; w < WHATS; w++)
			ns[w] = median(b, f, (enum what)w);
		double floor = ns[EMPTY] - ns[UNTRACED], cost = ns[RECORDED] - ns[UNTRACED];
		printf("%-16s %7.1f ns %7.0f ns %7.0f ns %14.2f %18.2f\n", functions[f].name,
		       ns[UNTRACED], ns[EMPTY], ns[RECORDED], cost / floor, cost / push);
		json_array_append_new(rows,
				      json_pack("{s:s s:f s:f s:f s:f s:f s:o}", "first_insn",
						functions[f].name, "untraced_ns", ns[UNTRACED],
						"empty_ns", ns[EMPTY], "recorded_ns", ns[RECORDED],
						"ratio_to_floor", cost / floor, "ratio_to_push",
						cost / push, "rounds", rounds[f]));
	}
	return rows;
}

int main(int argc, char **argv)
{
	const char *json = NULL, *tmp = getenv("TMPDIR");
	char out[4096];
	int rounds = 15, c;
	static const struct option longs[] = {{"json", 1, 0, 'j'}, {"rounds", 1, 0, 'r'}, {0}};
	while ((c = getopt_long(argc, argv, "j:r:", longs, NULL)) != -1) {
		if (c == 'j')
			json = optarg;
		else if (c == 'r')
			rounds = atoi(optarg);
		else
			return 2;
	}
	if (rounds < 1) {
		fprintf(stderr, "usage: probe_cost [--json FILE] [--rounds N]\n");
		return 2;
	}
	snprintf(out, sizeof(out), "%s/probe_cost.%d.eacgm", tmp ? tmp : "/tmp", getpid());
	struct bench b = {0};
	start(&b, out);
	for (int r = 0; r < rounds; r++) {
		for (size_t f = 0; f < FUNCTIONS; f++) {
			for (int w = 0; w < WHATS; w++)
				round_of(&b, f, (enum what)((w + r) % WHATS));
		}
	}
	close(b.go);
	waitpid(b.child, NULL, 0);
	__atomic_store_n(&b.stop, true, __ATOMIC_SEQ_CST);
	pthread_join(b.mover, NULL);
	json_t *rows = report(&b), *all = report_counts(&b);
	json_object_set_new(all, "rows", rows);
	struct err e;
	int rc = json ? json_dump_file(all, json, JSON_INDENT(2)) : 0;
	if (rc)
		fprintf(stderr, "probe_cost: cannot write %s\n", json);
	json_decref(all);
	pipeline_close(b.p, &e);
	tracer_close(b.t);
	unlink(out);
	return rc ? 1 : 0;
}
