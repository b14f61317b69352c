/* report_account.h - what the files of the account share. */
#pragma once

#include "analyze/account.h"
#include "analyze/account_cpu.h"
#include "analyze/account_idle.h"
#include "analyze/advice.h"
#include "analyze/gpu_gaps.h"
#include "analyze/gpu_transfers.h"
#include "analyze/slow_stretches.h"
#include "analyze/steps.h"
#include "report/report_json.h"
#include "report/report_page.h"

#define GROUP_PIDS 3 /* that are told by number: a group that has more is told by their count */

/* Main threads of one program that do much the same, but for the one that is told of by itself. */
struct account_group {
	const char *program;
	uint32_t next; /* index + 1 of another group of the program; 0 = none */
	uint32_t processes;
	uint32_t pids[GROUP_PIDS];
	bool children; /* all of them, of the process that is told of by itself */
	uint64_t wall_ns, run_ns;
	uint64_t ns[ACCOUNT_OWNERS];
};

typedef VEC(struct account_group) account_groups_t;

#define FINDINGS_MOST 5
#define FINDINGS_ALL  40 /* no more than there are rules */
#define FINDING_BYTES 1024
#define REMEDY_BYTES  256

struct account_finding {
	uint64_t cost_ns;
	enum account_owner owner; /* whose row of the table it tells of; ACCOUNT_OWNERS: of none */
	bool leads;		  /* it is as good as the largest row's */
	const char *name;	  /* for programs: "lock" */
	char text[FINDING_BYTES];
	const struct account_peers *by;	   /* who is to blame, as far as it is known; or NULL */
	const struct account_lock *at;	   /* where in the code; or NULL */
	const struct slow_stretches *slow; /* when; or NULL */
	/* What to do, and what that is predicted to save; "" and 0: nothing is known that helps. */
	char remedy[REMEDY_BYTES];
	uint64_t saving_ns;
	bool at_most;		   /* the saving is what it can be, rather than what it is */
	bool of_run;		   /* of the whole run; else of the loop, where there is one */
	struct advice_place place; /* line 0: there is none */
};

/* Frees the text. */
void account_finding_put(struct account_finding *ret, struct buf *text);

/* The main thread's loop of steps. */
struct account_loop {
	const struct steps_process *process;
	const struct steps_loop *steps; /* NULL: it has none */
	/* First steps that take many times as long as the others, where they are much of the loop:
	 * they belong to the start. */
	uint32_t slow;
	uint64_t slow_ns;
	uint32_t count;				     /* of the others */
	double mean_ns, phase_mean_ns[STEPS_PHASES]; /* likewise */
};

struct account_state {
	struct account account;
	struct account_loop loop;
	struct slow_stretches slow; /* of that */
	struct account_devices devices;
	struct account_users users;
	struct advice advice;
	const struct report *r;
	account_groups_t groups; /* that ran most first */
	/* What went on after the command had ended: by program, without times. */
	account_groups_t left;
	uint64_t command_ns; /* how long that took */
	uint64_t left_ns;    /* by how much the last of them outlived it */
	bool left_open;	     /* one had not ended when the recording did */
};

/* "waiting for the GPU" */
const char *account_owner_words(enum account_owner owner);
const char *account_owner_id(enum account_owner owner); /* for programs: "data" */

/* Finds the loop of the main thread, and cuts its time by it; of other processes with a loop what
 * their GPUs did in that. */
void account_loop_find(struct account_state *s);

/* "start-up, until its first step: 19.0 s: importing Python modules 9.40 s, ...", and the like. */
void account_say_phases(const struct page *p, const struct account_state *s);

/* Whether the loop is so small a share of the run that this is the first thing to say. */
bool account_loop_is_small(const struct account_state *s);

/* report_account_cpu.c: "its other threads: python3 × 2: 3.93 s on the CPU", and who used the CPUs,
 * where they were short or the recording is of the whole host. */
void account_say_threads(const struct page *p, const struct account_state *s);
void account_say_cpus(const struct page *p, const struct account_state *s);
uint64_t account_no_cpu_finding(const struct account_state *s, const struct account_thread *th,
				struct account_finding *ret);
json_t *account_users_json(const struct account_state *s);
bool account_is_whole_host(const struct report *r);

/* report_account_gpu.c: "  GPU 0 of process 12: busy 60 %, idle 40 %, while ...", one line each. */
void account_gpu_lines(const struct page *p, const struct account_state *s);
uint64_t account_gpu_busy_finding(const struct account_state *s, struct account_finding *ret);
uint64_t account_gpu_finding(const struct account_state *s, struct account_finding *ret);
json_t *account_gpus_json(const struct account_state *s);

/* "importing Python modules 9.40 s, sleeping 1.20 s": the largest. */
void account_say_owners(struct buf *to, const struct account_thread *th);

