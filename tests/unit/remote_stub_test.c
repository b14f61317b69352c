/* remote_stub_test.c - the stub leaves all that a function's entry may hold as it was, and starts
 * a thread that gets to the library's entry: run in this process, over functions of its own.
 *
 * links: remote symbolize base */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "remote/remote.h"
#include "remote/stub.h"

/* Before the stub and after it, in the order of the assembly. */
struct registers {
	uint64_t general[15]; /* rax rbx rcx rdx rsi rdi rbp r8 to r15 */
	uint64_t rsp;
	uint64_t flags;
	uint8_t vectors[16][16];
	uint32_t mxcsr, pad;
};

/* The assembly knows these by name. */
extern struct registers before, after;
extern void *stub_address;
extern uint64_t red_zone;
struct registers before, after;
void *stub_address;
uint64_t red_zone;

static struct stub_words words;
static pthread_t created;
static int create_result, create_calls, detached;
static sigset_t mask_of_thread;
static int open_flags;
static char opened[64], looked_up[64], argument[64];

void run_stub(void);
extern const char run_stub_back[];

/* clang-format off */
#define EACH_VECTOR(F, base)                                                                       \
	F(0, base) F(1, base) F(2, base) F(3, base) F(4, base) F(5, base) F(6, base) F(7, base)    \
	F(8, base) F(9, base) F(10, base) F(11, base) F(12, base) F(13, base) F(14, base)          \
	F(15, base)
/* clang-format on */
#define LOAD(n, base)  "	movups	" #base "+136+16*" #n "(%rip), %xmm" #n "\n"
#define STORE(n, base) "	movups	%xmm" #n ", " #base "+136+16*" #n "(%rip)\n"

/* Sets every register, goes to the stub by a jump, as a thread that was redirected, and notes
 * what it comes back with. */
__asm__(".text\n"
	".globl run_stub\n"
	"run_stub:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n"
	"	push %r14\n	push %r15\n	sub $8, %rsp\n"
	"	mov	%rsp, before+120(%rip)\n"
	"	pushq	before+128(%rip)\n	popfq\n"
	"	ldmxcsr	before+392(%rip)\n" EACH_VECTOR(
		LOAD, before) "	mov before(%rip), %rax\n	mov before+8(%rip), %rbx\n"
			      "	mov before+16(%rip), %rcx\n	mov before+24(%rip), %rdx\n"
			      "	mov before+32(%rip), %rsi\n	mov before+40(%rip), %rdi\n"
			      "	mov before+48(%rip), %rbp\n	mov before+56(%rip), %r8\n"
			      "	mov before+64(%rip), %r9\n	mov before+72(%rip), %r10\n"
			      "	mov before+80(%rip), %r11\n	mov before+88(%rip), %r12\n"
			      "	mov before+96(%rip), %r13\n	mov before+104(%rip), %r14\n"
			      "	mov before+112(%rip), %r15\n"
			      "	movq	$0x5a5a5a5a, -128(%rsp)\n"
			      "	jmp	*stub_address(%rip)\n"
			      ".globl run_stub_back\n"
			      "run_stub_back:\n"
			      "	mov	%rsp, after+120(%rip)\n"
			      "	mov %rax, after(%rip)\n	mov %rbx, after+8(%rip)\n"
			      "	mov %rcx, after+16(%rip)\n	mov %rdx, after+24(%rip)\n"
			      "	mov %rsi, after+32(%rip)\n	mov %rdi, after+40(%rip)\n"
			      "	mov %rbp, after+48(%rip)\n	mov %r8, after+56(%rip)\n"
			      "	mov %r9, after+64(%rip)\n	mov %r10, after+72(%rip)\n"
			      "	mov %r11, after+80(%rip)\n	mov %r12, after+88(%rip)\n"
			      "	mov %r13, after+96(%rip)\n	mov %r14, after+104(%rip)\n"
			      "	mov %r15, after+112(%rip)\n"
			      "	mov	-128(%rsp), %rax\n" /* the red zone */
			      "	mov	%rax, red_zone(%rip)\n"
			      "	pushfq\n	popq	after+128(%rip)\n"
			      "	stmxcsr	after+392(%rip)\n" EACH_VECTOR(
				      STORE, after) "	cld\n"
						    "	add $8, %rsp\n	pop %r15\n	pop %r14\n"
						    "	pop %r13\n	pop %r12\n	pop "
						    "%rbp\n	pop %rbx\n"
						    "	ret\n");
uint64_t red_zone;
_Static_assert(offsetof(struct registers, rsp) == 120 && offsetof(struct registers, flags) == 128 &&
		       offsetof(struct registers, vectors) == 136 &&
		       offsetof(struct registers, mxcsr) == 392,
	       "as the assembly has it");

/* ---- what the stub calls ---- */

/* A function may change all of these. */
static void spoil_registers(void)
{
	unsigned mxcsr = 0x1f80;
	__asm__ volatile("xorps %%xmm0, %%xmm0\n pcmpeqd %%xmm1, %%xmm1\n pcmpeqd %%xmm7, %%xmm7\n"
			 "pcmpeqd %%xmm15, %%xmm15\n ldmxcsr %0\n xor %%r8, %%r8\n xor %%r9, %%r9\n"
			 "xor %%r10, %%r10\n xor %%r11, %%r11\n"
			 :
			 : "m"(mxcsr)
			 : "xmm0", "xmm1", "xmm7", "xmm15", "r8", "r9", "r10", "r11", "cc");
}

