/* advice_impl.h - what the files that make advice share. */
#pragma once

#include "analyze/advice.h"
#include "analyze/blame_impl.h"

/* Time by frame of the job's own code. */
struct place_sums {
	struct map64 of; /* frame -> ns */
};

void place_add(struct place_sums *p, uint32_t frame, double ns);
/* The function with most of it; what it defines within itself is its own. */
struct advice_place place_most(const struct place_sums *p, const struct rec_tables *t);
void place_free(struct place_sums *p);

/* Where a frame is; without a time. */
struct advice_place place_at(const struct rec_tables *t, uint32_t frame);

/* advice_compile.c: ns. */
double advice_find_compiled(const struct blame_world *w, const struct advice_loop *loop);

/* advice_imports.c */
void advice_find_import(struct advice_import *ret, const struct row_source *s,
			const struct account_thread *main);

/* advice_gpu.c: without GPU work that was recorded they leave *ret as it is. */
void advice_find_churn(struct advice_churn *ret, const struct blame_world *w,
		       const struct row_source *s, const struct timeline *t,
		       const struct advice_loop *loop);
void advice_find_copies(struct advice_place *ret, const struct blame_world *w,
			const struct timeline *t, const struct advice_loop *loop);
void advice_find_float32(struct advice_float32 *ret, const struct timeline *t,
			 const struct advice_loop *loop);
