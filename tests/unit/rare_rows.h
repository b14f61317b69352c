/* rare_rows.h - rows, each as rare as it is asked for, through a detector whose model is made for
 * that: a layer's first column x has p = exp(-x^2 / 2). For tests of what becomes of rows; no calls
 * and no counters are made into them here. The rows are of seconds, from BEGIN on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "incident/detector_impl.h"

#define SECOND 1000000000ULL
#define PID    100
#define BEGIN  1000 /* seconds: the first row */
#define RARE   1e-6
#define USUAL  0.5

extern struct model model;
extern struct detector *detector;
extern struct detector_options options; /* of the detectors to come */
extern uint64_t second;			/* of the next row */
extern struct anomaly found[16];	/* that have ended; their strings are gone */
extern size_t found_len;
extern struct anomaly told[64]; /* each time that one was told, ended or not */
extern size_t told_len;

/* Of a group of tests; then of each test, before it. */
int make_model(void **state);
int free_model(void **state);
/* Counters of processes without a pace of their own get a mixture that is so many times as wide;
 * and have none again. */
void make_helpers(double scale);
void forget_helpers(void);
int begin(void **state);

void start(bool whole);
/* All that were given were told. */
void stop(void);

/* A row of the second, of known work, of a process that has no pace. */
struct feature_row rare_row(enum detect_layer layer, uint32_t pid, double p);
void give(const struct feature_row *row);
/* One whose calls and what lies between them took so much longer than usual. */
void give_losing(const struct feature_row *row, double lost_s);
/* Rows of the process's calls, each of a second of its own. */
void row_with(double p, uint32_t regime, double pace);
void rows(size_t n, double p);
/* Likewise, of a second of its own and no pace. */
void losing_row(double p, double lost_s);
/* Calls of the process that no model knows, so many in the second, which are to come before its
 * row: of most of the row's calls new, it is not judged, as long as its pace is as usual. */
void new_calls(uint64_t in_second, uint32_t n);
void unjudged_row(double p);

/* What became of the row of that second, counted from BEGIN, that was given. */
double p_at(enum detect_layer layer, uint32_t pid, size_t at);
bool is_alarmed_at(enum detect_layer layer, uint32_t pid, size_t at);
/* Of the process's calls. */
double p_of(size_t at);

/* From the row that begins then to that before the other. */
void expect_anomaly(size_t i, uint64_t from, uint64_t to);
