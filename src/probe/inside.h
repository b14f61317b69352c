/* inside.h - which calls a probe inside the process can tell as the kernel's would, and what it
 * has to know of their functions. Pure: a plan's part, in the process that reads files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolize/prologue.h"
#include "wire/call_ring.h"

struct probe_info;

/* What a place needs beside its site. */
struct inside {
	uint8_t before; /* bytes of the function before the site's offset */
	uint8_t kept;	/* struct prologue */
	uint8_t moved;	/* 0: only the kernel can probe it */
	int8_t pushed;
	uint8_t trust;	      /* enum call_site_trust */
	uint16_t stack_words; /* struct call_site */
	struct rip_operands rips;
	uint8_t code[PROLOGUE_BYTES];
};

/* place: where in the function's len bytes of code the kernel's probe is. *why: where moved is 0,
 * a sentence. */
struct inside inside_plan(const struct probe_info *info, const uint8_t *code, size_t len,
			  uint32_t place, const char **why);

/* Whether it could be one of inside_plan's for this probe. What the answer about a file says of its
 * functions' arguments is believed: it harms whoever runs the file, which could do so itself. */
bool inside_holds(const struct inside *in, const struct probe_info *info);
