/* own_time.h - what eacgm itself takes of a core, in two parts: one that stays whatever is called
 * (counters, questions, who asks), and one for each call that is read. Told are periods; windows of
 * them are kept for a minute. The second part is the slope of a resistant line (Tukey's, of three
 * groups: medians of the windows with the fewest calls and with the most), the first what windows
 * have above it, those with the fewest calls or all that have about as many, each counting for
 * twice the median of these at most: a process that begins, whose libraries are read, is neither.
 * Reads no clock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define OWN_WINDOWS  12
#define OWN_WINDOW_S 5.0
/* Of a call until it is known, where calls are judged, and else: on a virtual machine, beside
 * 80,000 calls a second. */
#define OWN_JUDGED_NS 1000
#define OWN_CALL_NS   400

struct own_window {
	double seconds, own_ns, calls;
};

struct own_time {
	struct own_window windows[OWN_WINDOWS];
	size_t len, next;
	struct own_window open;
	double call_ns;	    /* of a call that is read */
	double fixed_per_s; /* ns */
	double first_call_ns;
};

/* What a budget of that comes to, for who shows it. */
struct own_budget_view {
	double limit;  /* cores; 0: there is none */
	double used;   /* by what is on all the time, as of the last minute; NaN: not known yet */
	double fixed;  /* of it: whatever is called; likewise */
	double call_s; /* for each call that is read; likewise */
};

void own_time_init(struct own_time *o, double call_ns);
/* seconds: above 0; own_ns: processor time of all of eacgm, but for what is told otherwise. */
void own_time_add(struct own_time *o, double seconds, double own_ns, double calls);
/* What came last is not as usual, and is left out. */
void own_time_skip(struct own_time *o);
/* Whether there were windows enough to say what it takes; and a whole minute of them. */
bool own_time_known(const struct own_time *o);
bool own_time_settled(const struct own_time *o);
