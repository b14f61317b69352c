/* proc_labels_fuzz.c - hostile environments and control groups. The first byte chooses: 'e' an
 * environment, else the text of a cgroup file.
 *
 * links: base symbolize */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbolize/proc_labels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct chosen_labels chosen = {
	.list = {{.name = "a", .variable = "A"}, {.name = "team", .variable = "TEAM"}}, .len = 2};

static void is_text(const char *text, size_t room)
{
	if (!memchr(text, 0, room))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct proc_labels l;
	char *copy = malloc(size ? size : 1); /* what reads past its end is seen */
	if (!size || !copy) {
		free(copy);
		return 0;
	}
	memcpy(copy, data + 1, size - 1);
	proc_labels_init(&l);
	l.chosen = &chosen;
	if (data[0] == 'e')
		proc_labels_of_environ(&l, copy, size - 1);
	else
		proc_labels_of_cgroup(&l, copy, size - 1);
	is_text(l.job, sizeof(l.job));
	is_text(l.launcher, sizeof(l.launcher));
	is_text(l.pod, sizeof(l.pod));
	is_text(l.pod_namespace, sizeof(l.pod_namespace));
	is_text(l.pod_uid, sizeof(l.pod_uid));
	is_text(l.container, sizeof(l.container));
	for (size_t i = 0; i < chosen.len; i++)
		is_text(l.values[i], sizeof(l.values[i]));
	if (l.rank < -1 || l.local_rank < -1 || l.world_size < -1)
		abort();
	free(copy);
	return 0;
}
