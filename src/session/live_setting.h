/* live_setting.h - what a running process is run on: the host, and the files that it has mapped. */
#pragma once

#include <sys/types.h>

#include "detect/setting.h"

#define CPU_MODEL_BYTES 128
/* "Intel(R) Xeon(R) Platinum 8480C"; "" where the kernel does not say. */
void cpu_model(char ret[CPU_MODEL_BYTES]);
/* As setting_add_recording says of a recording of it, but for GPUs and build IDs. */
void live_setting(struct setting *ret, pid_t pid);
