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

/* rc: 0 or the negative errno with which loading ended. Empties *r where that was no refusal: all
 * loaded, or there was no memory for a program that libbpf then prints the log of as well. */
void refusal_settle(struct refusal *r, int rc);
