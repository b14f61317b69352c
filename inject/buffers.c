/* buffers.c - a few spare buffers, and which ones are lent to CUPTI. Reads nothing of them. */
#include "buffers.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

#define SPARE_BUFFERS 16
#define LENT_BUFFERS  4096 /* CUPTI holds one for each context and thread, and some more */

static struct {
	pthread_mutex_t lock;
	uint8_t *spare[SPARE_BUFFERS];
	size_t spares;
	uint8_t *lent[LENT_BUFFERS]; /* to CUPTI */
	size_t lents;
} buffers = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Not of malloc: what is given back goes to the kernel, not to the heap of one of the job's
 * threads. */
static uint8_t *new_buffer(void)
{
	void *p = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	return p == MAP_FAILED ? NULL : p;
}

uint8_t *buffers_lend(void)
{
	uint8_t *buffer = NULL;
	pthread_mutex_lock(&buffers.lock);
	if (buffers.lents < LENT_BUFFERS)
		buffer = buffers.spares ? buffers.spare[--buffers.spares] : new_buffer();
	if (buffer)
		buffers.lent[buffers.lents++] = buffer;
	pthread_mutex_unlock(&buffers.lock);
	return buffer;
}

bool buffers_take_back(const uint8_t *buffer)
{
	bool found = false;
	pthread_mutex_lock(&buffers.lock);
	for (size_t i = 0; i < buffers.lents && !found; i++) {
		found = buffers.lent[i] == buffer;
		if (found)
			buffers.lent[i] = buffers.lent[--buffers.lents];
	}
	pthread_mutex_unlock(&buffers.lock);
	return found;
}

void buffers_keep(uint8_t *buffer)
{
	pthread_mutex_lock(&buffers.lock);
	bool keeps = buffers.spares < SPARE_BUFFERS;
	if (keeps)
		buffers.spare[buffers.spares++] = buffer;
	pthread_mutex_unlock(&buffers.lock);
	if (!keeps)
		munmap(buffer, BUFFER_BYTES);
}

void buffers_free(void)
{
	pthread_mutex_lock(&buffers.lock);
	while (buffers.spares)
		munmap(buffers.spare[--buffers.spares], BUFFER_BYTES);
	pthread_mutex_unlock(&buffers.lock);
}
