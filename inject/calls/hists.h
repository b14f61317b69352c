/* hists.h - calls that are counted in their thread's histograms instead of being recorded, or
 * besides. */
#pragma once

#include "calls.h"

/* Counts a call that took so many ticks, under its probe and name; its duration in nanoseconds. */
uint64_t hists_count(struct call_thread *t, const struct call_open *o, uint64_t ticks);
