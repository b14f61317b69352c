/* session_sockets.c - once a second, the TCP connections of the traced processes go into the
 * recording: what NCCL's socket transport moves, and had to send again. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "session/session_impl.h"

#define PROCESSES_A_ROUND 256 /* some 50 us each; of more, each has its turn */

static void take(void *ctx, const struct rec_socket *row)
{
	struct session *s = ctx;
	sockets_take(s->sockets, row);
}

void sockets_told(struct session *s, const struct rec_socket *row)
{
	if (s->sockets)
		sockets_take(s->sockets, row);
}

static void put(void *ctx, const struct connection *c)
{
	struct session *s = ctx;
	struct pipeline_connection row = {
		.row = {.pid = c->pid,
			.netns = c->netns,
			.first_ns = c->first_ns,
			.last_ns = c->last_ns,
			.closed_ns = c->closed_ns,
			.bytes_sent = c->bytes_sent,
			.bytes_received = c->bytes_received,
			.bytes_retransmitted = c->bytes_resent,
			.retransmits = c->retransmits,
			.sent_before = c->sent_before,
			.received_before = c->received_before,
			.srtt_us = c->srtt_us,
			.by_nccl = c->by_nccl},
		.source = c->source,
		.destination = c->destination,
		.opener = c->opener,
	};
	pipeline_connection(s->pipeline, &row);
}

static void emit(void *ctx, const char *entity, const char *name, double value)
{
	struct session *s = ctx;
	pipeline_counter(s->pipeline, monotonic_ns(), entity, name, value);
}

void sockets_start(struct session *s)
{
	struct err e = {0};
	if (!(s->opts->layers & layers_with(LAYER_HAS_COLLECTIVES)))
		return;
	s->sockets = sockets_new(s->opts->command != NULL);
	if (tracer_watch_sockets(s->tracer, &e))
		pipeline_note(s->pipeline, "connections", e.msg);
}

void sockets_sample(struct session *s)
{
	struct err e = {0};
	if (!s->sockets)
		return;
	size_t n = s->live.len < PROCESSES_A_ROUND ? s->live.len : PROCESSES_A_ROUND;
	for (size_t i = 0; i < n; i++) {
		pid_t pid = s->live.data[s->sockets_next++ % s->live.len];
		int rc = tracer_sockets(s->tracer, pid, take, s, &e);
		sockets_taken(s->sockets, (uint32_t)pid);
		if (rc && rc != -ESRCH && !s->sockets_failed) {
			s->sockets_failed = true;
			pipeline_note(s->pipeline, "connections", e.msg);
		}
	}
	for (size_t i = 0; i < s->live.len; i++)
		sockets_lives(s->sockets, (uint32_t)s->live.data[i]);
	sockets_changed(s->sockets, put, s);
	sockets_counters(s->sockets, emit, s);
}

void sockets_stop(struct session *s)
{
	if (!s->sockets)
		return;
	tracer_control(s->tracer); /* those that have closed */
	sockets_sample(s);
	sockets_free(s->sockets);
	s->sockets = NULL;
}
