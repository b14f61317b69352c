/* proc_labels.h - whose job a process is, as its launcher and its control group say: Slurm,
 * torchrun, MPI, Ray, Kubernetes, containers; and labels that the host chooses. Nothing is asked
 * over a network. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LABEL_BYTES	 128
#define CHOSEN_LABELS	 16
#define LABEL_NAME_BYTES 64
#define CHOSEN_BYTES	 64 /* of a value of one of them */

/* A label of the host's choice. Strings are borrowed. */
struct chosen_label {
	char name[LABEL_NAME_BYTES];
	const char *value;    /* of each process; NULL: that of the next */
	const char *variable; /* of a process's environment */
};

struct chosen_labels {
	struct chosen_label list[CHOSEN_LABELS];
	size_t len;
};

/* Strings are "" and numbers -1 where they are not known. */
struct proc_labels {
	int32_t rank, local_rank, world_size;
	char job[LABEL_BYTES];	 /* "4711" */
	char launcher[16];	 /* who calls it so: "slurm", "torchrun", "ray", "pbs", "lsf" */
	char pod[254];		 /* Kubernetes: by its name, where the process is told it */
	char pod_namespace[64];	 /* likewise */
	char container_name[64]; /* a process is not told it: who asks the runtime sets it */
	char pod_uid[64];	 /* "0f1e2d3c-...": by its control group */
	char container[65];	 /* its number, 64 hexadecimal digits */
	const struct chosen_labels *chosen;	  /* NULL: none; outlives this */
	char values[CHOSEN_LABELS][CHOSEN_BYTES]; /* of those that have a variable */
};

void proc_labels_init(struct proc_labels *l);

/* The variables of an environment, each ended by a NUL; the only ones that are ever read are those
 * of proc_labels.c's table, of which the first that says a thing holds, and of l->chosen. */
void proc_labels_of_environ(struct proc_labels *l, const char *env, size_t len);

/* Of /proc/PID/cgroup (cgroups(7)): paths as kubelet's, Docker's, containerd's, CRI-O's, Podman's
 * and Slurm's drivers make them. */
void proc_labels_of_cgroup(struct proc_labels *l, const char *text, size_t len);

/* Both, of a process; what cannot be read is not known. chosen: NULL or what outlives ret. */
void proc_labels_read(struct proc_labels *ret, const char *proc_root, pid_t pid,
		      const struct chosen_labels *chosen);

/* The value of l->chosen's label, at most CHOSEN_BYTES - 1 bytes of it; NULL: it
 * is not known. i: less than its len. */
const char *proc_labels_value(const struct proc_labels *l, size_t i);
