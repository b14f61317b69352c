/* agent_profile.c - pieces of samples, out of which trees are made when the time of a
 * profile is over, on the thread that looks at rows. A tree of a process is written as each
 * receiver takes it; a client for each brings it. */
#include "cli/agent_profile.h"

#include <stdio.h>
#include <string.h>

#include "analyze/flame.h"
#include "base/clock.h"
#include "export/flame.h"
#include "serve/otlp_profiles.h"
#include "serve/parca.h"
#include "serve/pyroscope.h"
#include "session/live_samples.h"
#include "session/session_live.h"
#include "symbolize/demangle.h"

#define SEND_NS	   1000000000ULL /* how often it is looked whether there are profiles */
#define TIMEOUT_NS 10000000000ULL
#define MESSAGE_BYTES                                                                              \
	(4u << 20) /* about: a message of OTLP that is longer gets no more profiles                \
		    */

/* What is pushed of a process. */
struct made {
	const struct live_process *of;
	const struct buf *pprof;    /* gzipped */
	uint64_t from_ns, until_ns; /* of CLOCK_REALTIME */
};

struct agent_profile {
	struct push_client *clients[PROFILE_SERVERS]; /* NULL: not wanted */
	struct agent_profile_told told;
	/* of the thread that looks: */
	struct live_samples *samples;
	bool begun; /* there was a batch */
};

/* ---- servers that take pprof ---- */

static void make_pyroscope(const struct agent_profile *p, const struct made *m,
			   struct http_post *ret)
{
	ret->path = PYROSCOPE_PATH;
	ret->type = "application/octet-stream";
	buf_add(&ret->body, m->pprof->data, m->pprof->len);
	ret->query = pyroscope_query(m->of, p->told.host, p->told.sample_hz,
				     m->from_ns / 1000000000, m->until_ns / 1000000000);
}

static void make_parca(const struct agent_profile *p, const struct made *m, struct http_post *ret)
{
	ret->path = PARCA_PATH;
	ret->type = "application/json";
	parca_write(&ret->body, m->of, p->told.host, m->pprof);
}

static const struct server {
	const char *to, *option, *header_option;
	void (*make)(const struct agent_profile *p, const struct made *m, struct http_post *ret);
} servers[PROFILE_SERVERS] = {
	[PROFILE_PYROSCOPE] = {"pprof", "pprof-push", "pprof-header", make_pyroscope},
	[PROFILE_PARCA] = {"parca", "parca-push", "parca-header", make_parca},
};

static void drop(struct agent_profile *p, uint64_t n)
{
	for (size_t i = 0; n && i < PROFILE_SERVERS; i++)
		if (p->clients[i])
			push_client_dropped(p->clients[i], n);
	if (n && p->told.otlp)
		push_client_dropped(p->told.otlp, n);
}

/* ---- profiles ---- */

/* Whether there are samples of it since it began; calltree_free is due then. */
static bool make_tree(struct calltree *ret, const struct live_samples_piece *piece, uint32_t pid)
{
	const struct flame_options o = {
		.kind = FLAME_CPU, .pid = pid, .from_ns = piece->from_in_ns, .demangle = demangle};
	struct err e;
	return !flame_make(ret, piece->rows, &o, &e);
}

static void write_pprof(struct buf *ret, const struct calltree *tree)
{
	char *text = NULL;
	size_t n = 0;
	struct err e;
	FILE *f = open_memstream(&text, &n);
	bool good = f && !flame_pprof.write(f, tree, &e);
	if (f)
		fclose(f);
	if (good)
		buf_add(ret, text, n);
	free(text);
}

static void put_to_servers(struct agent_profile *p, const struct calltree *tree,
			   const struct live_process *of)
{
	struct buf pprof = {0};
	const struct made m = {.of = of,
			       .pprof = &pprof,
			       .from_ns = tree->start_realtime_ns,
			       .until_ns = tree->start_realtime_ns + tree->duration_ns};
	for (size_t i = 0; i < PROFILE_SERVERS; i++) {
		struct http_post post = {.packed = true};
		if (!p->clients[i])
			continue;
		if (!pprof.len)
			write_pprof(&pprof, tree);
		if (!pprof.len)
			break;
		servers[i].make(p, &m, &post);
		push_client_put(p->clients[i], &post);
	}
	buf_free(&pprof);
}

static void end_message(struct agent_profile *p, struct otlp_profiles *m)
{
	struct http_post post = {.path = OTLP_PROFILES_PATH, .type = OTLP_TYPE};
	otlp_profiles_end(m, &post.body);
	push_client_put(p->told.otlp, &post);
}

