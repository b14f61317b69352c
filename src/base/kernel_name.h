/* kernel_name.h - a kernel's name, short enough to be read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL_NAME_BYTES 160

/* Shortens a demangled name: no return type, no parameters, no namespaces, neither in the name
 * nor in template arguments, casts as their value, long template lists cut with an ellipsis.
 * "void at::native::add_kernel<(int)4, at::native::Sum<float> >(int)" gives
 * "add_kernel<4, Sum<float>>". What is no such name (a symbol, any bytes) is copied. The
 * result is cut to size bytes and terminated; size is at least 1. */
void kernel_name_short(char *ret, size_t size, const char *name);

/* "copy host to device", of CUpti_ActivityMemcpyKind (cupti_activity.h); "copy" of others. */
const char *copy_kind_name(uint8_t kind);

/* False for the stand-in of a name that could not be resolved ("kernel 0x7f0012"), and for
 * an empty one. */
bool kernel_name_known(const char *name);
