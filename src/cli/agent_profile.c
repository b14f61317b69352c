/* agent_profile.c - a window of samples alone, out of which trees are made when ten seconds are
 * over, on the thread that looks at rows; a client of its own brings them. */
#include "cli/agent_profile.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "analyze/flame.h"
#include "base/clock.h"
#include "export/flame.h"
#include "session/live_window.h"
#include "session/session_live.h"
#include "symbolize/demangle.h"

#define EACH_NS	     10000000000ULL
#define SEND_NS	     1000000000ULL /* how often it is looked whether there are profiles */
#define TIMEOUT_NS   10000000000ULL
#define WINDOW_BYTES (8u << 20) /* of samples: 200,000, 40 processors at 99 Hz twice as long */
#define PROCESSES    64		/* that have samples; those of others are left out and counted */

static const char path[] = "/ingest";

struct agent_profile {
	struct push_client *client;
	struct agent_profile_told told;
	/* of the thread that looks: */
	struct live_window *window;
	uint32_t pids[PROCESSES]; /* with samples since begun_ns */
	size_t npids;
	uint64_t begun_ns;
};

/* ---- samples ---- */

static void note_pid(struct agent_profile *p, uint32_t pid)
{
	size_t i = 0;
	while (i < p->npids && p->pids[i] != pid)
		i++;
	if (i < p->npids)
		return;
	if (p->npids < PROCESSES)
		p->pids[p->npids++] = pid;
	else
		push_client_dropped(p->client, 1);
}

static void note_samples(struct agent_profile *p, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->samples.len; i++) {
		const struct m_thread *t =
			v->names->thread(v->names->ctx, v->batch->samples.data[i].thread);
		if (t)
			note_pid(p, t->pid);
	}
}

/* A batch without rows of other kinds that may be millions: borrowed, not to be freed. */
static void without_others(struct feed_batch *b)
{
#define X(number, NAME, stem, members) memset(&b->members, 0, sizeof(b->members));
	typeof(b->samples) samples = b->samples;
	ROW_BULKS(X)
	b->samples = samples;
#undef X
}

/* ---- profiles ---- */

/* A value of a label: what its syntax would take for its own is "_". */
static void put_value(struct buf *b, const char *text)
{
	for (const char *s = text; *s; s++)
		buf_byte(b, isalnum((unsigned char)*s) || strchr("._-/", *s) ? (uint8_t)*s : '_');
}

static void put_label(struct buf *b, const char *name, const char *text)
{
	if (!text[0])
		return;
	buf_printf(b, "%%2C%s%%3D", name);
	put_value(b, text);
}

/* "?name=train.py{host=a,pid=7}&...", of which braces, commas and equals signs are encoded. */
static char *query_of(const struct agent_profile *p, uint32_t pid, const struct live_process *of,
		      uint64_t from_s, uint64_t until_s)
{
	struct buf b = {0};
	buf_printf(&b, "?name=");
	put_value(&b, !of ? "process" : of->script[0] ? of->script : of->comm);
	buf_printf(&b, "%%7Bpid%%3D%u", pid);
	put_label(&b, "host", p->told.host);
	if (of && of->rank >= 0)
		buf_printf(&b, "%%2Crank%%3D%d", of->rank);
	if (of) {
		put_label(&b, "job", of->labels.job);
		put_label(&b, "namespace", of->labels.pod_namespace);
		put_label(&b, "pod", of->labels.pod);
	}
	buf_printf(&b,
		   "%%7D&format=pprof&spyName=eacgm&sampleRate=%u&from=%llu&until=%llu&"
		   "units=nanoseconds",
		   p->told.sample_hz, (unsigned long long)from_s, (unsigned long long)until_s);
	buf_byte(&b, 0);
	return (char *)b.data;
}

/* A window keeps its last block of rows, so that what was told before is left out by its time,
 * which trees count from the first process that is there. */
static uint64_t time_in(const struct row_source *rows, uint64_t ns)
{
	const struct rec_tables *t = rows->tables;
	for (size_t i = 0; i < t->processes.len; i++) {
		uint64_t start_ns = t->processes.data[i].start_ns;
		if (start_ns)
			return ns > start_ns ? ns - start_ns : 0;
	}
	return ns;
}

