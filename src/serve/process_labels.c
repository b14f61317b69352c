/* process_labels.c - a row for each, and the names that are taken. */
#include "serve/process_labels.h"

#include <stdio.h>
#include <string.h>

static const char *there(const char *text)
{
	return text[0] ? text : NULL;
}

/* NULL of a number that is not known. */
static const char *number(char ret[static 16], int32_t n)
{
	snprintf(ret, 16, "%d", n);
	return n >= 0 ? ret : NULL;
}

void process_labels_of(struct process_labels *ret, const struct live_process *p)
{
	const struct proc_labels *l = &p->labels;
	snprintf(ret->pid, sizeof(ret->pid), "%u", p->pid);
	snprintf(ret->parent, sizeof(ret->parent), "%u", p->parent);
	const struct label list[PROCESS_LABELS] = {
		{"pid", ret->pid},
		{"parent", ret->parent},
		{"comm", p->comm},
		{"script", there(p->script)},
		{"rank", number(ret->rank, p->rank)},
		{"local_rank", number(ret->local_rank, l->local_rank)},
		{"world_size", number(ret->world_size, l->world_size)},
		{"job", there(l->job)},
		{"launcher", there(l->launcher)},
		{"pod", there(l->pod)},
		{"namespace", there(l->pod_namespace)},
		{"pod_uid", there(l->pod_uid)},
		{"container", there(l->container)},
		{"container_name", there(l->container_name)},
	};
	memcpy(ret->list, list, sizeof(list));
	ret->len = PROCESS_LABELS;
	for (size_t i = 0; l->chosen && i < l->chosen->len; i++)
		ret->list[ret->len++] =
			(struct label){l->chosen->list[i].name, proc_labels_value(l, i)};
}

bool process_label_is_taken(const char *name)
{
	/* of attributes (otlp_message.c); what Prometheus sets; the host of Parca and Pyroscope */
	static const char *const others[] = {
		"function",
		"uuid",
		"gpu",
		"instance_id",
		"interface",
		"device",
		"mountpoint",
		"cgroup",
		"layer",
		"cause",
		"kind",
		"signal",
		"to",
		"version",
		"of",
		"instance",
		"node",
		"host",
		"phase",
		"name",
		"peer",
		"operation",
		"comm",
		"communicator",
		"communicator_rank",
		"communicator_ranks",
	};
	const struct live_process none = {.labels = {.rank = -1}};
	struct process_labels of_process;
	process_labels_of(&of_process, &none);
	for (size_t i = 0; i < of_process.len; i++)
		if (!strcmp(name, of_process.list[i].name))
			return true;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!strcmp(name, others[i]))
			return true;
	return false;
}
