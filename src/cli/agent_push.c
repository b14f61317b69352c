/* agent_push.c - one client for metrics, logs and spans: what is due is made of the agent's state,
 * under its lock as an answer to /metrics is, and of what happened since the last time. */
#include "cli/agent_push.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "cli/agent_answers.h"
#include "serve/otlp_answer.h"
#include "serve/otlp_metrics.h"

#ifndef EACGM_VERSION
#define EACGM_VERSION "unknown"
#endif

#define LATE_NS	     1000000000ULL /* rows of different CPUs come so much after another */
#define CLOCK_SET_NS 10000000

static const char metrics_path[] = "/v1/metrics", logs_path[] = "/v1/logs",
		  traces_path[] = "/v1/traces", headers_variable[] = "OTEL_EXPORTER_OTLP_HEADERS";

struct agent_push {
	struct agent *agent;
	struct push_client *client;
	struct pairs resource;
	struct otlp_about about;
	char *url;
	uint64_t events_offset_ns;
	uint64_t offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC at first: starts stay the same */
	atomic_bool ending;
	pthread_mutex_t lock;	/* of the rest */
	uint64_t rejected_rows; /* of what was taken */
	bool said_rejected;
};

/* ---- the environment ---- */

static const char *variable(const char *name)
{
	const char *text = getenv(name);
	return text && *text ? text : NULL;
}

static int milliseconds(const char *name, uint64_t *ret_ns, struct err *e)
{
	const char *text = variable(name);
	char *end = NULL;
	unsigned long ms = text ? strtoul(text, &end, 10) : 0;
	if (!text)
		return 0;
	if (*end || !ms || ms > 3600000)
		return err_set(e, EINVAL, "%s: '%s' is no number of milliseconds from 1 to 3600000",
			       name, text);
	*ret_ns = ms * 1000000ULL;
	return 0;
}

static int check_protocol(struct err *e)
{
	const char *protocol = variable("OTEL_EXPORTER_OTLP_PROTOCOL");
	if (!protocol || !strcmp(protocol, "http/protobuf"))
		return 0;
	return err_set(e, EINVAL,
		       "OTEL_EXPORTER_OTLP_PROTOCOL: '%s' is not spoken, http/protobuf is: "
		       "collectors take it at port 4318",
		       protocol);
}

int otlp_wanted_environment(struct otlp_wanted *w, struct err *e)
{
	const char *off = variable("OTEL_SDK_DISABLED");
	struct push_wanted *to = &w->to;
	if (!to->url && !(off && !strcasecmp(off, "true")))
		to->url = variable("OTEL_EXPORTER_OTLP_ENDPOINT");
	if (!to->url)
		return 0;
	if (!to->ca_file)
		to->ca_file = variable("OTEL_EXPORTER_OTLP_CERTIFICATE");
	to->more_headers = variable(headers_variable);
	w->resource = variable("OTEL_RESOURCE_ATTRIBUTES");
	w->service = variable("OTEL_SERVICE_NAME");
	int rc = check_protocol(e);
	if (!rc && !to->interval_ns)
		rc = milliseconds("OTEL_METRIC_EXPORT_INTERVAL", &to->interval_ns, e);
	if (!rc)
		rc = milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT", &to->timeout_ns, e);
	return rc;
}

/* ---- what is sent ---- */

static void put(struct push_client *c, const char *path, struct buf *body)
{
	push_client_put(c, &(struct http_post){.path = path, .type = OTLP_TYPE, .body = *body});
}

/* Where two pushes meet their times are to be the same: it changes when the clock was set. */
static uint64_t offset_of_events(struct agent_push *p, uint64_t offset_ns)
{
	int64_t by_ns = (int64_t)(offset_ns - p->events_offset_ns);
	if (by_ns > CLOCK_SET_NS || by_ns < -CLOCK_SET_NS)
		p->events_offset_ns = offset_ns;
	return p->events_offset_ns;
}

