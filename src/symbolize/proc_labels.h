/* proc_labels.h - whose job a process is, as its launcher and its control group say: Slurm,
 * torchrun, MPI, Ray, Kubernetes, containers. Nothing is asked over a network. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LABEL_BYTES 128

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
};

void proc_labels_init(struct proc_labels *l);

/* The variables of an environment, each ended by a NUL; the only ones that are ever read are those
 * of proc_labels.c's table. The first that says a thing holds. */
void proc_labels_of_environ(struct proc_labels *l, const char *env, size_t len);

/* Of /proc/PID/cgroup (cgroups(7)): paths as kubelet's, Docker's, containerd's, CRI-O's, Podman's
 * and Slurm's drivers make them. */
void proc_labels_of_cgroup(struct proc_labels *l, const char *text, size_t len);

/* Both, of a process; what cannot be read is not known. */
void proc_labels_read(struct proc_labels *ret, const char *proc_root, pid_t pid);
