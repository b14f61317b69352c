/* hpc_jobs.h - which batch job has which GPU, from a folder that a cluster's prologue writes, as
 * dcgm-exporter takes it (--hpc-job-mapping-dir): a file for each GPU, "0", or MIG instance, "2.1"
 * (the GPU's number and that of the GPU instance), with the number of a job in each line.
 *
 * The folder is read each two seconds on a thread of its own, which may hang where the folder is
 * on a file system that hangs: nobody waits for it. How much is read is bounded. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

#define HPC_FILES     256
#define HPC_JOBS      8	  /* of a file */
#define HPC_JOB_BYTES 128 /* a longer line is none */

struct hpc_gpu {
	char name[16]; /* "0", "2.1" */
	size_t n;
	char jobs[HPC_JOBS][HPC_JOB_BYTES];
};

struct hpc_table {
	VEC(struct hpc_gpu) list;
	uint64_t times; /* that it was read */
};

/* Reads all of it. 0, or negative errno with a sentence: the folder cannot be read, ret is empty.
 */
int hpc_jobs_read(struct hpc_table *ret, const char *folder, struct err *e);
void hpc_table_free(struct hpc_table *t);

struct hpc_jobs;

/* say is called on its thread, once where the folder cannot be read, and when it can be again. */
struct hpc_jobs *hpc_jobs_new(const char *folder, void (*say)(void *ctx, const char *sentence),
			      void *ctx);
int hpc_jobs_start(struct hpc_jobs *h, struct err *e);
/* A thread that hangs is left behind, with what it holds on to. NULL: nothing. */
void hpc_jobs_free(struct hpc_jobs *h);

/* From any thread: between the two nothing changes in it. */
const struct hpc_table *hpc_jobs_hold(struct hpc_jobs *h);
void hpc_jobs_release(struct hpc_jobs *h);
