/* freeze_page.h - the page of a recording that an agent froze, as `eacgm report --html` writes it,
 * and its trace, as `eacgm export -f perfetto` does, packed by gzip.
 *
 * It is made when it is asked for, by a child process of its own: what a report takes of memory and
 * time is that one's, and is bounded; so is what it may do, for it has no capabilities and holds no
 * descriptor of the agent's. One is made at a time, and the last one is kept. */
#pragma once

#include <stdint.h>

enum freeze_page_kind {
	FREEZE_PAGE_HTML,
	FREEZE_PAGE_TRACE,
};

enum freeze_page_state {
	FREEZE_PAGE_THERE,
	FREEZE_PAGE_COMES,  /* is being made, or another is: to be asked for again */
	FREEZE_PAGE_FAILED, /* this question is told why; the next one tries again */
};

struct freeze_pages;
struct freeze_pages *freeze_pages_new(void);
/* A child ends with it. NULL: nothing. */
void freeze_pages_free(struct freeze_pages *p);

/* What is made of the recording at path, which is called name. THERE: *ret_fd is the caller's and
 * has *ret_bytes of it; FAILED: likewise, of a sentence, or -1. Not for several threads. */
enum freeze_page_state freeze_pages_get(struct freeze_pages *p, enum freeze_page_kind kind,
					const char *path, const char *name, int *ret_fd,
					uint64_t *ret_bytes);
