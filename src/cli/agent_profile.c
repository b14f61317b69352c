/* agent_profile.c - a window of samples alone, out of which trees are made when ten seconds are
 * over, on the thread that looks at rows; a client of its own brings them. */
#include "cli/agent_profile.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "analyze/flame.h"
#include "base/clock.h"
#include "cli/push_pairs.h"
#include "export/flame.h"
#include "serve/http_client.h"
#include "session/live_window.h"
#include "session/session_live.h"
#include "symbolize/demangle.h"

#define EACH_NS	     10000000000ULL
#define SEND_NS	     1000000000ULL /* how often it is looked whether there are profiles */
#define TIMEOUT_NS   10000000000ULL
#define WINDOW_BYTES (8u << 20) /* of samples: 200,000, 40 processors at 99 Hz twice as long */
#define QUEUE_BYTES  (8u << 20)
#define PROCESSES    64	 /* that have samples; those of others are left out and counted */
#define PROFILES     128 /* that wait for the client's thread */

static const char path[] = "/ingest";

struct profile {
	char *query;
	struct buf body;
};

struct agent_profile {
	struct http_client *client;
	struct pairs headers;
	struct http_header header_list[PUSH_PAIRS];
	struct agent_profile_told told;
	/* of the thread that looks: */
	struct live_window *window;
	uint32_t pids[PROCESSES]; /* with samples since begun_ns */
	size_t npids;
	uint64_t begun_ns;
	pthread_mutex_t lock; /* of what follows */
	VEC(struct profile) made;
	uint64_t made_ns, dropped;
};

/* ---- samples ---- */

static void note_pid(struct agent_profile *p, uint32_t pid)
{
	size_t i = 0;
	while (i < p->npids && p->pids[i] != pid)
		i++;
	if (i < p->npids)
		return;
	if (p->npids < PROCESSES) {
		p->pids[p->npids++] = pid;
		return;
	}
	pthread_mutex_lock(&p->lock);
	p->dropped++;
	pthread_mutex_unlock(&p->lock);
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

static void keep(struct agent_profile *p, struct profile *made)
{
	pthread_mutex_lock(&p->lock);
	bool room = p->made.len < PROFILES;
	if (room)
		*vec_push(&p->made) = *made;
	p->dropped += !room;
	pthread_mutex_unlock(&p->lock);
	if (room)
		return;
	buf_free(&made->body);
	free(made->query);
}

static void make_profiles(struct agent_profile *p, const struct live_series *s, uint64_t now_ns)
{
	uint64_t offset_ns = realtime_ns() - monotonic_ns(), took_ns = monotonic_ns();
	uint64_t from_ns = p->begun_ns + offset_ns, until_ns = now_ns + offset_ns;
	const struct row_source *rows = live_window_as_taken(p->window);
	for (size_t i = 0; i < p->npids; i++) {
		struct profile made = {0};
		if (write_profile(&made.body, rows, p->pids[i], p->begun_ns, from_ns,
				  now_ns - p->begun_ns)) {
			made.query = query_of(p, p->pids[i], live_series_process(s, p->pids[i]),
					      from_ns / 1000000000, until_ns / 1000000000);
			keep(p, &made);
		}
	}
	live_window_bound(p->window, 0); /* names stay */
	live_window_bound(p->window, WINDOW_BYTES);
	p->npids = 0;
	p->begun_ns = now_ns;
	pthread_mutex_lock(&p->lock);
	p->made_ns = monotonic_ns() - took_ns;
	pthread_mutex_unlock(&p->lock);
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

/* ---- the client's ---- */

static void on_due(void *ctx, struct http_client *c)
{
	struct agent_profile *p = ctx;
	pthread_mutex_lock(&p->lock);
	typeof(p->made) made = p->made;
	memset(&p->made, 0, sizeof(p->made));
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 0; i < made.len; i++)
		http_client_put(c, &(struct http_post){.path = path,
						       .type = "application/octet-stream",
						       .query = made.data[i].query,
						       .packed = true,
						       .body = made.data[i].body});
	vec_free(&made);
}

static void on_taken(void *ctx, const char *to, const uint8_t *answer, size_t n)
{
	(void)ctx;
	(void)to;
	(void)answer;
	(void)n;
}

static void on_say(void *ctx, const char *sentence)
{
	struct agent_profile *p = ctx;
	p->told.say(p->told.ctx, sentence);
}

void agent_profile_stats(struct agent_profile *p, struct agent_pushed *ret)
{
	struct http_client_stats s;
	http_client_stats(p->client, &s);
	*ret = (struct agent_pushed){.to = "pprof",
				     .sent = s.sent,
				     .bytes = s.sent_bytes,
				     .raw_bytes = s.raw_bytes,
				     .failures = s.failures,
				     .refused = s.refused,
				     .dropped = s.dropped,
				     .waiting = s.waiting};
	pthread_mutex_lock(&p->lock);
	ret->dropped += p->dropped;
	ret->made_ns = p->made_ns;
	pthread_mutex_unlock(&p->lock);
}

/* ---- its life ---- */

int agent_profile_open(struct agent_profile **ret, const struct profile_wanted *w,
		       const struct agent_profile_told *told, struct err *e)
{
	struct agent_profile *p = xcalloc(1, sizeof(*p));
	struct http_client_options o = {.ca_file = w->ca_file,
					.headers = p->header_list,
					.interval_ns = SEND_NS,
					.timeout_ns = TIMEOUT_NS,
					.most_bytes = QUEUE_BYTES,
					.ctx = p,
					.due = on_due,
					.taken = on_taken,
					.say = on_say};
	pthread_mutex_init(&p->lock, NULL);
	p->told = *told;
	p->window = live_window_new(WINDOW_BYTES);
	live_window_bear_gaps(p->window);
	int rc = pairs_add_headers(&p->headers, w->headers, "pprof-header", e);
	for (size_t i = 0; i < p->headers.len; i++)
		p->header_list[i] = (struct http_header){p->headers.names[i], p->headers.values[i]};
	o.headers_len = p->headers.len;
	if (!rc)
		rc = http_url_parse(&o.to, w->url, e);
	if (!rc)
		rc = http_client_open(&p->client, &o, e);
	if (rc)
		agent_profile_close(p);
	else
		*ret = p;
	return rc;
}

int agent_profile_start(struct agent_profile *p, struct err *e)
{
	return http_client_start(p->client, e);
}

void agent_profile_close(struct agent_profile *p)
{
	const uint64_t most_ns = 3000000000ULL;
	if (!p)
		return;
	http_client_close(p->client, most_ns);
	for (size_t i = 0; i < p->made.len; i++) {
		buf_free(&p->made.data[i].body);
		free(p->made.data[i].query);
	}
	vec_free(&p->made);
	live_window_free(p->window);
	pairs_free(&p->headers);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
