/* attach_check.c - reads environ, maps and status of a process. What cannot be read holds
 * nothing. */
#include "cli/attach_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/gpu_folder.h"

bool process_has_variable(pid_t pid, const char *name)
{
	char path[64], *text = NULL;
	size_t room = 0;
	bool found = false;
	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	FILE *f = fopen(path, "re");
	while (f && !found && getdelim(&text, &room, 0, f) > 0)
		found = !strncmp(text, name, strlen(name));
	if (f)
		fclose(f);
	free(text);
	return found;
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
