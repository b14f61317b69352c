/* incident_slices.h - incidents with their causes, and along what their time went, for formats that
 * show times. */
#pragma once

#include "base/strtab.h"
#include "export/anomaly_slices.h"

struct diagnosis; /* incident/diagnosis.h */
struct rec_tables;
struct row_source;
struct timeline;

/* A readable form of a mangled name, malloc'ed; parameters too when params is not 0. */
typedef char *demangle_fn(const char *name, int params);

/* A piece of a path of blame. */
struct path_slice {
	uint64_t start_ns, end_ns;
	uint32_t pid;
	uint32_t incident; /* from 1 on, as diagnose numbers them */
	uint32_t owner;	   /* words, of texts */
	uint32_t kernel;   /* that the GPU ran most of it, of texts; 0: none is known */
};

struct incident_slices {
	struct anomaly_slices incidents; /* of one layer; they may overlap */
	VEC(struct path_slice) path;	 /* by process, then start; they may overlap, but rarely */
	struct strtab texts;		 /* any bytes */
	size_t left_out;		 /* pieces of paths */
	uint64_t left_out_ns;
};

/* t, timeline: that the diagnosis is of. demangle may be NULL. */
void incident_slices_make(struct incident_slices *ret, const struct diagnosis *d,
			  const struct rec_tables *t, const struct timeline *timeline,
			  demangle_fn *demangle);
void incident_slices_free(struct incident_slices *s);

/* All that was not normal, and why. */
struct judged_slices {
	struct anomaly_slices anomalies;
	struct incident_slices incidents;
};

/* list: of the source, which is read once more where it has any. demangle may be NULL. */
void judged_slices_make(struct judged_slices *ret, const struct row_source *s,
			const struct anomaly_list *list, demangle_fn *demangle);
void judged_slices_free(struct judged_slices *s);
