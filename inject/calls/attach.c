/* attach.c - an eacgm comes to a process that runs: it has had the library loaded (src/remote), and
 * calls this in a thread of its own. From then on there is a file for it, in which nothing is
 * recorded before eacgm says so. A later eacgm may come again. */
#include <stdio.h>

#include "calls.h"
#include "threads.h"
#include "wire/call_ring.h"

void *eacgm_call_attached(const char *argument, void *handle, uint64_t *entered)
	__attribute__((visibility("default")));

/* argument: the session's folder. What is made of it eacgm sees by CALL_HEADER. */
void *eacgm_call_attached(const char *argument, void *handle, uint64_t *entered)
{
	char folder[CALL_FOLDER_BYTES];
	int n = snprintf(folder, sizeof(folder), "%s", argument);
	(void)handle;
	threads_attach(n > 0 && (size_t)n < sizeof(folder) ? folder : "");
	__atomic_store_n(entered, 1, __ATOMIC_SEQ_CST);
	return NULL;
}
