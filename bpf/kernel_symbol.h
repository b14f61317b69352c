/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * kernel_symbol.h - the kernel's own name of one of its addresses, asked by user space: reading all
 * that /proc/kallsyms lists takes a tenth of a second of a CPU, and most recordings want few. */
#pragma once

#include "state.h"

#define KERNEL_SYMBOL_BYTES 256

__u64 kernel_address;
char kernel_symbol[KERNEL_SYMBOL_BYTES];

/* "name+0x1c/0x40 [module]", or the number where there is none (lib/vsprintf.c, %pS). */
SEC("syscall")
int name_kernel_address(void *ctx)
{
	__u64 address = kernel_address;
	(void)ctx;
	return bpf_snprintf(kernel_symbol, sizeof(kernel_symbol), "%pS", &address, sizeof(address));
}
