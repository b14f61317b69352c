/* proc_labels.c - the variables and the paths that name jobs. */
#include "symbolize/proc_labels.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEN(x)	      (sizeof(x) / sizeof((x)[0]))
#define ENVIRON_BYTES 65536
#define CGROUP_BYTES  8192
#define UID_BYTES     36 /* of a pod */
#define ID_BYTES      64 /* of a container */

/* The allow-list. Of one kind the first that is there holds. */
enum says { RANK, LOCAL_RANK, WORLD_SIZE, JOB, POD, POD_NAMESPACE };
static const struct variable {
	const char *name;
	enum says says;
	const char *launcher; /* of JOB */
} variables[] = {
	{"RANK", RANK, NULL},
	{"OMPI_COMM_WORLD_RANK", RANK, NULL},
	{"PMI_RANK", RANK, NULL},
	{"SLURM_PROCID", RANK, NULL},
	{"LOCAL_RANK", LOCAL_RANK, NULL},
	{"OMPI_COMM_WORLD_LOCAL_RANK", LOCAL_RANK, NULL},
	{"MPI_LOCALRANKID", LOCAL_RANK, NULL},
	{"SLURM_LOCALID", LOCAL_RANK, NULL},
	{"WORLD_SIZE", WORLD_SIZE, NULL},
	{"OMPI_COMM_WORLD_SIZE", WORLD_SIZE, NULL},
	{"PMI_SIZE", WORLD_SIZE, NULL},
	{"SLURM_NTASKS", WORLD_SIZE, NULL},
	{"SLURM_JOB_ID", JOB, "slurm"},
	{"RAY_JOB_ID", JOB, "ray"},
	{"PBS_JOBID", JOB, "pbs"},
	{"LSB_JOBID", JOB, "lsf"},
	{"TORCHELASTIC_RUN_ID", JOB, "torchrun"}, /* "none" unless told */
	{"POD_NAME", POD, NULL},
	{"MY_POD_NAME", POD, NULL},
	{"POD_NAMESPACE", POD_NAMESPACE, NULL},
	{"MY_POD_NAMESPACE", POD_NAMESPACE, NULL},
};

void proc_labels_init(struct proc_labels *l)
{
	*l = (struct proc_labels){.rank = -1, .local_rank = -1, .world_size = -1};
}

/* ---- the environment ---- */

static void take_number(int32_t *ret, const char *value)
{
	char *end;
	if (value[0] < '0' || value[0] > '9')
		return;
	unsigned long n = strtoul(value, &end, 10);
	if (!*end && n <= INT32_MAX)
		*ret = (int32_t)n;
}

static void take_text(char *ret, size_t size, const char *value)
{
	if (value[0] && strcmp(value, "none"))
		snprintf(ret, size, "%.*s", (int)size - 1, value);
}

static void take_variable(struct proc_labels *l, const struct variable *v, const char *value)
{
	switch (v->says) {
	case RANK:
		take_number(&l->rank, value);
		break;
	case LOCAL_RANK:
		take_number(&l->local_rank, value);
		break;
	case WORLD_SIZE:
		take_number(&l->world_size, value);
		break;
	case JOB:
		take_text(l->job, sizeof(l->job), value);
		if (l->job[0])
			snprintf(l->launcher, sizeof(l->launcher), "%s", v->launcher);
		break;
	case POD:
		take_text(l->pod, sizeof(l->pod), value);
		break;
	case POD_NAMESPACE:
		take_text(l->pod_namespace, sizeof(l->pod_namespace), value);
	}
}

static bool is_said(const struct proc_labels *l, enum says says)
{
	switch (says) {
	case RANK:
		return l->rank >= 0;
	case LOCAL_RANK:
		return l->local_rank >= 0;
	case WORLD_SIZE:
		return l->world_size >= 0;
	case JOB:
		return l->job[0];
	case POD:
		return l->pod[0];
	default:
		return l->pod_namespace[0];
	}
}

/* NULL: it is not there, or not whole. */
static const char *value_of(const char *env, size_t len, const char *name)
{
	size_t n = strlen(name);
	for (size_t at = 0; at < len;) {
		const char *entry = env + at, *end = memchr(entry, 0, len - at);
		if (!end)
			return NULL;
		if ((size_t)(end - entry) > n && entry[n] == '=' && !memcmp(entry, name, n))
			return entry + n + 1;
		at += (size_t)(end - entry) + 1;
	}
	return NULL;
}

