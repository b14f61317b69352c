/* otlp_answer.h - what a receiver of OTLP says of a question that it took: that it left some of it
 * out (partial success). All answers have the same fields. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Rows that were left out, 0: none, or the answer is no answer; and why, "" where it says nothing.
 * n: as much as came. */
uint64_t otlp_answer_rejected(const uint8_t *answer, size_t n, char *ret_why, size_t size);
