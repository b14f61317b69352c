/* refusal.h - which BPF program the kernel's verifier refused, and why, out of what libbpf says.
 * Prints nothing. */
#pragma once

#include <stdbool.h>

/* All empty: none was refused. */
struct refusal {
	char program[64];
	char reason[256]; /* the verifier's last sentence */
	char lines[2048]; /* what it said last: whole lines, the last of them too with its end */
};

/* message: one of libbpf's. False, and *ret as it was, where it is of no refusal. */
bool refusal_read(struct refusal *ret, const char *message);
