/* sockets.c - connections by the kernel's name of their socket. A name comes again once its
 * connection is closed, so closed ones lose theirs. */
#include "collect/sockets.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/map64.h"

enum { TCP_CLOSED = 7, TCP_LISTENS = 10 }; /* of Linux's net/tcp_states.h */

struct known {
	struct connection c;
	uint64_t socket;
	uint16_t timeouts; /* as the kernel counts them */
	uint32_t send_queue, receive_queue;
	bool changed;
	bool seen; /* since queues were told last */
};

/* Connections that wait to be accepted at a socket. */
struct backlog {
	uint32_t queue, limit;
};

/* Of a process, with the connections that are gone. */
struct totals {
	uint32_t pid;
	uint64_t sent, received, retransmits, resent, timeouts;
	uint32_t open; /* connections in the list */
	bool taken;    /* all that it has were seen once */
	bool changed;
	bool lives; /* the process, as was said in this round */
	/* Since they were told last: what was sent on connections whose round trips are known,
	 * and these times it. */
	double timed_bytes, round_trips_us;
	uint64_t send_queue, receive_queue; /* bytes of its connections, while they are told */
	struct backlog fullest;		    /* of its sockets that listen */
	bool queues_seen, listens, looked_at;
	bool told_bytes, told_backlog; /* last: some waited */
};

struct sockets {
	VEC(struct known) list;
	struct map64 by_socket; /* -> index in list */
	VEC(struct totals) totals;
	struct map64 by_pid; /* -> index in totals */
	bool from_start;
};

struct sockets *sockets_new(bool from_start)
{
	struct sockets *s = xcalloc(1, sizeof(*s));
	s->from_start = from_start;
	return s;
}

void sockets_free(struct sockets *s)
{
	if (!s)
		return;
	vec_free(&s->list);
	vec_free(&s->totals);
	map64_free(&s->by_socket);
	map64_free(&s->by_pid);
	free(s);
}

/* An IPv4 address within IPv6 (RFC 4291, 2.5.5.2) is shown as what it is. */
static void format_address(char *ret, uint8_t family, const uint8_t *address, uint16_t port)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	char text[INET6_ADDRSTRLEN] = "?";
	bool v6 = family == AF_INET6;
	if (v6 && !memcmp(address, mapped, sizeof(mapped))) {
		address += sizeof(mapped);
		v6 = false;
	}
	inet_ntop(v6 ? AF_INET6 : AF_INET, address, text, sizeof(text));
	snprintf(ret, SOCKET_ADDRESS_BYTES, v6 ? "[%s]:%u" : "%s:%u", text, port);
}

static struct totals *totals_of(struct sockets *s, uint32_t pid)
{
	uint64_t i;
	if (map64_get(&s->by_pid, pid, &i))
		return &s->totals.data[i];
	struct totals *t = vec_push(&s->totals);
	map64_set(&s->by_pid, pid, s->totals.len - 1);
	t->pid = pid;
	return t;
}

static struct known *add(struct sockets *s, const struct rec_socket *row)
{
	struct known *k = vec_push(&s->list);
	map64_set(&s->by_socket, row->socket, s->list.len - 1);
	k->socket = row->socket;
	k->c.pid = row->tgid;
	k->c.netns = row->netns;
	k->c.first_ns = row->time_ns;
	totals_of(s, row->tgid)->open++;
	memcpy(k->c.opener, row->opener, sizeof(row->opener));
	format_address(k->c.source, row->family, row->source, row->source_port);
	format_address(k->c.destination, row->family, row->destination, row->destination_port);
	if (!s->from_start && !k->c.opener[0] && !totals_of(s, row->tgid)->taken) {
		k->c.bytes_sent = k->c.sent_before = row->bytes_sent;
		k->c.bytes_received = k->c.received_before = row->bytes_received;
		k->c.retransmits = k->c.retransmits_before = row->retransmits;
		k->c.bytes_resent = row->bytes_resent;
		k->timeouts = (uint16_t)row->timeouts;
	}
	return k;
}

/* What it grew by; a figure that was read while it changed may seem to shrink. */
static uint64_t grow(uint64_t *figure, uint64_t now)
{
	uint64_t by = now > *figure ? now - *figure : 0;
	*figure += by;
	return by;
}

/* A queue is full with one more than its limit. */
static bool is_fuller(const struct backlog *a, const struct backlog *b)
{
	return (uint64_t)a->queue * ((uint64_t)b->limit + 1) >
	       (uint64_t)b->queue * ((uint64_t)a->limit + 1);
}

/* A socket that several processes have is told of each: any of them may accept. */
static void take_listener(struct sockets *s, const struct rec_socket *row)
{
	struct totals *t = totals_of(s, row->tgid);
	struct backlog b = {row->receive_queue, row->send_queue};
	if (!t->listens || is_fuller(&b, &t->fullest))
		t->fullest = b;
	t->listens = true;
}

