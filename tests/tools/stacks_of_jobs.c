/* stacks_of_jobs.c - traces a control group as an agent does, whose stacks are of jobs alone, and
 * tells what that takes and how stacks end. Judges nothing.
 *
 *   usage: stacks_of_jobs CGROUP LEVEL EVERYONE CATALOG [INSIDE]
 *
 * CGROUP is a folder, LEVEL how deep, as the kernel counts, CATALOG a file. EVERYONE: 1 = stacks
 * are of all processes. INSIDE: libeacgm_calls.so; probes are inside of who has loaded it.
 *
 * For each line of its input it prints one of JSON: how often mappings were read (scans), how many
 * processes are published, how many files got rules (files) and had them taken back (given_back),
 * how many bytes of rules there are, and how many pages of them came because a walk needed them,
 * how many calls the kernel told, how many functions have their probe inside (inside), and of each
 * process how many samples have whole stacks, and how many have not. It ends with its input. Needs
 * root.
 *
 * links: probe symbolize parser base */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map64.h"
#include "probe/tracer.h"

#define HZ   499
#define REST 10 /* ms */

struct sampled {
	uint32_t tgid;
	uint64_t stack;
};

struct seen {
	struct tracer *tracer;
	struct map64 ends; /* stack id -> enum stack_end */
	VEC(struct sampled) samples;
	uint64_t calls;
};

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "stacks_of_jobs: %s: %s\n", what, why);
	exit(1);
}

static int on_record(void *ctx, void *record, size_t len)
{
	struct seen *seen = ctx;
	const struct rec_stack *r = record;
	const struct rec_sample *s = record;
	(void)len;
	if (r->kind == REC_STACK)
		map64_set(&seen->ends, r->id, r->end);
	else if (r->kind == REC_SAMPLE)
		*vec_push(&seen->samples) = (struct sampled){.tgid = s->tgid, .stack = s->stack};
	else if (r->kind == REC_CALL)
		seen->calls++;
	return 0;
}

static void on_note(void *ctx, const char *subject, const char *reason)
{
	(void)ctx;
	fprintf(stderr, "# %s: %s\n", subject, reason);
}

static void start_tracer(struct seen *seen, char **argv)
{
	static struct catalog catalog;
	struct stat group;
	struct err e = {0};
	if (stat(argv[1], &group))
		fail(argv[1], strerror(errno));
	if (catalog_load_file(&catalog, argv[4], &e))
		fail(argv[4], e.msg);
	struct tracer_options opts = {.catalog = &catalog,
				      .layers = ~0u,
				      .cgroup_id = group.st_ino,
				      .cgroup_level = (uint32_t)atoi(argv[2]),
				      .jobs_alone = !atoi(argv[3]),
				      .sample_hz = HZ,
				      .inside = argv[5],
				      .without_guard = true,
				      .events = {.on_note = on_note}};
	if (tracer_open(&seen->tracer, &opts, &e) ||
	    tracer_set_drain(seen->tracer, on_record, seen, &e))
		fail("cannot trace", e.msg);
	tracer_hook_loaders(seen->tracer);
	if (tracer_start_sampling(seen->tracer, &e))
		fail("cannot sample", e.msg);
}

/* ---- what is told ---- */

/* Of each process, in the order of their first samples. */
static void tell_samples(const struct seen *seen)
{
	struct map64 told = {0};
	const char *comma = "";
	for (size_t i = 0; i < seen->samples.len; i++) {
		uint32_t tgid = seen->samples.data[i].tgid;
		uint64_t n[2] = {0}, end;
		if (map64_get(&told, tgid, &end))
			continue;
		map64_set(&told, tgid, 1);
		for (size_t k = i; k < seen->samples.len; k++)
			if (seen->samples.data[k].tgid == tgid)
				n[map64_get(&seen->ends, seen->samples.data[k].stack, &end) &&
				  end == STACK_WHOLE]++;
		printf("%s\"%u\": [%" PRIu64 ", %" PRIu64 "]", comma, tgid, n[1], n[0]);
		comma = ", ";
	}
	map64_free(&told);
}

/* Samples are of the time since the last line. */
static void tell(struct seen *seen)
{
	struct tracer_stats st;
	tracer_stats(seen->tracer, &st);
	printf("{\"scans\": %" PRIu64 ", \"published\": %" PRIu64 ", \"files\": %" PRIu64
	       ", \"given_back\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"pages\": %" PRIu64
	       ", \"calls\": %" PRIu64 ", \"inside\": %" PRIu64 ", \"samples\": {",
	       st.scans, st.unwinder.processes, st.unwinder.files, st.unwinder.given_back,
	       st.unwinder.words_bytes, st.unwinder.pages, seen->calls, st.places_inside);
	tell_samples(seen);
	printf("}}\n");
	fflush(stdout);
	seen->samples.len = 0;
}

/* False at the end of the input. */
static bool answer(struct seen *seen)
{
	char line[16];
	ssize_t n = read(0, line, sizeof(line));
	if (n <= 0)
		return false;
	tell(seen);
	return true;
}

static void follow(struct seen *seen)
{
	struct pollfd fds[] = {{.fd = 0, .events = POLLIN},
			       {.fd = tracer_control_fd(seen->tracer), .events = POLLIN}};
	do {
		poll(fds, 2, REST);
		tracer_control(seen->tracer);
		tracer_drain(seen->tracer);
	} while (!fds[0].revents || answer(seen));
}

int main(int argc, char **argv)
{
	struct seen seen = {0};
	if (argc != 5 && argc != 6)
		fail("usage", "stacks_of_jobs CGROUP LEVEL EVERYONE CATALOG [INSIDE]");
	start_tracer(&seen, argv);
	puts("traces");
	fflush(stdout);
	follow(&seen);
	tracer_close(seen.tracer);
	map64_free(&seen.ends);
	vec_free(&seen.samples);
	return 0;
}
