/* tap.h - hears of every row that goes into the recording, as it goes: what runs beside a
 * recording, or without one, sees the events there.
 *
 * Everything is called in the recording thread, which must not wait: copy and return. Rows of a
 * dictionary come before those that refer to them. Numbers are the recording's. */
#pragma once

#include "recording/recording.h"

struct pipeline;

#define NAME_FIRST (1u << 31)

/* Those that are NULL are not called. Rows are valid during the call. */
struct pipeline_tap {
	void *ctx;
	void (*probe)(void *ctx, uint32_t number, const struct m_probe *row);
	void (*thread)(void *ctx, uint32_t index, const struct m_thread *row);
	/* Its number comes no more: the thread has ended, or is not known any more (forget.c). */
	void (*thread_gone)(void *ctx, uint32_t index);
	void (*code)(void *ctx, uint32_t number, const struct m_code *row);
	/* Where nothing is kept, what a process's counters are of is no string: its number, from
	 * NAME_FIRST on, is told here, and when it comes no more. */
	void (*name)(void *ctx, uint32_t number, const char *text);
	void (*name_gone)(void *ctx, uint32_t number);
	void (*process)(void *ctx, const struct m_process *row); /* also when it changes */
	void (*comm)(void *ctx, const struct m_comm *row);	 /* likewise */
	void (*gpu)(void *ctx, const struct m_gpu *row);	 /* likewise */
	void (*loss)(void *ctx, const struct m_loss *row);	 /* totals, now and then */
	/* Each thread's in order of their ends. */
	void (*calls)(void *ctx, const struct m_call *rows, size_t n);
	void (*gpu_span)(void *ctx, const struct m_gpu_span *row);
	void (*counter)(void *ctx, const struct m_counter *row);
	void (*sample)(void *ctx, const struct m_sample *row);
};

/* Before anything is passed; at most one listens. */
void pipeline_set_tap(struct pipeline *p, const struct pipeline_tap *tap);

/* In the recording thread: numbers of strings are smaller than the count and keep their string. */
uint32_t pipeline_strings(const struct pipeline *p);
const char *pipeline_string_text(const struct pipeline *p, uint32_t number);
