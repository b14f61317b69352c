/* sockets_test.c - what becomes of the states of sockets: totals, baselines, names that come again,
 * what waits in them.
 * links: base collect symbolize */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collect/sockets.h"

enum { ESTABLISHED = 1, CLOSED = 7, LISTENS = 10, INET = 2, INET6 = 10, NOW = 99 };

#define NOTHING_WAITS(pid)                                                                         \
	"pid " pid " net_send_queue_bytes 0\npid " pid " net_receive_queue_bytes 0\n"

static char told[4096];

static void tell(void *ctx, const struct connection *c)
{
	(void)ctx;
	size_t n = strlen(told);
	snprintf(told + n, sizeof(told) - n,
		 "%u %s>%s '%s' sent %lu-%lu got %lu-%lu resent %lu%s\n", c->pid, c->source,
		 c->destination, c->opener, (unsigned long)c->sent_before,
		 (unsigned long)c->bytes_sent, (unsigned long)c->received_before,
		 (unsigned long)c->bytes_received, (unsigned long)c->retransmits,
		 c->closed_ns ? " closed" : "");
}

static void emit(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
		 double value)
{
	(void)ctx;
	assert_int_equal(time_ns, NOW);
	assert_int_equal(of->kind, ENTITY_PROCESS);
	size_t n = strlen(told);
	snprintf(told + n, sizeof(told) - n, "pid %u %s %.0f\n", of->pid, name, value);
}

static const struct collect_sink sink = {.counter = emit, .connection = tell};

static void expect_changed(struct sockets *s, const char *expected)
{
	told[0] = 0;
	sockets_changed(s, &sink);
	assert_string_equal(told, expected);
}

static struct rec_socket row(uint64_t socket, uint64_t time_ns, uint64_t sent, uint64_t received)
{
	return (struct rec_socket){.kind = REC_SOCKET,
				   .state = ESTABLISHED,
				   .family = INET,
				   .tgid = 7,
				   .socket = socket,
				   .time_ns = time_ns,
				   .source = {10, 0, 0, 1},
				   .destination = {10, 0, 0, 2},
				   .source_port = 100,
				   .destination_port = 200,
				   .bytes_sent = sent,
				   .bytes_received = received};
}

/* Of the bytes that were sent since it was told last, on connections whose round trips are known.
 */
static void round_trips_are_those_of_the_bytes(void **state)
{
	(void)state;
	struct sockets *s = sockets_new(true);
	struct rec_socket r = row(1, 10, 300, 0);
	r.srtt_us = 10;
	sockets_take(s, &r);
	r = row(2, 10, 100, 0);
	r.srtt_us = 50;
	sockets_take(s, &r);
	r = row(3, 10, 1000, 0);
	sockets_take(s, &r);
	told[0] = 0;
	sockets_counters(s, NOW, &sink);
	assert_string_equal(told,
			    "pid 7 net_sent_bytes 1400\npid 7 net_received_bytes 0\n"
			    "pid 7 net_retransmits 0\npid 7 net_resent_bytes 0\npid 7 "
			    "net_timeouts 0\npid 7 net_round_trip_ns 20000\n" NOTHING_WAITS("7"));
	r = row(2, 20, 100, 5); /* sends nothing more */
	r.srtt_us = 90;
	sockets_take(s, &r);
	told[0] = 0;
	sockets_counters(s, NOW, &sink);
	assert_string_equal(told, "pid 7 net_sent_bytes 1400\npid 7 net_received_bytes 5\n"
				  "pid 7 net_retransmits 0\npid 7 net_resent_bytes 0\npid 7 "
				  "net_timeouts 0\n" NOTHING_WAITS("7"));
	sockets_free(s);
}

static void what_was_there_before_is_told_apart(void **state)
{
	(void)state;
	struct sockets *s = sockets_new(false);
	struct rec_socket r = row(1, 10, 1000, 50);
	sockets_take(s, &r);
	sockets_taken(s, 7);
	expect_changed(s, "7 10.0.0.1:100>10.0.0.2:200 '' sent 1000-1000 got 50-50 resent 0\n");
	expect_changed(s, "");
	r = row(1, 20, 1500, 60);
	r.retransmits = 3;
	r.bytes_resent = 2100;
	r.timeouts = 2;
	sockets_take(s, &r);
	expect_changed(s, "7 10.0.0.1:100>10.0.0.2:200 '' sent 1000-1500 got 50-60 resent 3\n");
	/* its process was looked at: this one is new */
	r = row(2, 21, 8, 9);
	sockets_take(s, &r);
	expect_changed(s, "7 10.0.0.1:100>10.0.0.2:200 '' sent 0-8 got 0-9 resent 0\n");
	told[0] = 0;
	sockets_counters(s, NOW, &sink);
	assert_string_equal(told, "pid 7 net_sent_bytes 508\npid 7 net_received_bytes 19\n"
				  "pid 7 net_retransmits 3\npid 7 net_resent_bytes 2100\npid 7 "
				  "net_timeouts 2\n" NOTHING_WAITS("7"));
	told[0] = 0;
	sockets_counters(s, NOW, &sink);
	assert_string_equal(told, "");
	r = row(1, 30, 1500, 60); /* its address has another connection, or two readings overtook */
	r.timeouts = 0;
	sockets_take(s, &r);
	r = row(1, 31, 1500, 60);
	r.timeouts = 1;
	sockets_take(s, &r);
	sockets_counters(s, NOW, &sink);
	assert_non_null(strstr(told, "pid 7 net_timeouts 3\n"));
	sockets_free(s);
}

