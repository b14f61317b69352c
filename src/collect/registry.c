/* registry.c - the list of registry.h as an array. */
#include "collect/registry.h"

#define ADDRESS(name) &collector_##name,

const struct collector *const collector_registry[] = {COLLECTORS(ADDRESS)};
const size_t collector_registry_len = sizeof(collector_registry) / sizeof(collector_registry[0]);
