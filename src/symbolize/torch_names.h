/* torch_names.h - PyTorch's own names of its operators.
 *
 * at::_ops::add_Tensor::call is operator "aten::add", overload "Tensor". The struct's
 * name joins the two with '_' (torchgen: unambiguous_name), which cannot be split
 * again from the name alone; the library's schema strings ("add.Tensor(Tensor self,
 * ...") can tell. */
#pragma once

#include <stddef.h>

#include "symbolize/elf_file.h"

struct torch_names;

/* Collects the schema strings of a libtorch_cpu (.rodata). Takes tens of milliseconds.
 * Never fails: without strings, names fall back to a rule (docs/catalog.md). */
struct torch_names *torch_names_load(const struct elf_file *f);
void torch_names_free(struct torch_names *n);

/* From a mangled symbol "_ZN2at4_ops10add_Tensor4callE..." to "aten::add"; malloc'ed,
 * NULL when the symbol is not an operator. */
char *torch_operator_name(const struct torch_names *n, const char *symbol);