void proc_labels_of_environ(struct proc_labels *l, const char *env, size_t len)
{
	for (size_t i = 0; i < LEN(variables); i++) {
		const char *value = is_said(l, variables[i].says)
					    ? NULL
					    : value_of(env, len, variables[i].name);
		if (value)
			take_variable(l, &variables[i], value);
	}
	for (size_t i = 0; l->chosen && i < l->chosen->len; i++) {
		const struct chosen_label *c = &l->chosen->list[i];
		const char *value = c->value ? NULL : value_of(env, len, c->variable);
		if (value)
			snprintf(l->values[i], CHOSEN_BYTES, "%.*s", CHOSEN_BYTES - 1, value);
	}
}

const char *proc_labels_value(const struct proc_labels *l, size_t i)
{
	const struct chosen_label *c = &l->chosen->list[i];
	return c->value ? c->value : l->values[i][0] ? l->values[i] : NULL;
}

/* ---- the control group ---- */

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* "crio-0123....scope", "0123...", "docker-0123....scope": the digits at the end of a part. */
static void take_container(struct proc_labels *l, const char *part, size_t len)
{
	static const char scope[] = ".scope";
	size_t end = sizeof(scope) - 1, n = 0;
	if (len > end && !memcmp(part + len - end, scope, end))
		len -= end;
	while (n < len && is_hex(part[len - 1 - n]))
		n++;
	if (n == ID_BYTES)
		snprintf(l->container, sizeof(l->container), "%.*s", ID_BYTES, part + len - n);
}

/* "pod0f1e...", "kubepods-burstable-pod0f1e_....slice": systemd's driver has '_' in the place of
 * '-'. */
static void take_pod(struct proc_labels *l, const char *part, size_t len)
{
	for (size_t i = 0; i + 3 + UID_BYTES <= len; i++) {
		size_t n = 0;
		if (memcmp(part + i, "pod", 3) || (i && part[i - 1] != '-'))
			continue;
		while (n < UID_BYTES && (is_hex(part[i + 3 + n]) || part[i + 3 + n] == '-' ||
					 part[i + 3 + n] == '_'))
			n++;
		if (n < UID_BYTES)
			continue;
		for (n = 0; n < UID_BYTES; n++)
			l->pod_uid[n] = part[i + 3 + n] == '_' ? '-' : part[i + 3 + n];
		l->pod_uid[n] = 0;
		return;
	}
}

/* Slurm: ".../job_4711/step_0/...". */
static void take_slurm(struct proc_labels *l, const char *part, size_t len)
{
	size_t n = 4;
	if (l->job[0] || len < 5 || len > 20 || memcmp(part, "job_", 4))
		return;
	while (n < len && part[n] >= '0' && part[n] <= '9')
		n++;
	if (n < len)
		return;
	snprintf(l->job, sizeof(l->job), "%.*s", (int)len - 4, part + 4);
	snprintf(l->launcher, sizeof(l->launcher), "slurm");
}

static void take_part(struct proc_labels *l, const char *part, size_t len)
{
	take_container(l, part, len);
	take_pod(l, part, len);
	take_slurm(l, part, len);
}

void proc_labels_of_cgroup(struct proc_labels *l, const char *text, size_t len)
{
	size_t from = 0;
	for (size_t i = 0; i <= len; i++) {
		if (i < len && text[i] != '/' && text[i] != '\n' && text[i] != ':')
			continue;
		take_part(l, text + from, i - from);
		from = i + 1;
	}
}

/* ---- a process ---- */

static size_t read_file(const char *proc_root, pid_t pid, const char *name, char *ret, size_t size)
{
	char path[256];
	size_t len = 0;
	snprintf(path, sizeof(path), "%s/%d/%s", proc_root, pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	while (len < size) {
		ssize_t n = read(fd, ret + len, size - len);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	close(fd);
	return len;
}

void proc_labels_read(struct proc_labels *ret, const char *proc_root, pid_t pid,
		      const struct chosen_labels *chosen)
{
	char text[ENVIRON_BYTES];
	proc_labels_init(ret);
	ret->chosen = chosen;
	size_t len = read_file(proc_root, pid, "environ", text, sizeof(text));
	proc_labels_of_environ(ret, text, len);
	explicit_bzero(text, len); /* the rest of it is nobody's business */
	len = read_file(proc_root, pid, "cgroup", text, CGROUP_BYTES);
	proc_labels_of_cgroup(ret, text, len);
}
