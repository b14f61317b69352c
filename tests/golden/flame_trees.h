/* flame_trees.h - call trees that the tests of flame graphs write in every format. */
#pragma once

#include "base/calltree.h"

/* The names of the trees below, ended by NULL: "training", "hostile", ... */
extern const char *const flame_tree_names[];

/* Fills an uninitialised tree, totals set. The caller frees it with calltree_free. */
void flame_tree_make(struct calltree *t, const char *name);

/* Of "training": nanoseconds in all, and below train_step. */
#define TRAINING_TOTAL_NS 60000000000LL
#define TRAINING_STEP_NS  49000000000LL
