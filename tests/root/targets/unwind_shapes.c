/* unwind_shapes.c - stacks of every shape that a compiler or a hand makes, for unwinders to be
 * compared on.
 *
 *   unwind_shapes NAME...   runs these shapes in turn until it is ended; without a name all
 *
 * Names: alloca recurse signal altstack tick asm plt lazy align edge vdso longjmp callback thread;
 * and deep, which is not among all. Nothing is printed. */
#include <elf.h>
#include <immintrin.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include "target.h"

#define NOINLINE __attribute__((noinline))

static volatile uint64_t sink;

NOINLINE static void spin(int n)
{
	for (int i = 0; i < n; i++)
		sink = sink * 3 + (uint64_t)i;
}

/* ---- frames whose size is not known before they run ---- */

NOINLINE static uint64_t fill(char *at, size_t len, int depth)
{
	char *more = __builtin_alloca(16 + len % 977);
	memset(at, depth, len);
	memset(more, depth, 16);
	if (depth)
		return fill(more, 16, depth - 1) + (uint64_t)more[3];
	spin(50);
	return (uint64_t)at[0];
}

static void shape_alloca(void)
{
	for (size_t i = 1; i < 40; i++)
		sink += fill(__builtin_alloca(i * 16), i * 16, 6);
}

NOINLINE static uint64_t recurse(int depth, uint64_t a, double b)
{
	if (!depth) {
		spin(200);
		return a;
	}
	uint64_t below = recurse(depth - 1, a * 7 + 1, b * 1.5);
	return below ^ a ^ (uint64_t)b;
}

static void shape_recurse(void)
{
	for (int depth = 1; depth < 400; depth += 37)
		sink += recurse(depth, 1, 0.5);
}

static void shape_deep(void)
{
	sink += recurse(3000, 1, 0.5);
}

/* ---- signals ---- */

static void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	(void)context;
	spin(300);
	sink += recurse(5, 3, 1);
}

static void raise_some(int flags)
{
	struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};
	sigaction(SIGUSR1, &sa, NULL);
	for (int i = 0; i < 50; i++) {
		raise(SIGUSR1);
		spin(20);
	}
}

static void shape_signal(void)
{
	raise_some(0);
}

static void shape_altstack(void)
{
	static char stack[1 << 16];
	stack_t ss = {.ss_sp = stack, .ss_size = sizeof(stack)};
	sigaltstack(&ss, NULL);
	raise_some(SA_ONSTACK);
}

/* A signal that comes anywhere, by a timer: amid prologues and epilogues too. */
static void on_tick(int sig)
{
	(void)sig;
	spin(2000);
}

static void shape_tick(void)
{
	static timer_t timer;
	static int made;
	struct itimerspec each = {.it_interval = {.tv_nsec = 1000000},
				  .it_value = {.tv_nsec = 1000000}};
	struct sigaction sa = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
	sigaction(SIGALRM, &sa, NULL);
	if (!made)
		made = !timer_create(CLOCK_MONOTONIC, NULL, &timer);
	timer_settime(timer, 0, &each, NULL);
	for (int i = 0; i < 200; i++)
		sink += recurse(12, 1, 1);
	memset(&each, 0, sizeof(each));
	timer_settime(timer, 0, &each, NULL);
}

/* ---- assembly: pushes and pops one by one, a stack pointer in another register, a frame whose
 * address is an expression ---- */

