/* live_setting.c - the facts of a model's setting, of a process that runs now. */
#include "session/live_setting.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "symbolize/proc_maps.h"

/* Of the first CPU: those of a host are alike. */
void cpu_model(char ret[CPU_MODEL_BYTES])
{
	static const char key[] = "model name";
	char line[256];
	FILE *f = fopen("/proc/cpuinfo", "re");
	ret[0] = 0;
	while (f && !ret[0] && fgets(line, sizeof(line), f)) {
		const char *colon = strchr(line, ':');
		if (!colon || strncmp(line, key, sizeof(key) - 1) != 0)
			continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(ret, CPU_MODEL_BYTES, "%s", colon + 1 + strspn(colon + 1, " "));
	}
	if (f)
		fclose(f);
}

void live_setting(struct setting *ret, pid_t pid)
{
	struct utsname u;
	struct err e;
	char cpu[CPU_MODEL_BYTES], cpus[32];
	proc_maps_t maps = {0};
	uname(&u);
	cpu_model(cpu);
	snprintf(cpus, sizeof(cpus), "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	setting_add(ret, "host", u.nodename);
	setting_add(ret, "kernel", u.release);
	setting_add(ret, "cpu", cpu);
	setting_add(ret, "cpus", cpus);
	setting_add(ret, "eacgm", EACGM_VERSION);
	if (proc_code_read("/proc", pid, &maps, &e))
		return;
	for (size_t i = 0; i < maps.len; i++)
		setting_add_file(ret, maps.data[i].path, NULL);
	proc_maps_free(&maps);
}
