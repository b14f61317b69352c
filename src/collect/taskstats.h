/* taskstats.h - what the kernel's answer to a question of generic netlink's family TASKSTATS says
 * of a process. Apart from the collector for its test. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum task_delay {
	DELAY_CPU,
	DELAY_BLKIO,
	DELAY_SWAPIN,
	DELAY_FREEPAGES,
	DELAY_THRASHING,
	DELAY_COMPACT,
	DELAY_WPCOPY,
	DELAY_IRQ,
	TASK_DELAYS,
};

struct task_delays {
	uint64_t ns[TASK_DELAYS]; /* of all its threads so far */
	uint32_t known;		  /* bits: this kernel has them */
};

/* The number of a family, from the answer of the controller; 0: it says none. */
uint16_t taskstats_family(const void *message, size_t len);
/* The delays of a process; false: it is no such answer, or of a layout that is not known. */
bool taskstats_delays(const void *message, size_t len, uint32_t pid, struct task_delays *ret);