uint64_t asm_pushes(uint64_t n);
uint64_t asm_moved(uint64_t n);
uint64_t asm_expression(uint64_t n);
__asm__(".text\n"
	".globl asm_pushes\n.type asm_pushes,@function\nasm_pushes:\n"
	".cfi_startproc\n"
	"push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbx, 0\n"
	"push %r12\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r12, 0\n"
	"push %r13\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r13, 0\n"
	"xor %eax,%eax\n"
	"1: push %rdi\n.cfi_adjust_cfa_offset 8\n"
	"push $1\n.cfi_adjust_cfa_offset 8\n"
	"mov $7,%ebx\nimul %rbx,%rax\n"
	"pop %r12\n.cfi_adjust_cfa_offset -8\n"
	"add %r12,%rax\n"
	"pop %rdi\n.cfi_adjust_cfa_offset -8\n"
	"dec %rdi\njnz 1b\n"
	"pop %r13\n.cfi_adjust_cfa_offset -8\n.cfi_restore r13\n"
	"pop %r12\n.cfi_adjust_cfa_offset -8\n.cfi_restore r12\n"
	"pop %rbx\n.cfi_adjust_cfa_offset -8\n.cfi_restore rbx\n"
	"ret\n.cfi_endproc\n.size asm_pushes,.-asm_pushes\n"

	".globl asm_moved\n.type asm_moved,@function\nasm_moved:\n"
	".cfi_startproc\n"
	"mov %rsp,%r10\n.cfi_def_cfa r10, 8\n"
	"push %rbp\n.cfi_offset rbp, -16\n"
	"and $-64,%rsp\nsub $256,%rsp\n"
	"xor %ebp,%ebp\n"
	"1: mov %rdi,(%rsp)\nadd (%rsp),%rbp\ndec %rdi\njnz 1b\n"
	"mov %rbp,%rax\n"
	"mov -8(%r10),%rbp\n.cfi_restore rbp\n"
	"mov %r10,%rsp\n.cfi_def_cfa rsp, 8\n"
	"ret\n.cfi_endproc\n.size asm_moved,.-asm_moved\n"

	/* the address of the frame is in the slot at rsp + 8: DW_CFA_def_cfa_expression,
	 * DW_OP_breg7 8, DW_OP_deref */
	".globl asm_expression\n.type asm_expression,@function\nasm_expression:\n"
	".cfi_startproc\n"
	"lea 8(%rsp),%rax\n"
	"sub $24,%rsp\n.cfi_adjust_cfa_offset 24\n"
	"mov %rax,8(%rsp)\n"
	".cfi_escape 0x0f,3,0x77,8,0x06\n"
	"xor %eax,%eax\n"
	"1: add %rdi,%rax\nimul $3,%rax,%rax\ndec %rdi\njnz 1b\n"
	"add $24,%rsp\n.cfi_def_cfa rsp, 8\n"
	"ret\n.cfi_endproc\n.size asm_expression,.-asm_expression\n");

static void shape_asm(void)
{
	sink += asm_pushes(400) + asm_moved(400) + asm_expression(400);
}

/* ---- a frame that begins where a page does, above one that is not there ---- */

uint64_t asm_leaf(uint64_t n);
uint64_t asm_at_edge(uint64_t n); /* calls asm_leaf, whose frame is the 8 bytes at 8 in its page */
__asm__(".text\n"
	".globl asm_leaf\n.type asm_leaf,@function\nasm_leaf:\n"
	".cfi_startproc\n"
	"xor %eax,%eax\n"
	"1: add %rdi,%rax\nimul $3,%rax,%rax\ndec %rdi\njnz 1b\n"
	"ret\n.cfi_endproc\n.size asm_leaf,.-asm_leaf\n"

	".globl asm_at_edge\n.type asm_at_edge,@function\nasm_at_edge:\n"
	".cfi_startproc\n"
	"push %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbp, 0\n"
	"mov %rsp,%rbp\n.cfi_def_cfa_register rbp\n"
	"and $-4096,%rsp\nsub $4080,%rsp\n"
	"mov %rdi,64(%rsp)\n"
	/* madvise(the page below, 4096, MADV_DONTNEED) */
	"mov $28,%eax\nlea -4112(%rsp),%rdi\nmov $4096,%esi\nmov $4,%edx\nsyscall\n"
	"mov 64(%rsp),%rdi\n"
	"call asm_leaf\n"
	"leave\n.cfi_def_cfa rsp, 8\n.cfi_restore rbp\n"
	"ret\n.cfi_endproc\n.size asm_at_edge,.-asm_at_edge\n");

static void shape_edge(void)
{
	sink += asm_at_edge(20000);
}

/* ---- the procedure linkage table ---- */

static void shape_plt(void)
{
	for (int64_t i = 0; i < 500; i++) {
		int64_t there;
		sink += (uint64_t)target_out(i, &there);
	}
}

/* As the entries of the table were before anything was bound, to have it bound again. */
static struct {
	uint64_t *got;
	uint64_t unbound;
} entries[256];
static size_t nentries;

static int first_object(struct dl_phdr_info *info, size_t size, void *bias)
{
	(void)size;
	*(uint64_t *)bias = info->dlpi_addr;
	return 1;
}

/* Before main, so before any binding of interest; a program that is bound at once has no such
 * entries that can be written. */
