/* flops_peak.h - how many operations a second a device can do at most, by its name. */
#pragma once

#include "analyze/flops_count.h"

/* Dense operations a second of a format at the device's boost clock, by NVIDIA's data sheet; 0
 * where the device, or the format on it, is not in the table. name as NVML gives it: "NVIDIA
 * H200". Part of a device (MIG) has no peak here. */
double flops_peak(const char *name, enum flops_format format);
