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
#define SURE_LEAST     3      /* segments a second: fewer are those that probe a tail (RFC 8985) */
#define GUESS_LEAST    10  /* where it is not known how long they were, small messages' shorter */
#define TIMEOUTS_LEAST 0.5 /* a second: each waits for 0.2 s at least (TCP_RTO_MIN) */
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

/* What was sent again, bytes a second. Older recordings tell of segments alone; *is_exact: this one
 * tells of bytes. */
static struct net_rate resent_bytes(const struct evidence *e, bool *is_exact)
{
	struct net_rate bytes = evidence_net_rate(e, "net_resent_bytes");
	struct net_rate segments = evidence_net_rate(e, "net_retransmits");
	*is_exact = bytes.now > 0 || segments.now <= 0;
	return *is_exact ? bytes
			 : (struct net_rate){.now = segments.now * SEGMENT_BYTES,
					     .usual = segments.usual * SEGMENT_BYTES};
}

/* How much was sent again for what was sent; 0 where it is no more than usual. */
static double lost_share(const struct evidence *e, bool *is_exact)
{
	struct net_rate sent = evidence_net_rate(e, "net_sent_bytes");
	struct net_rate again = resent_bytes(e, is_exact);
	double lost = sent.now > 0 ? again.now / sent.now : 0;
	double usual = sent.usual > 0 ? again.usual / sent.usual : 0;
	return lost > LOSS_LEAST && lost > LOSS_TIMES * usual ? lost : 0;
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

/* A full link loses few of its segments: 1.5 / w^2 of them, with w of them on the way (Mathis et
 * al., CCR 27(3), 1997). Where so many are lost that w would be below 7, a queue is no reason,
 * unless it is a long one. With w below 4 there is none: three duplicate acknowledgements cannot
 * come (RFC 5681, 3.2), so that timers send again, and those make round trips look long. */
static bool is_lossy(const struct evidence *e)
{
	bool is_exact;
	struct net_rate timeouts = evidence_net_rate(e, "net_timeouts");
	if (timeouts.now > TIMEOUTS_LEAST && timeouts.now > LOSS_TIMES * timeouts.usual)
		return true; /* nothing goes while a timer is waited for; a full link is never idle
			      */
	double lost = lost_share(e, &is_exact);
	bool many = evidence_net_rate(e, "net_retransmits").now >=
		    (is_exact ? SURE_LEAST : GUESS_LEAST);
	return (lost > LOSS_SURE && many) ||
	       (lost > 0 && !has_queue(e, lost > LOSS_HEAVY ? QUEUE_LONG : QUEUE_TIMES, false));
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
