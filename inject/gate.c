/* gate.c - counts who is in the shim, and the entry of a thread that may unload it. */
#include "gate.h"

#include <semaphore.h>
#include <time.h>

#define PATIENCE_MS 2000
#define GRACE_NS    50000000L /* between a caller's look at our address and its first count */

static int entered; /* atomic */
__attribute__((visibility("hidden"))) sem_t gate_left;

void gate_enter(void)
{
	__atomic_fetch_add(&entered, 1, __ATOMIC_SEQ_CST);
}

bool gate_wait(void)
{
	int left = 0;
	nanosleep(&(struct timespec){.tv_nsec = GRACE_NS}, NULL);
	for (int ms = 0; ms < PATIENCE_MS; ms++) {
		if (!sem_getvalue(&gate_left, &left) &&
		    left == __atomic_load_n(&entered, __ATOMIC_SEQ_CST))
			return true;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return false;
}

/* The function where a thread begins that src/remote made: its arguments are those of
 * remote_entry_fn. shim_attached returns the handle to close, or NULL; dlclose then returns to
 * where the thread came from, and nothing returns to what it unmapped. */
__asm__(".pushsection .text\n"
	".globl eacgm_gpu_attach\n"
	".type eacgm_gpu_attach, @function\n"
	"eacgm_gpu_attach:\n"
	"	sub	$8, %rsp\n"
	"	call	shim_attached\n"
	"	add	$8, %rsp\n"
	"	test	%rax, %rax\n"
	"	jz	1f\n"
	"	mov	%rax, %rdi\n"
	"	jmp	*dlclose@GOTPCREL(%rip)\n"
	"1:	ret\n"
	".size eacgm_gpu_attach, . - eacgm_gpu_attach\n"
	".popsection\n");