/* *m: NULL where there is none yet. */
static void put_to_otlp(struct agent_profile *p, const struct calltree *tree,
			const struct live_process *of, struct otlp_profiles **m)
{
	if (!*m)
		*m = otlp_profiles_new(p->told.about);
	otlp_profiles_add(*m, tree, of);
	if (otlp_profiles_bytes(*m) < MESSAGE_BYTES)
		return;
	end_message(p, *m);
	*m = NULL;
}

/* One of which nothing was told. */
static struct live_process process_of(uint32_t pid)
{
	struct live_process ret = {.pid = pid, .comm = "process", .rank = -1};
	proc_labels_init(&ret.labels);
	return ret;
}

static void make_all(struct agent_profile *p, const struct live_series *s, uint64_t now_ns)
{
	uint64_t offset_ns = realtime_offset_ns();
	const struct live_samples_piece piece = live_samples_piece(p->samples, now_ns);
	struct otlp_profiles *m = NULL;
	for (size_t i = 0; i < piece.npids; i++) {
		const struct live_process unknown = process_of(piece.pids[i]),
					  *known = live_series_process(s, piece.pids[i]),
					  *of = known ? known : &unknown;
		struct calltree tree;
		if (!make_tree(&tree, &piece, piece.pids[i]))
			continue;
		tree.start_realtime_ns = piece.from_ns + offset_ns;
		tree.duration_ns = piece.until_ns - piece.from_ns;
		put_to_servers(p, &tree, of);
		if (p->told.otlp)
			put_to_otlp(p, &tree, of, &m);
		calltree_free(&tree);
	}
	if (m)
		end_message(p, m);
	drop(p, piece.left_out);
}

static void make_profiles(struct agent_profile *p, const struct live_series *s, uint64_t now_ns)
{
	uint64_t began_ns = monotonic_ns();
	make_all(p, s, now_ns);
	live_samples_next(p->samples, now_ns);
	for (size_t i = 0; i < PROFILE_SERVERS; i++)
		if (p->clients[i])
			push_client_took(p->clients[i], monotonic_ns() - began_ns);
}

void agent_profile_batch(struct agent_profile *p, const struct session_view *v,
			 const struct live_series *s, uint64_t now_ns)
{
	p->begun = true;
	if (live_samples_take(p->samples, v, now_ns))
		make_profiles(p, s, now_ns);
}

void agent_profile_end(struct agent_profile *p, const struct live_series *s, uint64_t now_ns)
{
	if (p->begun)
		make_profiles(p, s, now_ns);
}

size_t agent_profile_stats(struct agent_profile *p, struct agent_pushed ret[static PROFILE_SERVERS])
{
	size_t n = 0;
	for (size_t i = 0; i < PROFILE_SERVERS; i++)
		if (p->clients[i])
			push_client_stats(p->clients[i], &ret[n++]);
	return n;
}

/* ---- its life ---- */

static int open_server(struct agent_profile *p, size_t i, const struct push_wanted *w,
		       struct err *e)
{
	const struct server *s = &servers[i];
	const struct push_client_options o = {.to = s->to,
					      .option = s->option,
					      .header_option = s->header_option,
					      .ctx = p->told.ctx,
					      .say = p->told.say};
	struct push_wanted to = *w;
	to.interval_ns = SEND_NS;
	to.timeout_ns = TIMEOUT_NS;
	return to.url ? push_client_open(&p->clients[i], &to, &o, e) : 0;
}

int agent_profile_open(struct agent_profile **ret, const struct profile_wanted *w,
		       const struct agent_profile_told *told, struct err *e)
{
	struct agent_profile *p = xcalloc(1, sizeof(*p));
	int rc = 0;
	p->told = *told;
	p->samples = live_samples_new(w->interval_ns);
	for (size_t i = 0; i < PROFILE_SERVERS && !rc; i++)
		rc = open_server(p, i, &w->servers[i], e);
	if (rc)
		agent_profile_close(p);
	else
		*ret = p;
	return rc;
}

int agent_profile_start(struct agent_profile *p, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < PROFILE_SERVERS && !rc; i++)
		if (p->clients[i])
			rc = push_client_start(p->clients[i], e);
	return rc;
}

void agent_profile_close(struct agent_profile *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < PROFILE_SERVERS; i++)
		push_client_close(p->clients[i]);
	live_samples_free(p->samples);
	free(p);
}
