/* advice.h - what a loop would save, were what slows it repaired: numbers and lines, no words.
 *
 * The time of the main thread is walked along what it waited for (blame.h), so that what a loader
 * process did while it was waited for counts, and what it did in time does not. It is summed up in
 * two parts: until each step has its batch, and the rest. Without a loop all is the rest. Lines are
 * of the job's own code; those of what ran are by samples. Does no output. */
#pragma once

#include "analyze/account.h"
#include "analyze/blame.h"
#include "analyze/steps.h"

enum advice_part { ADVICE_LOADING, ADVICE_WORKING, ADVICE_PARTS };

/* A function of the job's own code, with the line that had most of its time. */
struct advice_place {
	const char *function, *file; /* the file as Python has it */
	uint32_t line;		     /* 0: there is none */
	double ns;
};

struct advice_sum {
	double wall_ns;
	double ns[BLAME_KINDS];	     /* together with peers_ns wall_ns */
	double peers_ns;	     /* other ranks were waited for */
	double data_ns[BLAME_KINDS]; /* of it: in child processes that made data */
	double data_wall_ns;	     /* these together */
	/* What ran in the kernel that put pages of files into memory: in the thread itself, and in
	 * child processes. */
	double fills_ns[2];
};

/* Where the job's own code runs. */
enum advice_where {
	ADVICE_CHILD, /* in child processes that were waited for */
	ADVICE_FETCH, /* in the thread itself, within PyTorch's loader */
	ADVICE_LOOP,  /* elsewhere in it: what it computes itself, not PyTorch for it */
	ADVICE_WHERES,
};

/* Processes that make batches, together, while the loop ran and they did not wait for work. */
#define ADVICE_PIDS 4
struct advice_workers {
	uint32_t count;
	uint32_t pids[ADVICE_PIDS];
	double run_ns, ready_ns, wait_ns; /* ready: had no CPU */
};

struct advice_saves {
	uint32_t count;		/* steps that lasted until a checkpoint was written */
	double ns;		/* by which these were longer than the others, together */
	struct advice_place at; /* who called */
};

/* A library that is imported, and of which no sample is of later. */
struct advice_import {
	char package[64]; /* "torchvision"; "" there is none */
	struct advice_place at;
};

/* The rank that was waited for most while it did not want for a CPU; by how much longer than that
 * waited for this one, likewise. */
struct advice_peer {
	uint32_t pid; /* 0: there is none */
	int32_t rank; /* negative: not known */
	double ns;
};

/* Calls of the driver that get and give back memory, of the GPU and pinned. */
struct advice_churn {
	uint64_t count;
	double ns; /* in them, while no GPU of the process worked */
	struct advice_place at;
};

/* Kernels that multiply matrices of float32 without tensor cores. */
struct advice_float32 {
	uint64_t count;
	double ns;		/* one after the other */
	struct advice_place at; /* that launched most of them, by the launches that have a stack */
};

struct advice {
	uint32_t steps;
	double step_ns; /* mean */
	struct advice_sum parts[ADVICE_PARTS];
	enum advice_part batches;		 /* the part in which it gets these */
	struct advice_place code[ADVICE_WHERES]; /* the function that ran most; batches: of that */
	bool fetches; /* the thread itself was seen within PyTorch's loader */
	struct advice_workers workers;
	struct advice_saves saves;
	struct advice_place syncs;  /* where it waits for the GPU */
	struct advice_place copies; /* where it copies between that and pageable memory */
	double compiled_ns; /* single steps in the midst of the loop compiled, or waited for it */
	struct advice_import import;
	struct advice_churn churn;
	struct advice_float32 float32;
	struct advice_peer peer;
};

struct advice_loop {
	const struct account_thread *main, *loop; /* the same where there is no loop */
	const struct steps_step *steps;
	uint32_t count;	    /* 0: there is no loop */
	uint64_t usual_ns;  /* of its steps the middle one */
	bool until_a_batch; /* its phase "load" is that */
};

void advice_make(struct advice *ret, const struct row_source *s, const struct timeline *t,
		 const struct advice_loop *loop);

/* ---- what would be saved: sums alone, advice_model.c ---- */

/* A loop whose batches are made beside it by some workers, or by itself; all of one step. */
struct advice_pace {
	double step_ns;	     /* as it was */
	double work_ns;	     /* but for what it waits until it has its batch */
	double work_cpu_ns;  /* CPU time of it, all threads of the process */
	double batch_ns;     /* that one worker takes to make a batch, */
	double batch_cpu_ns; /* and CPU time of that */
	double kept_ns;	     /* of work_ns: it could run, and workers had its CPU */
	uint32_t workers;    /* 0: it makes its batches itself */
	double cpus;	     /* that may be used at once; 0 unknown */
	double rivals;	     /* threads of others that want them, all the time */
};

/* How many threads of others want the CPUs, where one that ran so long could run, and did not, for
 * so long because of them. */
double advice_rivals(double cpus, double run_ns, double ready_ns);

/* How long a step takes: as long as its work; as a batch, of as many as are made at once; and as
 * the CPUs need for both, which the workers and the loop share with others thread by thread.
 * Handing batches over is taken to cost nothing. */
double advice_step_ns(const struct advice_pace *p);

/* The least number of workers with which a step is nearly as short as it can get. */
uint32_t advice_workers_for(const struct advice_pace *p);

/* What it takes less a step when it has so many workers; 0: nothing. */
double advice_saved_by_workers(const struct advice_pace *p, uint32_t workers);

/* What it takes less a step when making a batch takes so much less, of which so much on a CPU. */
double advice_saved_by_batch(const struct advice_pace *p, double less_ns, double less_cpu_ns);

/* Every how many steps to save, so that it is two percent of the loop's time: one significant
 * digit, and no fewer saves than one. save_ns: one of them. */
uint32_t advice_save_every(double step_ns, double save_ns, uint32_t steps);
