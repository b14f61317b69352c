/* entity.h - what a counter or an event is of: a process, a GPU, the host. As numbers, and as the
 * text that people read; nobody else makes that text or reads it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/* Are in recordings: append only. */
enum entity_kind {
	ENTITY_OTHER,	   /* label is all that is known of it */
	ENTITY_PROCESS,	   /* "pid 12" */
	ENTITY_GPU,	   /* "gpu 0", an instance of it "gpu 0 mig 1", a process on either
			    * "gpu 0 pid 12", "gpu 0 mig 1 pid 12" */
	ENTITY_HOST,	   /* "host" */
	ENTITY_INTERFACE,  /* "interface eth0" */
	ENTITY_CGROUP,	   /* "cgroup /system.slice/job" */
	ENTITY_EACGM,	   /* "eacgm": what watching costs */
	ENTITY_DISK,	   /* "disk vda": a whole block device */
	ENTITY_FILESYSTEM, /* "file system /home": by where it is mounted */
	ENTITY_KINDS,
};

/* Strings are borrowed. */
struct entity {
	uint8_t kind;	   /* enum entity_kind */
	uint32_t pid;	   /* of a process; of a GPU 0: all of it */
	uint32_t gpu;	   /* of a GPU: its index */
	int32_t instance;  /* of a GPU: its MIG instance, -1: the whole GPU; of others -1 */
	const char *label; /* of an interface, a cgroup, a disk, a file system or another: its name;
			      else "" */
	const char *host;  /* host_len characters: where several hosts are told of; "" else */
	size_t host_len;
};

#define ENTITY_NAMED(kind_, label_)                                                                \
	((struct entity){.kind = (kind_), .instance = -1, .label = (label_), .host = ""})
#define ENTITY_OF_PID(pid_)                                                                        \
	((struct entity){.kind = ENTITY_PROCESS,                                                   \
			 .pid = (uint32_t)(pid_),                                                  \
			 .instance = -1,                                                           \
			 .label = "",                                                              \
			 .host = ""})
#define ENTITY_OF_GPU(gpu_, instance_, pid_)                                                       \
	((struct entity){.kind = ENTITY_GPU,                                                       \
			 .pid = (pid_),                                                            \
			 .gpu = (gpu_),                                                            \
			 .instance = (instance_),                                                  \
			 .label = "",                                                              \
			 .host = ""})

/* Appends its text: "node7 gpu 0 pid 12". */
void entity_print(struct buf *b, const struct entity *e);
/* The same, cut where it does not fit. */
void entity_text(char *ret, size_t size, const struct entity *e);

/* What a text stands for; what is not such a text is an ENTITY_OTHER of that label. *ret borrows
 * from text. */
void entity_parse(struct entity *ret, const char *text);

/* Whether there is one of it on each host, and it needs the host's name beside others'. */
bool entity_is_of_host(const struct entity *e);
