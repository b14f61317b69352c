/* agent_answers.c - what an agent answers by HTTP, from what it knows: the page, metrics, JSON. It
 * changes nothing but by POST. */
#include "cli/agent_answers.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/agent_freezes.h"
#include "cli/agent_frozen.h"
#include "cli/agent_history.h"
#include "cli/agent_profile.h"
#include "cli/agent_push.h"
#include "report/report_judged.h"
#include "serve/exposition.h"
#include "serve/http_query.h"
#include "serve/otlp_metrics.h"
#include "web/web_page.h"

#ifndef EACGM_VERSION
#define EACGM_VERSION "unknown"
#endif

/* What is asked of others than the state: without its lock. */
struct beside {
	struct flight_stats frozen;
	struct agent_peers_view peers;
	struct agent_pushed pushed[1 + PROFILE_SERVERS];
	size_t pushed_len;
};

static void ask_beside(struct agent *a, struct beside *ret)
{
	*ret = (struct beside){.pushed_len = 0};
	if (a->flight) {
		flight_stats(a->flight, &ret->frozen);
		agent_peers_stats(a->peers, &ret->peers);
	}
	pthread_mutex_lock(&a->push_lock);
	if (a->push)
		agent_push_stats(a->push, &ret->pushed[ret->pushed_len++]);
	pthread_mutex_unlock(&a->push_lock);
	if (a->profile)
		ret->pushed_len += agent_profile_stats(a->profile, &ret->pushed[ret->pushed_len]);
}

/* The lock is held. */
static struct agent_view view_of(const struct agent *a, const struct beside *b)
{
	return (struct agent_view){.series = &a->series,
				   .state = &a->state,
				   .jobs = &a->jobs,
				   .causes = &a->incidents.causes,
				   .notices = &a->notices,
				   .rules = a->rules,
				   .host = a->host,
				   .version = EACGM_VERSION,
				   .freezes = a->flight != NULL,
				   .frozen = b->frozen.files,
				   .unfrozen = b->frozen.failed,
				   .held_off = b->frozen.held_off,
				   .peers = &b->peers,
				   .pushed = b->pushed,
				   .pushed_len = b->pushed_len};
}

static void get_metrics(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	struct agent *a = ctx;
	struct beside beside;
	struct exposition x = {.open_metrics = strstr(q->accept, "application/openmetrics-text")};
	const struct series_sink sink = exposition_sink(&x);
	ret->type = exposition_type(x.open_metrics);
	ask_beside(a, &beside);
	pthread_mutex_lock(&a->lock);
	struct agent_view view = view_of(a, &beside);
	view.dcgm = a->dcgm;
	agent_series_write(&sink, &view);
	pthread_mutex_unlock(&a->lock);
	exposition_end(&x);
	ret->body = x.text;
}

void agent_metrics_otlp(struct agent *a, struct buf *ret, const struct otlp_about *about,
			uint64_t now_realtime_ns, uint64_t offset_ns)
{
	struct beside beside;
	ask_beside(a, &beside);
	pthread_mutex_lock(&a->lock);
	const struct agent_view view = view_of(a, &beside);
	otlp_metrics_write(ret, about, &view, now_realtime_ns, offset_ns);
	pthread_mutex_unlock(&a->lock);
}

static int add_to_body(const char *text, size_t size, void *body)
{
	buf_add(body, text, size);
	return 0;
}

void agent_answer_json(struct http_answer *ret, json_t *answer)
{
	ret->type = "application/json";
	ret->status = answer ? 200 : 404;
	if (!answer)
		answer = json_pack("{s:s}", "error", "there is none");
	json_dump_callback(answer, add_to_body, &ret->body, JSON_COMPACT | JSON_REAL_PRECISION(7));
	buf_byte(&ret->body, '\n');
	json_decref(answer);
}

typedef json_t *api_answer(const struct agent_api_view *v, const char *rest);

