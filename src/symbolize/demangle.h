/* demangle.h - names for people. */
#pragma once

/* Itanium C++ demangling: "at::_ops::linear::call" with parameters when params is
 * non-zero. Returns a malloc'ed string the caller frees; a copy of the name when it
 * is not a mangled one. */
char *demangle(const char *name, int params);

/* The class of a vtable symbol: "_ZTVN5torch8autograd9generated12AddBackward0E" ->
 * "AddBackward0" (last component, template arguments kept). malloc'ed; NULL when the
 * symbol is not a vtable. */
char *demangle_vtable(const char *symbol);