static int create(pthread_t *ret, const pthread_attr_t *attributes, void *(*start)(void *),
		  void *arg)
{
	assert_true((uintptr_t)__builtin_frame_address(0) % 16 == 0);
	create_calls++;
	int rc = create_result ? create_result : pthread_create(ret, attributes, start, arg);
	created = rc ? 0 : *ret;
	spoil_registers();
	return rc;
}

static int note_detach(pthread_t thread)
{
	detached += thread == created;
	return 0; /* joined by the test */
}

static void *entry(const char *text, void *handle, uint64_t *entered)
{
	pthread_sigmask(SIG_SETMASK, NULL, &mask_of_thread);
	snprintf(argument, sizeof(argument), "%s", text);
	*entered = handle == &words ? REMOTE_ENTERED : 99;
	return NULL;
}

static void *open_library(const char *path, int flags)
{
	snprintf(opened, sizeof(opened), "%s", path);
	open_flags = flags;
	return &words;
}

static void *open_nothing(const char *path, int flags)
{
	(void)path, (void)flags;
	return NULL;
}

static void *look_up(void *handle, const char *name)
{
	(void)handle;
	snprintf(looked_up, sizeof(looked_up), "%s", name);
	void *(*f)(const char *, void *, uint64_t *) = entry;
	return *(void **)&f;
}

/* As glibc's, it does not outlive the thread. */
static __thread char reason[32];

static char *why(void)
{
	strcpy(reason, "no such file");
	return reason;
}

/* ---- */

static void set_registers(void)
{
	for (int i = 0; i < 15; i++)
		before.general[i] = 0x1111111111111111ULL * (unsigned)(i + 1);
	memset(before.vectors, 0x77, sizeof(before.vectors));
	for (int i = 0; i < 16; i++)
		before.vectors[i][i] = (uint8_t)i;
	before.flags = 0x202 | 0x400 | 0x1 | 0x40; /* direction, carry, zero */
	before.mxcsr = 0x1f80 | 0x6000;		   /* rounding towards zero */
}

static void go(void *(*open_fn)(const char *, int))
{
	struct stub_plan plan = {.words = (uintptr_t)&words,
				 .pthread_create = (uintptr_t)create,
				 .pthread_detach = (uintptr_t)note_detach,
				 .dlopen = (uintptr_t)open_fn,
				 .dlsym = (uintptr_t)look_up,
				 .dlerror = (uintptr_t)why,
				 .strdup = (uintptr_t)strdup,
				 .library = "/a/library.so",
				 .entry = "its_entry",
				 .argument = "an argument"};
	struct buf stub = {0};
	uint64_t back = (uintptr_t)run_stub_back;
	sigset_t mask, mask_after;
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(code, MAP_FAILED);
	plan.code = (uintptr_t)code;
	stub_build(&stub, &plan);
	assert_true(stub.len < 1024);
	memcpy(stub.data + stub_return_offset(), &back, sizeof(back));
	memcpy(code, stub.data, stub.len);
	stub_address = code;
	words = (struct stub_words){.magic = STUB_MAGIC};
	created = 0;
	create_calls = detached = 0;
	set_registers();
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	run_stub();
	if (created)
		pthread_join(created, NULL);
	pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
	assert_memory_equal(&mask, &mask_after, 8); /* what the kernel has of it */
	before.rsp = after.rsp = before.rsp == after.rsp ? before.rsp : 1;
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(red_zone, 0x5a5a5a5a);
	assert_int_equal(create_calls, 1);
	buf_free(&stub);
	munmap(code, 4096);
}

static void test_thread_gets_to_the_entry(void **state)
{
	(void)state;
	create_result = 0;
	go(open_library);
	assert_int_equal(words.begun, 1);
	assert_int_equal(words.entered, REMOTE_ENTERED);
	assert_int_equal(detached, 1);
	assert_string_equal(opened, "/a/library.so");
	assert_int_equal(open_flags, 2); /* RTLD_NOW */
	assert_string_equal(looked_up, "its_entry");
	assert_string_equal(argument, "an argument");
	for (int i = 1; i < 32; i++)
		if (i != SIGKILL && i != SIGSTOP)
			assert_true(sigismember(&mask_of_thread, i));
}

static void test_library_does_not_load(void **state)
{
	(void)state;
	create_result = 0;
	go(open_nothing);
	assert_int_equal(words.begun, 1);
	assert_int_equal(words.entered, STUB_FAILED);
	assert_string_equal((char *)(uintptr_t)words.error, "no such file");
	free((void *)(uintptr_t)words.error);
}

static void test_no_thread(void **state)
{
	(void)state;
	create_result = 11;
	go(open_library);
	assert_int_equal(words.begun, 12);
	assert_int_equal(words.entered, 0);
	assert_int_equal(detached, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_thread_gets_to_the_entry),
		cmocka_unit_test(test_library_does_not_load),
		cmocka_unit_test(test_no_thread),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
