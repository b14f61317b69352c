/* causes_gpu.h - the rules for causes that lie in GPUs and the way to them. Each says how many ns
 * of the excess its cause explains; 0: it is none. No I/O. */
#pragma once

#include "incident/evidence.h"

double causes_pcie(const struct evidence *e);
double causes_gpu_error(const struct evidence *e);
double causes_gpu_contention(const struct evidence *e);
double causes_gpu_clock(const struct evidence *e);
double causes_gpu_slow(const struct evidence *e);

/* Whether others use the way between the host and the victim's GPU: another process is there, and
 * more goes over the link than usual, in both directions together, beyond what a timeline says that
 * the job itself copies. False where NVML does not tell what goes over it. */
bool causes_link_is_shared(const struct evidence *e);
/* What the calls that copy took by themselves beyond as many usual ones, ns. */
double causes_copy_calls_longer(const struct evidence *e);
/* An error that the GPU's driver told in the time; NULL: none. */
const struct m_event *causes_gpu_event(const struct evidence *e);
