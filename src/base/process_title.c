/* process_title.c - the arguments of a process lie one behind another in its memory, and the kernel
 * shows what stands there (proc(5), /proc/PID/cmdline). */
#include "base/process_title.h"

#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>

static char *area;
static size_t area_bytes;

void process_title_begin(int argc, char **argv)
{
	char *end = argc > 0 ? argv[0] : NULL;
	for (int i = 0; i < argc && argv[i] == end; i++)
		end += strlen(argv[i]) + 1;
	area = argc > 0 ? argv[0] : NULL;
	area_bytes = (size_t)(end - area);
}

void process_title_set(const char *title)
{
	size_t len = strlen(title);
	if (area_bytes) {
		memset(area, 0, area_bytes);
		memcpy(area, title, len < area_bytes ? len : area_bytes - 1);
	}
	prctl(PR_SET_NAME, title);
}
