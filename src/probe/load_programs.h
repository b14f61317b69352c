/* load_programs.h - loads a BPF object, its programs on several threads. Internal to src/probe. */
#pragma once

#include <bpf/libbpf.h>

/* What goes on beside the programs: once the object's maps are there; the thread's end is waited
 * for. */
struct beside_programs {
	void *(*run)(void *ctx);
	void *ctx;
};

/* As bpf_object__load_skeleton. Why a program was refused is told by load_programs alone, and only
 * when it loads one after another. 0, or negative errno. */
int load_programs(struct bpf_object_skeleton *s, bool at_once,
		  const struct beside_programs *beside);
