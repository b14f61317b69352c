/* report_account.h - what the files of the account share. */
#pragma once

#include "analyze/account.h"
#include "analyze/gpu_gaps.h"
#include "analyze/steps.h"
#include "report/report.h"

#define ACCOUNT_GROUPS 16

/* Main threads of one program, but for the one that is told of by itself. */
struct account_group {
	const char *program;
	uint32_t processes;
	uint64_t wall_ns, run_ns;
	uint64_t ns[ACCOUNT_OWNERS];
};

struct account_state {
	struct account account;
	const struct report *r;
	struct account_group groups[ACCOUNT_GROUPS]; /* that ran most first */
	size_t ngroups;
};

#define FINDINGS_MOST 5
#define FINDING_BYTES 256

struct account_finding {
	uint64_t cost_ns;
	const char *name; /* for programs: "lock" */
	char text[FINDING_BYTES];
};

/* "waiting for the GPU" */
const char *account_owner_words(enum account_owner owner);

const char *account_gap_words(enum gap_reason reason);

/* The loop of steps that tells most; NULL: there are no steps. */
const struct steps_loop *account_loop(const struct report *r);

/* What stands out, the dearest first; returns how many there are. */
size_t account_findings(const struct account_state *s,
			struct account_finding ret[static FINDINGS_MOST]);