/* Whether there are samples of it. */
static bool write_profile(struct buf *ret, const struct row_source *rows, uint32_t pid,
			  uint64_t from_ns, uint64_t from_realtime_ns, uint64_t duration_ns)
{
	const struct flame_options o = {.kind = FLAME_CPU,
					.pid = pid,
					.from_ns = time_in(rows, from_ns),
					.demangle = demangle};
	struct calltree tree;
	struct err e;
	char *text = NULL;
	size_t n = 0;
	if (flame_make(&tree, rows, &o, &e))
		return false;
	FILE *f = open_memstream(&text, &n);
	tree.start_realtime_ns = from_realtime_ns;
	tree.duration_ns = duration_ns;
	bool good = f && !flame_pprof.write(f, &tree, &e);
	if (f)
		fclose(f);
	if (good)
		buf_add(ret, text, n);
	free(text);
	calltree_free(&tree);
	return good && n;
}

static void make_profiles(struct agent_profile *p, const struct live_series *s, uint64_t now_ns)
{
	uint64_t offset_ns = realtime_ns() - monotonic_ns(), took_ns = monotonic_ns();
	uint64_t from_ns = p->begun_ns + offset_ns, until_ns = now_ns + offset_ns;
	const struct row_source *rows = live_window_as_taken(p->window);
	for (size_t i = 0; i < p->npids; i++) {
		struct http_post post = {
			.path = path, .type = "application/octet-stream", .packed = true};
		if (!write_profile(&post.body, rows, p->pids[i], p->begun_ns, from_ns,
				   now_ns - p->begun_ns))
			continue;
		post.query = query_of(p, p->pids[i], live_series_process(s, p->pids[i]),
				      from_ns / 1000000000, until_ns / 1000000000);
		push_client_put(p->client, &post);
	}
	live_window_bound(p->window, 0); /* names stay */
	live_window_bound(p->window, WINDOW_BYTES);
	p->npids = 0;
	p->begun_ns = now_ns;
	push_client_took(p->client, monotonic_ns() - took_ns);
}

void agent_profile_batch(struct agent_profile *p, const struct session_view *v,
			 const struct live_series *s, uint64_t now_ns)
{
	struct feed_batch samples = *v->batch;
	struct session_view view = *v;
	p->begun_ns = p->begun_ns ? p->begun_ns : now_ns;
	without_others(&samples);
	view.batch = &samples;
	live_window_take(p->window, &view);
	note_samples(p, v);
	if (now_ns - p->begun_ns >= EACH_NS)
		make_profiles(p, s, now_ns);
}

void agent_profile_end(struct agent_profile *p, const struct live_series *s, uint64_t now_ns)
{
	if (p->begun_ns)
		make_profiles(p, s, now_ns);
}

void agent_profile_stats(struct agent_profile *p, struct agent_pushed *ret)
{
	push_client_stats(p->client, ret);
}

/* ---- its life ---- */

int agent_profile_open(struct agent_profile **ret, const struct push_wanted *w,
		       const struct agent_profile_told *told, struct err *e)
{
	const struct push_client_options o = {.to = "pprof",
					      .option = "pprof-push",
					      .header_option = "pprof-header",
					      .ctx = told->ctx,
					      .say = told->say};
	struct agent_profile *p = xcalloc(1, sizeof(*p));
	struct push_wanted to = *w;
	p->told = *told;
	p->window = live_window_new(WINDOW_BYTES);
	live_window_bear_gaps(p->window);
	to.interval_ns = SEND_NS;
	to.timeout_ns = TIMEOUT_NS;
	int rc = push_client_open(&p->client, &to, &o, e);
	if (rc)
		agent_profile_close(p);
	else
		*ret = p;
	return rc;
}

int agent_profile_start(struct agent_profile *p, struct err *e)
{
	return push_client_start(p->client, e);
}

void agent_profile_close(struct agent_profile *p)
{
	if (!p)
		return;
	push_client_close(p->client);
	live_window_free(p->window);
	free(p);
}
