/* process_labels.c - a row for each. */
#include "serve/process_labels.h"

#include <stdio.h>

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
	for (size_t i = 0; i < PROCESS_LABELS; i++)
		ret->list[i] = list[i];
}
