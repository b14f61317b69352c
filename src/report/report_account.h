/* report_account.h - what the files of the account share. */
#pragma once

#include "analyze/account.h"
#include "analyze/gpu_gaps.h"
#include "analyze/steps.h"
#include "report/report_json.h"

#define GROUP_PIDS 3 /* that are told by number: a group that has more is told by their count */

/* Main threads of one program, but for the one that is told of by itself. */
struct account_group {
	const char *program;
	uint32_t processes;
	uint32_t pids[GROUP_PIDS];
	bool children; /* all of them, of the process that is told of by itself */
	uint64_t wall_ns, run_ns;
	uint64_t ns[ACCOUNT_OWNERS];
};

typedef VEC(struct account_group) account_groups_t;

struct account_state {
	struct account account;
	const struct report *r;
	account_groups_t groups; /* that ran most first */
	/* What went on after the command had ended: by program, without times. */
	account_groups_t left;
	uint64_t command_ns; /* how long that took */
	uint64_t left_ns;    /* by how much the last of them outlived it */
	bool left_open;	     /* one had not ended when the recording did */
};

#define FINDINGS_MOST 5
#define FINDING_BYTES 512

struct account_finding {
	uint64_t cost_ns;
	const char *name; /* for programs: "lock" */
	char text[FINDING_BYTES];
	const struct account_peers *by; /* who is to blame, as far as it is known; or NULL */
	const struct account_lock *at;	/* where in the code; or NULL */
};

/* "waiting for the GPU" */
const char *account_owner_words(enum account_owner owner);

const char *account_gap_words(enum gap_reason reason);

/* The loop of steps that tells most; NULL: there are no steps. */
const struct steps_loop *account_loop(const struct report *r);

/* What stands out, the dearest first; returns how many there are. */
size_t account_findings(const struct account_state *s,
			struct account_finding ret[static FINDINGS_MOST]);

/* Fills in the groups, and what was left. */
void account_groups_make(struct account_state *s);

/* "cc1 × 40", "train.py × 2 (42, 43)", "yes (42)" */
void account_say_group(struct buf *to, const struct account_group *g);

/* "; its child process yes (42) had it for 83 % of that", where that is a fifth or more. */
void account_say_peers(struct buf *to, const struct report *r, const struct account_peers *p,
		       uint64_t whole_ns, const char *did);
json_t *account_peers_json(const struct account_peers *p);
