/* event_reread.h - the events of a file, one by one, once its anomalies are known: the file is read
 * again instead of keeping them all. Twice: the first time they are counted, then
 * event_reread_find, the second time each is handed out with what it came to. What is usual for
 * keys that the model does not have was learned from the whole file by then. */
#pragma once

#include "base/map64.h"
#include "detect/names.h"
#include "incident/episodes.h"

struct event_reread_options {
	const struct detector_options *o;
	const struct known *known;
	const struct episodes *episodes;
	const struct map64 *judged_since; /* of judging.h */
	uint64_t window_ns;
	uint64_t from_ns, until_ns; /* those that end in between are told; until 0: all */
};

struct event_reread;
struct event_reread *event_reread_new(const struct event_reread_options *o);
void event_reread_free(struct event_reread *m);
void event_reread_call(struct event_reread *m, const struct detect_names *n,
		       const struct m_call *c);
void event_reread_gpu_span(struct event_reread *m, const struct detect_names *n,
			   const struct m_gpu_span *s);
void event_reread_find(struct event_reread *m);