static void on_due(void *ctx, struct push_client *c)
{
	struct agent_push *p = ctx;
	struct agent *a = p->agent;
	struct buf metrics = {0}, logs = {0}, spans = {0};
	uint64_t began_ns = monotonic_ns(), now_ns = realtime_ns();
	uint64_t offset_ns = offset_of_events(p, realtime_offset_ns());
	agent_metrics_otlp(a, &metrics, &p->about, now_ns, p->offset_ns);
	otlp_events_write_logs(a->events, &logs, &p->about, offset_ns);
	otlp_events_write_spans(a->events, &spans, &p->about, offset_ns,
				p->ending ? UINT64_MAX : began_ns - LATE_NS);
	put(c, logs_path, &logs); /* what is rare first: it is told once */
	put(c, traces_path, &spans);
	put(c, metrics_path, &metrics);
	push_client_took(c, monotonic_ns() - began_ns);
}

static void on_taken(void *ctx, const char *path, const uint8_t *answer, size_t n)
{
	struct agent_push *p = ctx;
	char why[200];
	uint64_t rejected = otlp_answer_rejected(answer, n, why, sizeof(why));
	if (!rejected)
		return;
	pthread_mutex_lock(&p->lock);
	p->rejected_rows += rejected;
	pthread_mutex_unlock(&p->lock);
	if (!p->said_rejected) {
		char *text = xasprintf("%s left out %llu of what was pushed to %s: %s", p->url,
				       (unsigned long long)rejected, path,
				       why[0] ? why : "it does not say why");
		agent_say(p->agent, text);
		free(text);
	}
	p->said_rejected = true;
}

static void on_say(void *ctx, const char *sentence)
{
	agent_say(((struct agent_push *)ctx)->agent, sentence);
}

struct push_client *agent_push_client(struct agent_push *p)
{
	return p->client;
}

const struct otlp_about *agent_push_about(const struct agent_push *p)
{
	return &p->about;
}

void agent_push_stats(struct agent_push *p, struct agent_pushed *ret)
{
	struct otlp_events_stats events;
	otlp_events_stats(p->agent->events, &events);
	push_client_stats(p->client, ret);
	ret->tells_events = true;
	ret->logs = events.logs;
	ret->spans = events.spans;
	ret->logs_left_out = events.logs_left_out;
	ret->spans_left_out = events.spans_left_out;
	pthread_mutex_lock(&p->lock);
	ret->rejected_rows = p->rejected_rows;
	pthread_mutex_unlock(&p->lock);
}

/* ---- its life ---- */

static int read_resource(struct agent_push *p, const struct otlp_wanted *w, struct err *e)
{
	int rc = pairs_add_list(&p->resource, w->resource, "OTEL_RESOURCE_ATTRIBUTES", e);
	if (rc || !w->service)
		return rc;
	for (size_t i = 0; i < p->resource.len; i++) /* it wins */
		if (!strcmp(p->resource.names[i], "service.name")) {
			free(p->resource.values[i]);
			p->resource.values[i] = xstrdup(w->service);
			return 0;
		}
	char *pair = xasprintf("service.name=%s", w->service);
	rc = pairs_add(&p->resource, pair, strlen(pair), false, "OTEL_SERVICE_NAME", e);
	free(pair);
	return rc;
}

int agent_push_open(struct agent_push **ret, const struct otlp_wanted *w, struct agent *a,
		    struct err *e)
{
	struct push_client_options o = {.to = "otlp",
					.option = "otlp",
					.header_option = "otlp-header",
					.variable = headers_variable,
					.due = on_due,
					.taken = on_taken,
					.say = on_say};
	struct agent_push *p = xcalloc(1, sizeof(*p));
	pthread_mutex_init(&p->lock, NULL);
	p->agent = a;
	p->url = xstrdup(w->to.url);
	p->offset_ns = p->events_offset_ns = realtime_offset_ns();
	o.ctx = p;
	int rc = read_resource(p, w, e);
	if (!rc)
		rc = push_client_open(&p->client, &w->to, &o, e);
	p->about = (struct otlp_about){
		.version = EACGM_VERSION,
		.host = a->host,
		.start_realtime_ns = realtime_ns(),
		.keys = (const char *const *)p->resource.names,
		.values = (const char *const *)p->resource.values,
		.n = p->resource.len,
	};
	if (rc)
		agent_push_close(p);
	else
		*ret = p;
	return rc;
}

int agent_push_start(struct agent_push *p, struct err *e)
{
	return push_client_start(p->client, e);
}

void agent_push_close(struct agent_push *p)
{
	if (!p)
		return;
	p->ending = true;
	push_client_close(p->client);
	pairs_free(&p->resource);
	free(p->url);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
