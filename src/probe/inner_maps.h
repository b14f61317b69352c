/* inner_maps.h - maps that a map holds. */
#pragma once

#include <stdint.h>

/* Puts n maps into an array of maps, from that index on. 0, or negative errno. */
int inner_maps_install(int array, uint32_t first, const int *fds, uint32_t n);
