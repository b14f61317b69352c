/* causes_net.h - why the network was waited for, by what the host counts of it: for the rules of
 * causes.c. No I/O. */
#pragma once

#include "incident/causes.h"
#include "incident/evidence.h"

/* One of CAUSE_NETWORK, _NET_FOREIGN, _NET_LOSS and _NET_BANDWIDTH; that it was waited for is the
 * caller's knowledge. */
enum cause causes_why_network(const struct evidence *e);
