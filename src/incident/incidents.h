/* incidents.h - which anomalies are one: of one job, at one time. A fault shows in several layers
 * and processes; who is told wants it once. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "incident/anomaly.h"

#define INCIDENT_APART_NS  2000000000ULL /* between two of one job */
#define INCIDENT_PROCESSES 64		 /* of one that are remembered */

struct incident {
	uint64_t number;
	uint64_t start_ns, end_ns; /* of the first and the last of its anomalies */
	uint32_t open;		   /* anomalies that have not ended */
	uint32_t processes[INCIDENT_PROCESSES];
	uint32_t processes_len;
};

/* Those that may still get anomalies. Zeroed at its beginning, but for parent_of. */
struct incidents {
	uint32_t (*parent_of)(const void *ctx, uint32_t pid); /* 0 unknown */
	const void *ctx;
	VEC(struct incident) list;
	uint64_t last; /* number */
};

void incidents_free(struct incidents *s);

/* An anomaly that is told, for the first time or because it has ended, in about the order of their
 * starts. Sets its incident, incident_begins, incident_ends. process: that it is of, or whose work
 * the GPU does; 0 unknown, which is of whatever lasts. Parent, child, and those of one parent are
 * one job. */
void incidents_told(struct incidents *s, struct anomaly *a, uint32_t process);
/* When the incident began that lasts and is of that process's job; 0: there is none. */
uint64_t incidents_since(const struct incidents *s, uint32_t process);
/* One of its anomalies that lasts is of the next. */
void incidents_leave(struct incidents *s, uint64_t number);
/* Nothing more joins that incident, however soon it comes after. */
void incidents_close(struct incidents *s, uint64_t number);

/* Which of an incident's anomalies says most of why: the lowest number. By rule; what threads
 * waited for; a call or a line of Python that the lost time is mostly in; counters of the GPU;
 * other layers of calls; Python, whose functions lie in each other; other counters of the process;
 * steps, which say where, and never why. */
unsigned incident_rank(const struct anomaly *a);
