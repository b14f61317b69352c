/* buffers.h - the memory that CUPTI writes records to. Any thread may call. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BUFFER_BYTES (1u << 20) /* some 5,000 kernels */

/* NULL where there is no memory, or CUPTI has thousands: it drops records then, and counts them. */
uint8_t *buffers_lend(void);

/* False when it is not ours: a tool that was there before us has given it, and has our functions in
 * the place of its own. */
bool buffers_take_back(const uint8_t *buffer);

/* One that was taken back and is read: for the next time, or for the kernel. */
void buffers_keep(uint8_t *buffer);

void buffers_free(void);
