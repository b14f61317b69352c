/* sockets.h - keeps account of TCP connections: takes their states as the kernel tells them
 * (struct rec_socket), tells which rows have changed, how much each process sent and had to send
 * again, and what waits in its sockets.
 *
 * Asks nobody itself and knows nothing of BPF: its caller reads each process's connections and
 * passes on what the kernel tells of those that close. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/collector.h"
#include "wire/event.h"

/* "10.0.0.1:4791", "[fe80::1]:4791" */
#define SOCKET_ADDRESS_BYTES 64

struct connection {
	uint32_t pid; /* the first that was seen with it */
	char source[SOCKET_ADDRESS_BYTES];
	char destination[SOCKET_ADDRESS_BYTES];
	char opener[17]; /* comm of the thread that opened it, "" unknown */
	bool by_nccl;	 /* NCCL's code connected it, or listened for it */
	uint64_t netns;
	uint64_t first_ns, last_ns;
	uint64_t closed_ns;						/* 0 = is open */
	uint64_t bytes_sent, bytes_received, bytes_resent, retransmits; /* since it was made */
	uint64_t sent_before, received_before, retransmits_before;	/* tracing */
	uint32_t srtt_us;
};

struct sockets;

/* from_start: the processes were started by us, none of their connections is older. */
struct sockets *sockets_new(bool from_start);
void sockets_free(struct sockets *s);

void sockets_take(struct sockets *s, const struct rec_socket *row);

/* All sockets that a process has were taken: a connection that comes later is a new one. */
void sockets_taken(struct sockets *s, uint32_t pid);

/* The process is there. Of which that was not said since the last sockets_counters is forgotten
 * with its last connection: the kernel closes some after their process's end. */
void sockets_lives(struct sockets *s, uint32_t pid);

/* How many processes are known. */
size_t sockets_processes(const struct sockets *s);

/* Each connection that has changed since the last time. Those that are closed are forgotten. */
void sockets_changed(struct sockets *s, const struct collect_sink *sink);

/* "net_sent_bytes", "net_received_bytes", "net_retransmits" (segments), "net_resent_bytes"
 * (not among those sent) and "net_timeouts" (of retransmission; 0 before Linux 6.7) of each process
 * that has had connections: totals over all of them since they were first seen, and
 * "net_round_trip_ns", the mean of the smoothed round trips of the bytes that were sent since it
 * was told last. Told when they changed.
 * And of each process that has sockets, as they were seen last: "net_send_queue_bytes" and
 * "net_receive_queue_bytes", sums over its connections of what the peers have not acknowledged and
 * it has not read; "net_accept_queue" and "net_accept_queue_limit", the connections that wait to be
 * accepted at that of its sockets where they fill the most of what may wait. Told each time. */
void sockets_counters(struct sockets *s, uint64_t now_ns, const struct collect_sink *sink);
