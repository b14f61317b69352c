/* host.h - the program's side of the host. Internal to this folder. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct parser_host {
	pid_t pid;
	int sock;
	_Atomic uint64_t cpu_ns; /* of all answers */
};

/* Has a worker forked: our end of the line to it, or negative errno. Any thread may. */
int host_worker(const struct parser_host *h, bool urgent);