void sockets_take(struct sockets *s, const struct rec_socket *row)
{
	uint64_t i;
	if (row->state == TCP_LISTENS) {
		take_listener(s, row);
		return;
	}
	bool is_new = !map64_get(&s->by_socket, row->socket, &i);
	if (!is_new && row->time_ns < s->list.data[i].c.last_ns)
		return; /* was told already */
	if (!is_new && s->list.data[i].c.closed_ns)
		is_new = true; /* its name has been given to another */
	struct known *k = is_new ? add(s, row) : &s->list.data[i];
	struct connection *c = &k->c;
	struct totals *t = totals_of(s, c->pid);
	uint64_t sent = grow(&c->bytes_sent, row->bytes_sent);
	uint64_t received = grow(&c->bytes_received, row->bytes_received);
	uint64_t retransmits = grow(&c->retransmits, row->retransmits);
	t->resent += grow(&c->bytes_resent, row->bytes_resent);
	int16_t timeouts = (int16_t)(uint16_t)(row->timeouts - k->timeouts);
	t->timeouts += timeouts > 0 ? (uint64_t)timeouts : 0; /* as grow(), modulo 2^16 */
	k->timeouts = (uint16_t)row->timeouts;
	t->sent += sent;
	t->received += received;
	t->retransmits += retransmits;
	bool moved = sent || received || retransmits;
	t->changed |= is_new || moved || timeouts > 0;
	if (row->srtt_us) {
		t->timed_bytes += (double)sent;
		t->round_trips_us += (double)sent * row->srtt_us;
	}
	c->by_nccl |= (row->flags & SOCKET_NCCL) != 0;
	c->srtt_us = row->srtt_us;
	c->last_ns = row->time_ns;
	k->send_queue = row->send_queue;
	k->receive_queue = row->receive_queue;
	k->seen = true;
	if (row->state == TCP_CLOSED)
		c->closed_ns = row->time_ns;
	k->changed |= is_new || moved || c->closed_ns;
}

void sockets_taken(struct sockets *s, uint32_t pid)
{
	struct totals *t = totals_of(s, pid);
	t->taken = t->looked_at = true;
}

void sockets_lives(struct sockets *s, uint32_t pid)
{
	uint64_t i;
	if (map64_get(&s->by_pid, pid, &i))
		s->totals.data[i].lives = true;
}

void sockets_changed(struct sockets *s, const struct collect_sink *sink)
{
	size_t left = 0;
	for (size_t i = 0; i < s->list.len; i++) {
		struct known *k = &s->list.data[i];
		if (k->changed && sink->connection)
			sink->connection(sink->ctx, &k->c);
		k->changed = false;
		uint64_t named;
		bool has_name = map64_get(&s->by_socket, k->socket, &named) && named == i;
		if (k->c.closed_ns) {
			if (has_name)
				map64_del(&s->by_socket, k->socket);
			totals_of(s, k->c.pid)->open--;
			continue;
		}
		if (left != i) {
			s->list.data[left] = *k;
			map64_set(&s->by_socket, s->list.data[left].socket, left);
		}
		left++;
	}
	s->list.len = left;
}

size_t sockets_processes(const struct sockets *s)
{
	return s->totals.len;
}

static void tell_totals(const struct totals *t, uint64_t now_ns, const struct collect_sink *sink)
{
	struct entity of = ENTITY_OF_PID(t->pid);
	sink_counter(sink, now_ns, &of, "net_sent_bytes", (double)t->sent);
	sink_counter(sink, now_ns, &of, "net_received_bytes", (double)t->received);
	sink_counter(sink, now_ns, &of, "net_retransmits", (double)t->retransmits);
	sink_counter(sink, now_ns, &of, "net_resent_bytes", (double)t->resent);
	sink_counter(sink, now_ns, &of, "net_timeouts", (double)t->timeouts);
	if (t->timed_bytes > 0)
		sink_counter(sink, now_ns, &of, "net_round_trip_ns",
			     1e3 * t->round_trips_us / t->timed_bytes);
}

static void sum_queues(struct sockets *s)
{
	for (size_t i = 0; i < s->list.len; i++) {
		struct known *k = &s->list.data[i];
		if (k->c.closed_ns)
			continue;
		struct totals *t = totals_of(s, k->c.pid);
		t->send_queue += k->send_queue;
		t->receive_queue += k->receive_queue;
		t->queues_seen |= k->seen;
		k->seen = false;
	}
}

/* That nothing waits any more is told too where there is no socket any more. */
static void tell_queues(struct totals *t, uint64_t now_ns, const struct collect_sink *sink)
{
	struct entity of = ENTITY_OF_PID(t->pid);
	if (t->queues_seen || t->told_bytes) {
		sink_counter(sink, now_ns, &of, "net_send_queue_bytes", (double)t->send_queue);
		sink_counter(sink, now_ns, &of, "net_receive_queue_bytes",
			     (double)t->receive_queue);
		t->told_bytes = t->send_queue || t->receive_queue;
	}
	if (t->listens) {
		sink_counter(sink, now_ns, &of, "net_accept_queue", t->fullest.queue);
		sink_counter(sink, now_ns, &of, "net_accept_queue_limit", t->fullest.limit);
		t->told_backlog = t->fullest.queue;
	} else if (t->told_backlog && t->looked_at) {
		sink_counter(sink, now_ns, &of, "net_accept_queue", 0);
		t->told_backlog = false;
	}
	t->send_queue = t->receive_queue = 0;
	t->queues_seen = t->listens = t->looked_at = false;
}

void sockets_counters(struct sockets *s, uint64_t now_ns, const struct collect_sink *sink)
{
	size_t left = 0;
	sum_queues(s);
	for (size_t i = 0; i < s->totals.len; i++) {
		struct totals *t = &s->totals.data[i];
		if (t->changed)
			tell_totals(t, now_ns, sink);
		tell_queues(t, now_ns, sink);
		bool keep = t->lives || t->open;
		t->changed = t->lives = false;
		t->timed_bytes = t->round_trips_us = 0;
		if (!keep) {
			map64_del(&s->by_pid, t->pid);
			continue;
		}
		map64_set(&s->by_pid, t->pid, left);
		s->totals.data[left++] = *t;
	}
	s->totals.len = left;
}
