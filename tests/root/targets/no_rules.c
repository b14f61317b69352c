/* no_rules.c - assembly as libx264 and libavcodec have it: without call frame information.
 *
 *   no_rules MS   runs each shape for so many milliseconds of CPU time, over and over
 *
 * Prints nothing. */
#include <stdlib.h>
#include <time.h>

/* leaf: nothing on the stack; saves: preserved registers pushed, room below, two ways out; aligned:
 * the stack aligned, its old place in a slot, as x86inc.asm does it, and a call back into C. */
__asm__(".text\n"
	".p2align 4\n"
	".type asm_leaf, @function\n"
	"asm_leaf:\n"
	"	mov $200000, %ecx\n"
	"1:	imul %rdi, %rdi\n"
	"	sub $1, %ecx\n"
	"	jnz 1b\n"
	"	ret\n"
	".size asm_leaf, .-asm_leaf\n"
	".p2align 4\n"
	".type asm_saves, @function\n"
	"asm_saves:\n"
	"	push %rbx\n"
	"	push %r12\n"
	"	push %rbp\n"
	"	sub $40, %rsp\n"
	"	mov $200000, %ebx\n"
	"	xor %ebp, %ebp\n"
	"	test %rdi, %rdi\n"
	"	jz 3f\n"
	"2:	mov %rbx, (%rsp)\n"
	"	imul %rdi, %rdi\n"
	"	mov (%rsp), %r12\n"
	"	sub $1, %ebx\n"
	"	jnz 2b\n"
	"	add $40, %rsp\n"
	"	pop %rbp\n"
	"	pop %r12\n"
	"	pop %rbx\n"
	"	ret\n"
	"3:	add $40, %rsp\n"
	"	pop %rbp\n"
	"	pop %r12\n"
	"	pop %rbx\n"
	"	jmp asm_leaf\n"
	".size asm_saves, .-asm_saves\n"
	".p2align 4\n"
	".type asm_aligned, @function\n"
	"asm_aligned:\n"
	"	push %rbx\n"
	"	push %rbp\n"
	"	mov %rsp, %rax\n"
	"	sub $136, %rsp\n"
	"	and $-64, %rsp\n"
	"	mov %rax, 128(%rsp)\n"
	"	mov $100000, %ebx\n"
	"	xor %ebp, %ebp\n"
	"4:	imul %rdi, %rdi\n"
	"	sub $1, %ebx\n"
	"	jnz 4b\n"
	"	call called_back\n"
	"	mov 128(%rsp), %rsp\n"
	"	pop %rbp\n"
	"	pop %rbx\n"
	"	ret\n"
	".size asm_aligned, .-asm_aligned\n");

unsigned long asm_leaf(unsigned long x);
unsigned long asm_saves(unsigned long x);
unsigned long asm_aligned(unsigned long x);
unsigned long called_back(unsigned long x);

static volatile unsigned long sum;

__attribute__((used, noinline)) unsigned long called_back(unsigned long x)
{
	for (unsigned long i = 0; i < 100000; i++)
		sum += x ^ i;
	return sum;
}

__attribute__((noinline)) static void run_shape(unsigned long (*shape)(unsigned long), long ms)
{
	struct timespec now;
	long end = 0;
	do {
		sum += shape(sum | 1);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
		long ns = now.tv_sec * 1000000000L + now.tv_nsec;
		end = end ? end : ns + ms * 1000000L;
		if (ns >= end)
			return;
	} while (1);
}

int main(int argc, char **argv)
{
	long ms = argc > 1 ? atol(argv[1]) : 100;
	run_shape(asm_leaf, ms);
	run_shape(asm_saves, ms);
	run_shape(asm_aligned, ms);
	return 0;
}