__attribute__((constructor)) static void note_entries(void)
{
	const Elf64_Rela *rela = NULL;
	uint64_t bytes = 0, bias = 0;
	dl_iterate_phdr(first_object, &bias);
	for (const Elf64_Dyn *d = _DYNAMIC; d->d_tag; d++) {
		if (d->d_tag == DT_JMPREL)
			rela = (const void *)d->d_un.d_ptr;
		if (d->d_tag == DT_PLTRELSZ)
			bytes = d->d_un.d_val;
		if (d->d_tag == DT_BIND_NOW ||
		    (d->d_tag == DT_FLAGS && d->d_un.d_val & DF_BIND_NOW))
			return;
	}
	for (size_t i = 0; rela && i < bytes / sizeof(*rela) && nentries < 256; i++) {
		uint64_t *got = (void *)(bias + rela[i].r_offset);
		entries[nentries].got = got;
		entries[nentries++].unbound = *got;
	}
}

static void shape_lazy(void)
{
	for (uint64_t i = 0; i < 30; i++) {
		for (size_t k = 0; k < nentries; k++)
			*entries[k].got = entries[k].unbound;
		sink += target_string("bound") + (uint64_t)getppid() + i;
	}
}

/* ---- frames aligned to more than the stack is ---- */

NOINLINE __attribute__((target("avx"))) static double align32(int depth, const double *from)
{
	double v[4] __attribute__((aligned(32)));
	__m256d x = _mm256_loadu_pd(from);
	for (int i = 0; i < 20; i++)
		x = _mm256_add_pd(x, _mm256_mul_pd(x, x));
	_mm256_store_pd(v, x);
	char *more = __builtin_alloca((size_t)depth * 8 + 8);
	more[0] = (char)depth;
	return depth ? align32(depth - 1, v) + more[0] : v[0];
}

NOINLINE static double align4096(int depth)
{
	double v[16] __attribute__((aligned(4096)));
	for (int i = 0; i < 16; i++)
		v[i] = (double)(depth + i);
	spin(10);
	sink += (uint64_t)v[depth % 16];
	return depth ? align4096(depth - 1) + v[3] : v[0];
}

static void shape_align(void)
{
	double from[4] = {0.1, 0.2, 0.3, 0.4};
	if (__builtin_cpu_supports("avx"))
		sink += (uint64_t)align32(6, from);
	sink += (uint64_t)align4096(5);
}

/* ---- what the kernel maps, and jumps ---- */

static void shape_vdso(void)
{
	struct timespec ts;
	for (int i = 0; i < 400; i++) {
		clock_gettime(CLOCK_MONOTONIC, &ts);
		sink += (uint64_t)ts.tv_nsec;
	}
}

static jmp_buf back;

NOINLINE static void jump(int depth)
{
	if (depth)
		jump(depth - 1);
	spin(10);
	if (!depth || sink & 1)
		longjmp(back, 1);
}

static void shape_longjmp(void)
{
	for (volatile int i = 0; i < 60; i = i + 1)
		if (!setjmp(back))
			jump(8);
}

NOINLINE static uint64_t choose(uint64_t n)
{
	switch (n % 11) {
	case 0:
		return target_string("chosen");
	case 1:
		spin(20);
		return 1;
	case 2:
		return recurse(2, n, 1);
	case 3:
		__builtin_trap();
	case 7:
		return fill(__builtin_alloca(64), 64, 2);
	default:
		return n * 3;
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void shape_callback(void)
{
	uint64_t v[200];
	for (uint64_t i = 0; i < 200; i++)
		v[i] = i * 2654435761u % 1009 + (i % 11 == 3 ? 0 : choose(i));
	qsort(v, 200, sizeof(*v), compare);
	sink += v[0];
}

static void *in_thread(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++) {
		shape_recurse();
		shape_callback();
	}
	return NULL;
}

static void shape_thread(void)
{
	pthread_t t;
	if (pthread_create(&t, NULL, in_thread, NULL))
		exit(1);
	pthread_join(t, NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
} shapes[] = {
	{"alloca", shape_alloca},     {"recurse", shape_recurse}, {"signal", shape_signal},
	{"altstack", shape_altstack}, {"tick", shape_tick},	  {"asm", shape_asm},
	{"plt", shape_plt},	      {"lazy", shape_lazy},	  {"align", shape_align},
	{"edge", shape_edge},	      {"vdso", shape_vdso},	  {"longjmp", shape_longjmp},
	{"callback", shape_callback}, {"thread", shape_thread},	  {"deep", shape_deep},
};

static int is_wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return 1;
	return argc < 2 && strcmp(name, "deep") != 0;
}

int main(int argc, char **argv)
{
	for (;;)
		for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
			if (is_wanted(shapes[i].name, argc, argv))
				shapes[i].run();
}