/* ---- rules: they write a sentence and return what it costs, in ns; 0: there is none ---- */

static inline double account_percent(uint64_t part, uint64_t whole)
{
	return whole ? 100 * (double)part / (double)whole : 0;
}

/* Whether an owner has so many percent of the thread's time, or most of all. */
bool account_has(const struct account_thread *th, enum account_owner owner, unsigned least);

/* Of what the shares are: "the loop's time". */
const char *account_whose(const struct account_state *s);

/* "It waited for the disk for 32 % of its time (1.2 s)." with what comes before the number. */
uint64_t account_say_share(const struct account_state *s, const struct account_thread *th,
			   enum account_owner owner, unsigned least, struct account_finding *ret,
			   const char *what, const char *hint);

/* A loop whose steps spend a fifth of their time or more until they have their batch; NULL. */
const struct account_loop *account_slow_to_load(const struct account_state *s);

uint64_t account_load_finding(const struct account_state *s, const struct account_thread *th,
			      struct account_finding *ret);
uint64_t account_sleep_finding(const struct account_state *s, const struct account_thread *th,
			       struct account_finding *ret);
uint64_t account_start_finding(const struct account_state *s, const struct account_thread *th,
			       struct account_finding *ret);
uint64_t account_lock_finding(const struct account_state *s, const struct account_thread *th,
			      struct account_finding *ret);
uint64_t account_slow_steps_finding(const struct account_state *s, const struct account_thread *th,
				    struct account_finding *ret);
/* What in JSON that finding has beside its sentence: when steps were slow. */
json_t *account_slow_steps_json(const struct slow_stretches *slow);

/* What is most of the table, but for eacgm's own. */
enum account_owner account_largest(const uint64_t ns[static ACCOUNT_OWNERS]);

json_t *account_owners_json(const uint64_t ns[static ACCOUNT_OWNERS]);

/* What stands out, what would save most first; returns how many there are. */
size_t account_findings(const struct account_state *s,
			struct account_finding ret[static FINDINGS_ALL]);
/* How many of them the text has. */
size_t account_findings_told(const struct account_state *s, size_t n);

/* report_account_saving.c: what findings save. */
void account_advise(struct account_state *s);
/* Of what a finding's saving is a part. */
uint64_t account_saving_of(const struct account_state *s, const struct account_finding *f);
/* Sets it, no more than can be; beside: the GPU works meanwhile, and what it works is not saved. */
void account_saves(const struct account_state *s, struct account_finding *ret, double ns,
		   bool beside);
void account_advise_workers(const struct account_state *s, struct account_finding *ret);
uint64_t account_making_finding(const struct account_state *s, const struct account_thread *th,
				struct account_finding *ret);
uint64_t account_reads_finding(const struct account_state *s, const struct account_thread *th,
			       struct account_finding *ret);
uint64_t account_code_finding(const struct account_state *s, const struct account_thread *th,
			      struct account_finding *ret);
uint64_t account_saves_finding(const struct account_state *s, const struct account_thread *th,
			       struct account_finding *ret);
uint64_t account_garbage_finding(const struct account_state *s, const struct account_thread *th,
				 struct account_finding *ret);
uint64_t account_ranks_finding(const struct account_state *s, const struct account_thread *th,
			       struct account_finding *ret);
/* report_account_saving_gpu.c: of recordings with --gpu-timeline. */
uint64_t account_launch_finding(const struct account_state *s, const struct account_thread *th,
				struct account_finding *ret);
uint64_t account_sync_finding(const struct account_state *s, const struct account_thread *th,
			      struct account_finding *ret);
uint64_t account_copies_finding(const struct account_state *s, const struct account_thread *th,
				struct account_finding *ret);
uint64_t account_exposed_finding(const struct account_state *s, const struct account_thread *th,
				 struct account_finding *ret);
uint64_t account_churn_finding(const struct account_state *s, const struct account_thread *th,
			       struct account_finding *ret);
uint64_t account_precision_finding(const struct account_state *s, const struct account_thread *th,
				   struct account_finding *ret);
/* report_account_gpus.c */
uint64_t account_idle_gpu_finding(const struct account_state *s, const struct account_thread *th,
				  struct account_finding *ret);
uint64_t account_unused_finding(const struct account_state *s, const struct account_thread *th,
				struct account_finding *ret);

/* Fills in the groups, and what was left. */
void account_groups_make(struct account_state *s);

/* "cc1 × 40", "train.py × 2 (42, 43)", "yes (42)" */
void account_say_group(struct buf *to, const struct account_group *g);

/* "; its child process yes (42) had it for 83 % of that", where that is a fifth or more. */
void account_say_peers(struct buf *to, const struct report *r, const struct account_peers *p,
		       uint64_t whole_ns, const char *did);
json_t *account_peers_json(const struct account_peers *p);
