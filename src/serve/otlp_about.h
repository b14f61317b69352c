/* otlp_about.h - who tells, in each message of OTLP. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define OTLP_TYPE "application/x-protobuf" /* Content-Type of its messages */

/* Who tells: the resource of all messages. */
struct otlp_about {
	const char *version;
	const char *host;
	uint64_t start_realtime_ns; /* when counting began */
	/* What the user says of it, in pairs of a key and a value, and wins: n of each. */
	const char *const *keys, *const *values;
	size_t n;
};
