/* target_args.h - reads the TARGET of a command line, and the catalog that is traced in it. Shared
 * by the commands that trace. */
#pragma once

#include "base/layer.h"
#include "cli/options.h"
#include "probe/catalog.h"
#include "session/target.h"

/* clang-format off */
/* The options of TARGET, and those of what is traced, for a command's table. */
#define TARGET_OPTIONS                                                                             \
	{'p', "pid", "PID[,PID...]", "Trace these processes and their descendants.", NULL,         \
	 OPT_REPEAT},                                                                              \
	{0, "cgroup", "PATH",                                                                      \
	 "Trace the processes of this control group, also those that join later.", NULL,           \
	 OPT_FILE},                                                                                \
	{0, "all", NULL, "Trace every process.", NULL, 0}

#define CATALOG_OPTIONS                                                                            \
	{0, "layers", "L,...",                                                                     \
	 "Layers to trace, with their frequent functions too: " LAYER_LIST                         \
	 "or all. When not given: all layers, without what is frequent.",                          \
	 LAYER_CHOICES LAYER_ALL, OPT_LIST},                                                       \
	{0, "probe", "SPEC",                                                                       \
	 "Also trace functions of any library: 'libfoo.so:foo_*(u64 handle, size bytes) "          \
	 "-> int'. The language is described in docs/catalog.md.",                                 \
	 NULL, OPT_REPEAT},                                                                        \
	{0, "catalog", "FILE", "Also trace what this catalog file describes.", NULL,               \
	 OPT_REPEAT | OPT_FILE},                                                                   \
	{0, "everything", NULL,                                                                    \
	 "Also catalog entries that are off by default, in every layer.", NULL, 0}
#define WAITS_OPTION                                                                               \
	{0, "waits", "on|off",                                                                     \
	 "Count how long threads wait, and for what (cheap, without stacks); on unless told.",     \
	 "on|off", 0}
/* clang-format on */

/* Reads -p, --cgroup and --all. A PID that does not exist is an error. */
int target_parse(struct target *ret, const struct args *a, struct err *e);
void target_free(struct target *t);

bool waits_from_args(const struct args *a);

/* Built-in catalog, /etc/eacgm/catalog.d, --catalog files and --probe descriptions. */
int catalog_from_args(struct catalog *ret, const struct args *a, struct err *e);

/* Bit per layer from --layers; every layer without it. The catalog may name layers. */
int layers_from_args(uint32_t *ret, const struct catalog *c, const struct args *a, struct err *e);
