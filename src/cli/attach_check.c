/* attach_check.c - reads environ, maps and status of a process. What cannot be read holds
 * nothing. */
#include "cli/attach_check.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collect/gpu_folder.h"

bool process_has_variable(pid_t pid, const char *name)
{
	char path[64], text[65536];
	size_t n = 0;
	ssize_t got;
	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while (n < sizeof(text) - 1 && (got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	close(fd);
	text[n] = 0;
	for (const char *at = text; at < text + n; at += strlen(at) + 1)
		if (!strncmp(at, name, strlen(name)))
			return true;
	return false;
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

pid_t process_tracer(pid_t pid)
{
	char path[64], line[256];
	int tracer = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f) && sscanf(line, "TracerPid: %d", &tracer) != 1)
		;
	if (f)
		fclose(f);
	return tracer;
}
