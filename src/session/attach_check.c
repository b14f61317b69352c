/* attach_check.c - reads environ, maps and status of a process. What cannot be read holds
 * nothing. */
#include "session/attach_check.h"

#include <stdio.h>
#include <string.h>

#include "collect/gpu_folder.h"

#define ENVIRONMENT_MOST (8u << 20) /* bytes: 6 MiB on Linux of today */

/* A process may say that its environment lies anywhere (prctl(2), PR_SET_MM): nothing is kept of
 * what is read, and not more is read than execve(2) takes. */
bool process_has_variable(pid_t pid, const char *name)
{
	char path[64];
	size_t len = strlen(name), matched = 0; /* letters of the name */
	bool may_match = true;
	int c;
	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	FILE *f = fopen(path, "re");
	for (size_t n = 0; f && matched < len && n < ENVIRONMENT_MOST && (c = getc(f)) != EOF;
	     n++) {
		may_match = !c || (may_match && c == (unsigned char)name[matched]);
		matched = c && may_match ? matched + 1 : 0;
	}
	if (f)
		fclose(f);
	return matched == len;
}

bool process_has_ring(pid_t pid)
{
	char path[64], line[8192];
	bool found = false;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, " rw-s ") && strstr(line, "/" GPU_FOLDER_PREFIX);
	if (f)
		fclose(f);
	return found;
}

/* The number behind a word of /proc/PID/status, 0 when it is not there. */
static pid_t read_status(pid_t pid, const char *format)
{
	char path[64], line[256];
	int number = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f) && sscanf(line, format, &number) != 1)
		;
	if (f)
		fclose(f);
	return number;
}

pid_t process_tracer(pid_t pid)
{
	return read_status(pid, "TracerPid: %d");
}

pid_t process_parent(pid_t pid)
{
	return read_status(pid, "PPid: %d");
}
