/* causes_net.c - a network that was waited for: used by others, losing packets, full, or only slow.
 * A full link loses packets as a bad one does; but what waits in its queue is longer on its way. */
#include "incident/causes_net.h"

#include <math.h>
#include <string.h>

#include "base/entity.h"

#define SEGMENT_BYTES  1448.0 /* of TCP over Ethernet */
#define FOREIGN_SHARE  0.2    /* of an interface's bytes: less that others have is no reason */
#define FOREIGN_LEAST  1e6    /* bytes a second: likewise */
#define LOSS_LEAST     0.003  /* of segments: fewer that are sent again are no reason */
#define LOSS_TIMES     3      /* as many as usual */
#define LOSS_HEAVY     0.03   /* of segments: more than a queue that is full loses */
#define LOSS_SURE      0.094  /* of segments: whatever the queue; where so many a second are: */
#define SURE_LEAST     10     /* fewer may be those that probe the ends of flights (RFC 8985) */
#define TIMEOUTS_LEAST 0.5    /* a second, of all ranks of the host; measured likewise */
#define TIMER_NS       200e6  /* the shortest timer of retransmission (TCP_RTO_MIN) */
/* Times as long as usual, and by so much: packets wait in a queue, or in a long one. Measured on
 * limited links and on such that drop packets: docs/developers/diagnosis.md. */
#define QUEUE_TIMES    1.5
#define QUEUE_LONG     2.3
#define QUEUE_LEAST_NS 1e6
#define MOVED_LEAST    1e6 /* bytes a second: who moves fewer waits for something else */

/* What the job moved, bytes a second. */
static double moved(const struct evidence *e)
{
	return (evidence_net_rate(e, "net_sent_bytes").now +
		evidence_net_rate(e, "net_received_bytes").now) /
	       2;
}

static bool is_told(const struct evidence *e, const char *name)
{
	for (size_t i = 0; i < e->counters.len; i++) {
		const struct m_metric *m = &e->t->metrics.data[e->counters.data[i].metric];
		if (m->kind == ENTITY_PROCESS &&
		    !strcmp(strtab_get(&e->t->strings, m->name, NULL), name))
			return true;
	}
	return false;
}

/* How much was sent again for what was sent. Older recordings tell of segments alone. */
static struct net_rate resent_share(const struct evidence *e)
{
	bool exact = is_told(e, "net_resent_bytes");
	struct net_rate sent = evidence_net_rate(e, "net_sent_bytes");
	struct net_rate again =
		evidence_net_rate(e, exact ? "net_resent_bytes" : "net_retransmits");
	double bytes = exact ? 1 : SEGMENT_BYTES;
	return (struct net_rate){.now = sent.now > 0 ? again.now * bytes / sent.now : 0,
				 .usual = sent.usual > 0 ? again.usual * bytes / sent.usual : 0};
}

/* How long packets are on their way: of the process for which it is longest. NULL: not known. */
static const struct counter_change *round_trip(const struct evidence *e)
{
	const struct counter_change *ret = NULL;
	for (size_t i = 0; i < e->counters.len; i++) {
		const struct counter_change *c = &e->counters.data[i];
		const struct m_metric *m = &e->t->metrics.data[c->metric];
		if (m->kind == ENTITY_PROCESS && !isnan(c->usual) &&
		    c->mean > (ret ? ret->mean : 0) &&
		    !strcmp(strtab_get(&e->t->strings, m->name, NULL), "net_round_trip_ns"))
			ret = c;
	}
	return ret;
}

/* What waits in the queue of a full link is longer on its way. */
static bool has_queue(const struct evidence *e, double times, bool if_unknown)
{
	const struct counter_change *c = round_trip(e);
	if (!c)
		return if_unknown;
	return c->mean > times * c->usual && c->mean > c->usual + QUEUE_LEAST_NS;
}

/* Nothing goes while a timer of retransmission is waited for, and a full link is not idle, unless
 * many send to it at once; a queue in which packets wait for as long as a timer makes it run out
 * though they come. */
static bool timers_run_out(const struct evidence *e)
{
	struct net_rate n = evidence_net_rate(e, "net_timeouts");
	const struct counter_change *trip = round_trip(e);
	return n.now > TIMEOUTS_LEAST && n.now > LOSS_TIMES * n.usual &&
	       resent_share(e).now > LOSS_LEAST && (!trip || trip->mean < TIMER_NS);
}

/* A full link loses few of its segments: 1.5 / w^2 of them, with w of them on the way (Mathis et
 * al., CCR 27(3), 1997). Where so many are lost that w would be below 7, a queue is no reason,
 * unless it is a long one. With w below 4 there is none: three duplicate acknowledgements cannot
 * come (RFC 5681, 3.2), so that timers send again, and those make round trips look long. */
static bool is_lossy(const struct evidence *e)
{
	struct net_rate share = resent_share(e);
	bool many = evidence_net_rate(e, "net_retransmits").now >= SURE_LEAST;
	if (timers_run_out(e))
		return true;
	if (!(share.now > LOSS_LEAST && share.now > LOSS_TIMES * share.usual))
		return false;
	return (share.now > LOSS_SURE && many) ||
	       !has_queue(e, share.now > LOSS_HEAVY ? QUEUE_LONG : QUEUE_TIMES, false);
}

enum cause causes_why_network(const struct evidence *e)
{
	uint32_t name;
	double foreign = evidence_foreign_net(e, &name);
	if (name && foreign > FOREIGN_SHARE * (foreign + moved(e)) && foreign > FOREIGN_LEAST)
		return CAUSE_NET_FOREIGN;
	if (is_lossy(e))
		return CAUSE_NET_LOSS;
	return name && moved(e) >= MOVED_LEAST && has_queue(e, QUEUE_TIMES, true)
		       ? CAUSE_NET_BANDWIDTH
		       : CAUSE_NETWORK;
}
