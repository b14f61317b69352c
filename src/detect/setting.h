/* setting.h - what a run was made on: the host, its CPU and GPUs, versions of libraries. A model
 * carries that of its recordings, so that it can be said what is other now. No I/O. */
#pragma once

#include "base/buffer.h"

struct rec_tables; /* events/tables.h's */

#define SETTING_FACTS_MOST  256
#define SETTING_VALUE_BYTES 256 /* of a value; the rest is left out */

struct setting_fact {
	char *name;  /* "host", "GPU", "libblas.so" */
	char *value; /* "gpu7", "NVIDIA H200", "openblas-pthread/libblas.so.3 (1a2b3c4d5e6f)" */
};

/* A name may have several values: of several recordings, hosts or GPUs. Zeroed at its beginning. */
struct setting {
	VEC(struct setting_fact) facts;
};

void setting_free(struct setting *s);
/* Once; more than SETTING_FACTS_MOST are left out. */
void setting_add(struct setting *s, const char *name, const char *value);
/* A file that a process has mapped, where it is of a library that work is done by; build_id: "" or
 * NULL unknown. */
void setting_add_file(struct setting *s, const char *path, const char *build_id);
/* What tables say, added to what is there. */
void setting_add_recording(struct setting *s, const struct rec_tables *t);
/* "host is b (learned on a)", one clause after the other: names that both have and values that only
 * the second has. The caller's; NULL: nothing differs. */
char *setting_difference(const struct setting *learned, const struct setting *now);
