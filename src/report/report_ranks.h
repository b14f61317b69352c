/* report_ranks.h - what the files that show ranks share. */
#pragma once

#include "analyze/ranks.h"
#include "report/report_section.h"

struct ranks_state {
	struct ranks ranks;
};

/* Whether a communicator has several ranks in the recording. */
static inline bool ranks_group_shown(const struct ranks *r, uint32_t group)
{
	return r->matching.groups.data[group].members > 1;
}

/* "all_reduce of 4.19 MB", of the call with that number. */
void ranks_call_text(char *ret, size_t size, const struct ranks *r, uint32_t call);

/* The name of a call's function; NULL when there is none. */
const char *ranks_function(const struct ranks *r, uint32_t probe);

/* "0xabcdef", or "of 8 ranks, without a hash". */
void ranks_comm_text(char *ret, size_t size, const struct ranks *r, uint32_t group);

/* The host of a process, "" where the recording is not merged. */
const char *ranks_host(const struct ranks *r, const struct rank_member *m);

void ranks_json(struct json_stream *out, const struct report *r, const void *state);
