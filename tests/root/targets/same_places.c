/* same_places.c - spins on CPU 0 for some milliseconds of its own time, in a function whose frame
 * has SAME_FRAME bytes. It is linked at a fixed address, twice, with frames of another size: every
 * place in code is the same in both programs, and the rules to unwind it are not.
 *
 *   usage: same_places MS */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define TEXT_(x) #x
#define TEXT(x)	 TEXT_(x)

void outer(long ms);
void inner(long ms);

/* Whatever is taken for a return address there leads nowhere. */
__asm__(".text\n"
	".globl outer\n.type outer,@function\nouter:\n"
	".cfi_startproc\n"
	"sub $" TEXT(SAME_FRAME) ",%rsp\n.cfi_adjust_cfa_offset " TEXT(
		SAME_FRAME) "\n"
			    "xor %eax,%eax\n"
			    "lea " TEXT(
				    SAME_FRAME) "-8(%rsp),%rcx\n"
						"1: mov %rax,(%rcx)\nsub $8,%rcx\ncmp "
						"%rsp,%rcx\njae 1b\n"
						"call inner\n"
						"add $" TEXT(
							SAME_FRAME) ",%rsp\n.cfi_adjust_cfa_offset "
								    "-" TEXT(SAME_FRAME) "\n"
											 "ret\n"
											 ".cfi_"
											 "endproc\n"
											 ".size "
											 "outer,.-"
											 "outer\n");

void inner(long ms)
{
	struct timespec now;
	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < ms);
}

int main(int argc, char **argv)
{
	cpu_set_t first;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof(first), &first);
	outer(argc > 1 ? atol(argv[1]) : 1000);
	return 0;
}
