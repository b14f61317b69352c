/* collective_series.c - one sample of each row in each family. There is no bandwidth, for the time
 * that a collective took on the GPU is not known here. */
#include "serve/collective_series.h"

#include <math.h>
#include <stdio.h>

#include "analyze/collectives.h"

#define LEN(x) (sizeof(x) / sizeof((x)[0]))

enum figure { CALLS, BYTES, BUS_BYTES, SECONDS, COMPARED, AHEAD, FIGURES };

static const struct {
	const char *name, *help;
} families[FIGURES] = {
	[CALLS] = {"eacgm_collective_calls_total",
		   "Calls of NCCL between ranks, by communicator and operation."},
	[BYTES] = {"eacgm_collective_bytes_total",
		   "Their size as nccl-tests has it: of all ranks, where calls give one's share."},
	[BUS_BYTES] = {"eacgm_collective_bus_bytes_total",
		       "That size times nccl-tests' factor of the bus bandwidth."},
	[SECONDS] = {"eacgm_collective_call_seconds_total",
		     "Time in these calls on the host, which do not wait for the GPU."},
	[COMPARED] = {"eacgm_collective_compared_total",
		      "Of these calls those that all ranks of this host were seen to make."},
	[AHEAD] = {"eacgm_collective_ahead_seconds_total",
		   "How long before the last rank of this host this one made these."},
};

static double figure_of(const struct live_collective *c, enum figure what)
{
	switch (what) {
	case CALLS:
		return (double)c->calls;
	case BYTES:
		return (double)c->bytes;
	case BUS_BYTES: /* of several communicators together those that are known */
		return c->size || c->other ? c->bus_bytes : NAN;
	case SECONDS:
		return c->ns * 1e-9;
	case COMPARED:
		return c->compared ? (double)c->compared : NAN;
	default:
		return c->compared ? c->ahead_ns * 1e-9 : NAN;
	}
}

static void write_sample(const struct series_sink *x, const struct live_series *s,
			 const struct live_collective *c, enum figure what)
{
	char pid[16], rank[16], ranks[16], name[COLLECTIVES_NAME_BYTES];
	const struct live_process *p = live_series_process(s, c->pid);
	snprintf(pid, sizeof(pid), "%u", c->pid);
	snprintf(rank, sizeof(rank), "%d", c->rank);
	snprintf(ranks, sizeof(ranks), "%d", c->size);
	const struct label labels[] = {
		{"pid", pid},
		{"comm", p ? p->comm : NULL},
		{"communicator", live_collective_name(name, c)},
		{"communicator_rank", c->rank >= 0 ? rank : NULL},
		{"communicator_ranks", c->size ? ranks : NULL},
		{"operation", collective_op_name((enum collective_op)c->op)},
	};
	series_sample(x, labels, LEN(labels), figure_of(c, what));
}

void collective_series_write(const struct series_sink *x, const struct live_series *s)
{
	for (int what = 0; what < FIGURES; what++) {
		series_family(x, families[what].name, FAMILY_COUNTER, families[what].help);
		for (size_t i = 0; i < s->collectives.rows.len; i++)
			write_sample(x, s, &s->collectives.rows.data[i], (enum figure)what);
	}
}
