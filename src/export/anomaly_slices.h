/* anomaly_slices.h - what was not normal, for formats that show times. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct anomaly_list; /* incident/anomaly_list.h */

#define ANOMALY_SLICE_ARGS 32

struct anomaly_slice_arg {
	char *name;
	char *text;   /* NULL: value */
	double value; /* NaN: nothing is written */
};

struct anomaly_slice {
	uint64_t start_ns;
	uint64_t end_ns;
	char *layer; /* "cuda": one track for each */
	char *name;  /* any bytes, as are those of args */
	struct anomaly_slice_arg args[ANOMALY_SLICE_ARGS];
	size_t args_len;
};

struct anomaly_slices {
	VEC(struct anomaly_slice) rows; /* by start; slices of a layer may overlap */
};

/* A slice for each anomaly; args say why. */
void anomaly_slices_make(struct anomaly_slices *ret, const struct anomaly_list *list);
void anomaly_slices_free(struct anomaly_slices *s);

/* Adds an argument; text NULL: value. What is beyond ANOMALY_SLICE_ARGS is left out. */
void anomaly_slice_arg(struct anomaly_slice *s, const char *name, const char *text, double value);
