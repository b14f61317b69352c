/* torch_ops.h - PyTorch's operators and nodes of backward passes, as PyTorch itself tells them
 * to whoever registers for it (at::RecordFunction, ATen/record_function.h).
 *
 * A registered function costs a fifth of what a probe of the kernel's does. The thread that runs
 * an operator writes a row into a buffer of its own and waits for nobody; a thread of ours puts
 * the rows into the ring every 10 ms. Rows that find no room are counted there.
 *
 * Nothing of PyTorch is linked against, and it is asked for nothing before it was seen that its
 * interface is the one that is known here (docs/developers/gpu-timeline.md): where it is another
 * there are no rows, and the ring's `tells` does not grow. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "cupti_abi.h"
#include "ring.h"

/* Starts the thread, which waits for the process to load PyTorch. The lock is held whenever the
 * ring is written to. cupti: launches of kernels go the same way (launches.h); NULL: they do
 * not. */
void torch_ops_start(struct ring *ring, pthread_mutex_t *ring_lock, const struct cupti *cupti);

/* PyTorch calls us no more, and what there was is in the ring. goes_on: the process does, not
 * only to its end. False when a thread is still within one of our functions, or will return to
 * one: the code has to stay. */
bool torch_ops_stop(bool goes_on);