static void who_opens_it_and_who_is_started_by_us_has_nothing_before(void **state)
{
	(void)state;
	struct sockets *s = sockets_new(false);
	struct rec_socket r = row(1, 10, 1000, 50);
	memcpy(r.opener, "NCCL Service 012", 16); /* as long as a name can be, and not ended */
	sockets_take(s, &r);
	expect_changed(s, "7 10.0.0.1:100>10.0.0.2:200 'NCCL Service 012' sent 0-1000 got 0-50 "
			  "resent 0\n");
	sockets_free(s);
	s = sockets_new(true);
	r = row(1, 10, 1000, 50);
	sockets_take(s, &r);
	expect_changed(s, "7 10.0.0.1:100>10.0.0.2:200 '' sent 0-1000 got 0-50 resent 0\n");
	sockets_free(s);
}

static void a_name_that_comes_again_is_another_connection(void **state)
{
	(void)state;
	struct sockets *s = sockets_new(true);
	struct rec_socket r = row(1, 10, 5, 5);
	sockets_take(s, &r);
	r = row(2, 10, 1, 1);
	sockets_take(s, &r);
	r = row(1, 20, 6, 5);
	r.state = CLOSED;
	r.source_port = 0; /* given back by then: its name is kept */
	sockets_take(s, &r);
	r = row(1, 15, 5, 5); /* was read before, comes late */
	sockets_take(s, &r);
	r = row(1, 30, 77, 0);
	r.source_port = 101;
	sockets_take(s, &r);
	expect_changed(s, "7 10.0.0.1:100>10.0.0.2:200 '' sent 0-6 got 0-5 resent 0 closed\n"
			  "7 10.0.0.1:100>10.0.0.2:200 '' sent 0-1 got 0-1 resent 0\n"
			  "7 10.0.0.1:101>10.0.0.2:200 '' sent 0-77 got 0-0 resent 0\n");
	r = row(1, 40, 78, 0);
	sockets_take(s, &r);
	r = row(2, 40, 2, 1);
	sockets_take(s, &r);
	expect_changed(s, "7 10.0.0.1:100>10.0.0.2:200 '' sent 0-2 got 0-1 resent 0\n"
			  "7 10.0.0.1:101>10.0.0.2:200 '' sent 0-78 got 0-0 resent 0\n");
	sockets_free(s);
}

/* A process that has ended is forgotten with its last connection: its number may be another's. */
static void who_has_ended_is_forgotten(void **state)
{
	(void)state;
	struct sockets *s = sockets_new(true);
	struct rec_socket r = row(1, 10, 5, 5);
	sockets_take(s, &r);
	sockets_taken(s, 7);
	sockets_lives(s, 7);
	for (int i = 0; i < 3; i++) { /* it ends, its connection is still there */
		expect_changed(s, i ? ""
				    : "7 10.0.0.1:100>10.0.0.2:200 '' sent 0-5 got 0-5 "
				      "resent 0\n");
		sockets_counters(s, NOW, &sink);
	}
	assert_int_equal(sockets_processes(s), 1);
	r = row(1, 20, 9, 5);
	r.state = CLOSED;
	sockets_take(s, &r);
	expect_changed(s, "7 10.0.0.1:100>10.0.0.2:200 '' sent 0-9 got 0-5 resent 0 closed\n");
	told[0] = 0;
	sockets_counters(s, NOW, &sink);
	assert_string_equal(
		told, "pid 7 net_sent_bytes 9\npid 7 net_received_bytes 5\n"
		      "pid 7 net_retransmits 0\npid 7 net_resent_bytes 0\npid 7 net_timeouts 0\n");
	assert_int_equal(sockets_processes(s), 0);
	for (uint32_t i = 0; i < 100000; i++) { /* met and closed after their ends; one lives */
		r = row(i + 2, 30 + i, 1, 1);
		r.tgid = 100 + i;
		r.state = i ? CLOSED : ESTABLISHED;
		sockets_take(s, &r);
		sockets_lives(s, 100);
		told[0] = 0;
		sockets_changed(s, &sink);
		sockets_counters(s, NOW, &sink);
	}
	assert_int_equal(sockets_processes(s), 1);
	r = row(2, 200000, 3, 1);
	r.tgid = 100;
	sockets_take(s, &r);
	told[0] = 0;
	sockets_counters(s, NOW, &sink);
	assert_string_equal(told, "pid 100 net_sent_bytes 3\npid 100 net_received_bytes 1\n"
				  "pid 100 net_retransmits 0\npid 100 net_resent_bytes 0\npid 100 "
				  "net_timeouts 0\n" NOTHING_WAITS("100"));
	sockets_free(s);
}