/* rest: of the path. NULL from make: there is no such thing. */
static void answer_json(struct agent *a, struct http_answer *ret, api_answer *make,
			const char *rest)
{
	struct beside beside;
	ask_beside(a, &beside);
	pthread_mutex_lock(&a->lock);
	const struct agent_api_view view = {.agent = view_of(a, &beside),
					    .trends = &a->trends,
					    .incidents = a->incidents.list,
					    .now_ns = monotonic_ns()};
	json_t *answer = make(&view, rest);
	pthread_mutex_unlock(&a->lock);
	agent_answer_json(ret, answer);
}

static const char *last_part(const char *path)
{
	return strrchr(path, '/') + 1;
}

static json_t *make_job(const struct agent_api_view *v, const char *rest)
{
	char *end;
	unsigned long pid = strtoul(rest, &end, 10);
	bool good = rest[0] >= '0' && rest[0] <= '9' && !*end && pid <= UINT32_MAX;
	return good ? agent_api_job(v, (uint32_t)pid) : NULL;
}

static json_t *make_series(const struct agent_api_view *v, const char *rest)
{
	return agent_api_series(v, strcmp(rest, "series") != 0 ? rest : NULL);
}

/* One for each answer that takes no more than what is known. */
#define GET_JSON(name)                                                                             \
	static json_t *make_##name(const struct agent_api_view *v, const char *rest)               \
	{                                                                                          \
		(void)rest;                                                                        \
		return agent_api_##name(v);                                                        \
	}                                                                                          \
	static void get_##name(void *ctx, const struct http_question *q, struct http_answer *ret)  \
	{                                                                                          \
		(void)q;                                                                           \
		answer_json(ctx, ret, make_##name, "");                                            \
	}
GET_JSON(jobs)
GET_JSON(incidents)
GET_JSON(gpus)
GET_JSON(self)
GET_JSON(state)
#undef GET_JSON

/* "4711/flame" of a path; 0: it is another. */
static uint32_t flame_asked(const char *rest)
{
	char *end;
	unsigned long pid = strtoul(rest, &end, 10);
	bool good = rest[0] >= '0' && rest[0] <= '9' && !strcmp(end, "/flame");
	return good && pid <= UINT32_MAX ? (uint32_t)pid : 0;
}

static void get_flame(struct agent *a, uint32_t pid, const char *query, struct http_answer *ret)
{
	uint64_t from_ns = 0, to_ns = UINT64_MAX;
	json_t *answer;
	if (http_query_u64(query, "from", &from_ns) || http_query_u64(query, "to", &to_ns)) {
		answer = json_pack("{s:s}", "error", "from and to are nanoseconds");
		agent_answer_json(ret, answer);
		ret->status = 400;
		return;
	}
	agent_answer_json(ret, agent_flames_json(a->flames, pid, from_ns, to_ns));
}

static void get_job(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	static const char below[] = "/api/v1/jobs/";
	uint32_t pid = flame_asked(q->path + strlen(below));
	if (pid)
		get_flame(ctx, pid, q->query, ret);
	else
		answer_json(ctx, ret, make_job, last_part(q->path));
}

static void get_series(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	answer_json(ctx, ret, make_series, last_part(q->path));
}

static void get_detector(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	(void)q;
	agent_answer_json(ret, judged_layers_json(((struct agent *)ctx)->judged));
}

static void get_judged(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	struct agent *a = ctx;
	uint64_t x = JUDGED_CHOOSES, y = JUDGED_CHOOSES;
	bool good = !http_query_u64(q->query, "x", &x) && !http_query_u64(q->query, "y", &y);
	const char *layer = last_part(q->path);
	agent_answer_json(ret, good ? judged_layer_json(a->judged, layer, x, y) : NULL);
}

static void get_settings(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	struct agent *a = ctx;
	(void)q;
	pthread_mutex_lock(&a->lock);
	json_t *now = json_incref(a->settings);
	pthread_mutex_unlock(&a->lock);
	agent_answer_json(ret, now);
}

/* An event of server-sent events (html.spec.whatwg.org, 9.2). */
static void get_events(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	struct http_answer state = {.status = 200};
	get_state(ctx, q, &state);
	buf_printf(&ret->body, "retry: 3000\nevent: state\ndata: %.*s\n", (int)state.body.len,
		   (const char *)state.body.data);
	buf_free(&state.body);
	ret->type = "text/event-stream";
}

static void get_page(struct agent *a, struct http_answer *ret)
{
	ret->type = "text/html; charset=utf-8";
	ret->policy = (const char *)a->policy.data;
	web_page_begin(&ret->body, "'self'");
	web_page_end(&ret->body);
}

/* The page is the same for all, and has nothing of this host in it: what it shows it asks for. */
static bool wants_page(const char *accept)
{
	return web_page_is_there() && strstr(accept, "text/html");
}

static void get_root(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	if (wants_page(q->accept)) {
		get_page(ctx, ret);
		return;
	}
	buf_printf(&ret->body,
		   "eacgm agent " EACGM_VERSION "\n/         for browsers: a page\n"
		   "/metrics  for Prometheus\n"
		   "/api/v1/  jobs, incidents, gpus, series, history, self, events: JSON\n"
		   "/healthz  whether it works\n"
		   "/freeze   POST: the last seconds into a recording\n");
}

/* Batches come several times a second, also where nothing happens. */
static void get_health(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	struct agent *a = ctx;
	(void)q;
	pthread_mutex_lock(&a->lock);
	uint64_t last_ns = a->last_batch_ns;
	pthread_mutex_unlock(&a->lock);
	bool works = last_ns && monotonic_ns() - last_ns < 10000000000ULL;
	ret->status = works ? 200 : 503;
	buf_printf(&ret->body, works ? "ok\n" : "nothing came for ten seconds\n");
}

static void post_freeze(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	struct agent *a = ctx;
	if (!a->flight) {
		ret->status = 404;
		buf_printf(&ret->body, "nothing is kept: start the agent with --freeze FOLDER\n");
		return;
	}
	if (q->body_len) {
		agent_peers_note(a->peers, q, ret);
		return;
	}
	static const int statuses[] = {[FLIGHT_OWN] = 202,
				       [FLIGHT_JOINS] = 202,
				       [FLIGHT_LATE] = 200,
				       [FLIGHT_HELD_OFF] = 429};
	const struct flight_verdict v =
		agent_peers_freeze(a->peers, &(struct agent_freeze){.why = "asked by HTTP",
								    .of = "who asks by HTTP",
								    .is_answered = true});
	ret->status = statuses[v.taken];
	agent_frozen_sentence(&ret->body, &v);
	buf_printf(&ret->body, "\n");
}

const struct http_route agent_routes[] = {
	{"/", .answer = get_root, .open = wants_page},
	{"/metrics", .answer = get_metrics},
	{"/api/v1/jobs", .answer = get_jobs, .guarded = true},
	{"/api/v1/jobs/", .answer = get_job, .guarded = true},
	{"/api/v1/incidents", .answer = get_incidents, .guarded = true},
	{"/api/v1/gpus", .answer = get_gpus, .guarded = true},
	{"/api/v1/series", .answer = get_series, .guarded = true},
	{"/api/v1/series/", .answer = get_series, .guarded = true},
	{"/api/v1/detector", .answer = get_detector, .guarded = true},
	{"/api/v1/detector/", .answer = get_judged, .guarded = true},
	{"/api/v1/history", .answer = agent_get_history, .aside = true, .guarded = true},
	{"/api/v1/history/", .answer = agent_get_history, .aside = true, .guarded = true},
	{"/api/v1/settings", .answer = get_settings, .guarded = true},
	{"/api/v1/self", .answer = get_self, .guarded = true},
	{"/api/v1/state", .answer = get_state, .guarded = true},
	{"/api/v1/events", .answer = get_events, .streams = true, .guarded = true},
	{"/api/v1/freezes", .answer = agent_get_freezes, .guarded = true},
	{"/freezes/", .answer = agent_get_freeze, .guarded = true},
	{"/healthz", .answer = get_health},
	{"/freeze", .posts = true, .answer = post_freeze},
};
const size_t agent_routes_len = sizeof(agent_routes) / sizeof(agent_routes[0]);
