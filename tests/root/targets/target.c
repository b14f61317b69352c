/* target.c - libtarget.so, see target.h.
 *
 * The functions whose first instruction matters are written in assembly, so that no
 * compiler version changes what is tested. */
#include "target.h"

#include <string.h>
#include <time.h>

#define FUNCTION(name, ...)                                                                        \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n.p2align 4\n" #name          \
		":\n" __VA_ARGS__ "\n.size " #name ", . - " #name "\n")

FUNCTION(target_push, "push %rbx\n mov %rdi, %rbx\n lea 1(%rbx), %rax\n pop %rbx\n ret");
FUNCTION(target_nop, "nop\n lea 1(%rdi), %rax\n ret");
FUNCTION(target_endbr, "endbr64\n push %rbx\n mov %rdi, %rbx\n lea 1(%rbx), %rax\n pop %rbx\n ret");
FUNCTION(target_sub, "sub $24, %rsp\n mov %rdi, 8(%rsp)\n mov 8(%rsp), %rax\n inc %rax\n"
		     " add $24, %rsp\n ret");
FUNCTION(target_lea, "lea (%rdi), %rax\n inc %rax\n ret");
FUNCTION(target_mov, "mov %rdi, %rax\n inc %rax\n ret");
FUNCTION(target_ret, "lea 1(%rdi), %rax\n ret");
FUNCTION(target_tail, "push %rbx\n pop %rbx\n jmp target_push@PLT");

uint64_t target_outer(uint64_t times)
{
	uint64_t sum = 0;
	for (uint64_t i = 0; i < times; i++)
		sum += target_push(i);
	return sum;
}

__attribute__((noinline)) uint64_t target_recurse(uint64_t depth)
{
	if (depth <= 1)
		return 1;
	uint64_t (*volatile self)(uint64_t) = target_recurse;
	uint64_t below = self(depth - 1);
	__asm__ volatile("" : "+r"(below)); /* not a tail call */
	return below + 1;
}

int64_t target_args(int8_t a, uint16_t b, int32_t c, uint64_t d, const void *e, size_t f, int64_t g,
		    uint32_t h)
{
	return a + b + c + (int64_t)d + (int64_t)(uintptr_t)e + (int64_t)f + g + h;
}

size_t target_string(const char *s)
{
	return s ? strlen(s) : 0;
}

int target_out(int64_t value, int64_t *ret)
{
	if (value < 0)
		return -1;
	*ret = value;
	return 0;
}

void *target_pointer(size_t size)
{
	static char some[16];
	return size ? some : NULL;
}

void target_call(void (*fn)(void *), void *arg)
{
	fn(arg);
	__asm__ volatile(""); /* the frame stays until fn is back */
}

void target_sleep(uint32_t ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
	while (nanosleep(&t, &t))
		;
}