static void look(struct sockets *s, uint64_t socket, uint64_t time_ns, uint32_t send_queue,
		 uint32_t receive_queue)
{
	struct rec_socket r = row(socket, time_ns, 0, 0);
	r.send_queue = send_queue;
	r.receive_queue = receive_queue;
	sockets_take(s, &r);
}

static void listen_at(struct sockets *s, uint32_t pid, uint32_t queue, uint32_t limit)
{
	const struct rec_socket r = {.kind = REC_SOCKET,
				     .state = LISTENS,
				     .tgid = pid,
				     .socket = 99,
				     .send_queue = limit,
				     .receive_queue = queue};
	sockets_take(s, &r);
}

static void expect_counters(struct sockets *s, const char *expected)
{
	told[0] = 0;
	sockets_changed(s, &sink);
	told[0] = 0;
	sockets_counters(s, NOW, &sink);
	const char *queues = strstr(told, "pid 7 net_send_queue_bytes");
	assert_string_equal(queues ? queues : told, expected);
}

static void what_waits_in_connections(void **state)
{
	(void)state;
	struct sockets *s = sockets_new(true);
	sockets_lives(s, 7);
	look(s, 1, 10, 3000, 0);
	look(s, 2, 10, UINT32_MAX, 50);
	look(s, 2, 10, UINT32_MAX, 50); /* another process has it too: it is one socket */
	expect_counters(s, "pid 7 net_send_queue_bytes 4294970295\n"
			   "pid 7 net_receive_queue_bytes 50\n");
	look(s, 1, 20, 1, 0); /* the other was not looked at in this round */
	look(s, 2, 9, 0, 0);  /* comes late */
	expect_counters(s, "pid 7 net_send_queue_bytes 4294967296\n"
			   "pid 7 net_receive_queue_bytes 50\n");
	for (uint64_t i = 1; i < 3; i++) { /* nothing waits where there is none */
		struct rec_socket r = row(i, 30, 0, 0);
		r.state = CLOSED;
		r.receive_queue = 7;
		sockets_take(s, &r);
	}
	sockets_lives(s, 7);
	expect_counters(s, NOTHING_WAITS("7"));
	expect_counters(s, "");
	sockets_free(s);
}

/* Of several sockets that listen: that with the least room. */
static void what_waits_to_be_accepted(void **state)
{
	(void)state;
	struct sockets *s = sockets_new(true);
	listen_at(s, 7, 0, 128);
	listen_at(s, 7, 2, 1);
	listen_at(s, 7, 100, 4096);
	sockets_taken(s, 7);
	sockets_lives(s, 7);
	expect_counters(s, "pid 7 net_accept_queue 2\npid 7 net_accept_queue_limit 1\n");
	sockets_lives(s, 7);
	expect_counters(s, ""); /* it had no turn */
	sockets_taken(s, 7);
	sockets_lives(s, 7);
	expect_counters(s, "pid 7 net_accept_queue 0\n"); /* it listens no more */
	sockets_taken(s, 7);
	sockets_lives(s, 7);
	expect_counters(s, "");
	listen_at(s, 7, 0, UINT32_MAX);
	listen_at(s, 7, 1, 0); /* full, with a limit of 0 */
	listen_at(s, 8, 1, 0); /* its child has it too */
	sockets_taken(s, 7);
	sockets_taken(s, 8);
	expect_counters(s, "pid 7 net_accept_queue 1\npid 7 net_accept_queue_limit 0\n"
			   "pid 8 net_accept_queue 1\npid 8 net_accept_queue_limit 0\n");
	sockets_free(s);
}

static void addresses_of_ipv6(void **state)
{
	(void)state;
	struct sockets *s = sockets_new(true);
	struct rec_socket r = row(1, 10, 1, 1);
	r.family = INET6;
	memset(r.source, 0, 16);
	r.source[0] = 0xfe, r.source[1] = 0x80, r.source[15] = 1;
	memcpy(r.destination, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\1\2\3", 16);
	sockets_take(s, &r);
	expect_changed(s, "7 [fe80::1]:100>10.1.2.3:200 '' sent 0-1 got 0-1 resent 0\n");
	sockets_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trips_are_those_of_the_bytes),
		cmocka_unit_test(what_was_there_before_is_told_apart),
		cmocka_unit_test(who_opens_it_and_who_is_started_by_us_has_nothing_before),
		cmocka_unit_test(a_name_that_comes_again_is_another_connection),
		cmocka_unit_test(who_has_ended_is_forgotten),
		cmocka_unit_test(what_waits_in_connections),
		cmocka_unit_test(what_waits_to_be_accepted),
		cmocka_unit_test(addresses_of_ipv6),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
