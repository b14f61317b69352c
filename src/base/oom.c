/* oom.c - who writes a value with CAP_SYS_RESOURCE lowers the floor to it, and who writes one
 * without leaves the floor (fs/proc/base.c, __set_oom_adj). */
#include "base/oom.h"

#include <errno.h>
#include <stdio.h>

#define FILE_NAME "/proc/self/oom_score_adj"

int oom_set(int value)
{
	FILE *f = fopen(FILE_NAME, "we");
	if (!f)
		return -errno;
	int rc = fprintf(f, "%d", value) < 0 ? -EIO : 0;
	errno = 0;
	return fclose(f) ? -errno : rc;
}

static int get(void)
{
	int value = 0;
	FILE *f = fopen(FILE_NAME, "re");
	if (f && fscanf(f, "%d", &value) != 1)
		value = 0;
	if (f)
		fclose(f);
	return value;
}

int oom_allow_begin(void)
{
	int before = get();
	oom_set(OOM_NEVER);
	return before;
}

void oom_allow_end(int before)
{
	oom_set(before);
}
