/* report_html.h - the report as a page of its own: one HTML file that asks nobody for anything.
 *
 * Its size is bounded whatever the recording holds: lists are cut, charts have so many points,
 * flame graphs lose their smallest frames. What was left out the page says. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "base/calltree.h"
#include "base/error.h"
#include "report/report.h"

/* 0, or negative errno with the sentence: -ENOTSUP where this program has no page. */
int report_html(FILE *to, const struct report *r, struct err *e);

/* What is left out, as the page lists it: nothing where both numbers are equal. */
void report_html_left_out(json_t *list, const char *what, uint64_t shown, uint64_t of);

/* For report_html.c alone: what the report's JSON does not have. Each adds to left_out. */
json_t *report_html_steps(const struct report *r, json_t *left_out);
json_t *report_html_counters(const struct report *r, json_t *left_out);
json_t *report_html_flames(const struct report *r, json_t *left_out);
json_t *report_html_anomalies(const struct report *r, json_t *left_out);
json_t *report_html_timeline(const struct report *r, json_t *left_out);

/* A tree as the page's flame graph draws it (Flame of web/src/data.ts), without its smallest
 * frames; kind: "cpu" and the like. The caller's. */
json_t *report_html_flame(const struct calltree *t, const char *kind, json_t *left_out);

/* What a frame is called there. */
#define REPORT_FRAME_BYTES 256
void report_html_frame_name(char ret[static REPORT_FRAME_BYTES], const struct calltree *t,
			    const struct calltree_frame *f);
