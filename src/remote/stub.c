/* stub.c - the stub, in assembly, and the table behind it through which it finds everything.
 *
 * First piece: saves all that a function's entry may hold (general registers, flags, x87 and SSE
 * state: no function of C is given more in registers, but in the upper halves of vectors, which
 * pointers and numbers do not use), blocks all signals, so that the new thread has none, starts
 * it, and puts everything back. It stays below the red zone. Second piece: dlopen, dlsym, and a
 * jump into the library, so that nothing returns here. Where one of them fails, what dlerror says
 * is copied: its text goes with the thread. */
#include "remote/stub.h"

#include <stddef.h>

struct stub_table {
	uint64_t back; /* where the thread goes on */
	uint64_t words;
	uint64_t pthread_create, pthread_detach, dlopen, dlsym, dlerror;
	uint64_t library, entry, argument;
	uint64_t strdup;
};

_Static_assert(offsetof(struct stub_table, words) == 8 &&
		       offsetof(struct stub_table, pthread_create) == 16 &&
		       offsetof(struct stub_table, pthread_detach) == 24 &&
		       offsetof(struct stub_table, dlopen) == 32 &&
		       offsetof(struct stub_table, dlsym) == 40 &&
		       offsetof(struct stub_table, dlerror) == 48 &&
		       offsetof(struct stub_table, library) == 56 &&
		       offsetof(struct stub_table, entry) == 64 &&
		       offsetof(struct stub_table, argument) == 72 &&
		       offsetof(struct stub_table, strdup) == 80 && sizeof(struct stub_table) == 88,
	       "as the assembly has it");
_Static_assert(offsetof(struct stub_words, begun) == 24 &&
		       offsetof(struct stub_words, entered) == 32 &&
		       offsetof(struct stub_words, error) == 40,
	       "as the assembly has it");

extern const uint8_t remote_stub[], remote_stub_end[];

/* 14 is rt_sigprocmask, 2 SIG_SETMASK and RTLD_NOW. On the aligned stack: 0 to 512 the state of
 * x87 and SSE, 512 the new mask, 520 the old one, 528 the pthread_t. */
__asm__(".pushsection .rodata\n"
	".balign 16\n"
	".type remote_stub, @object\n"
	"remote_stub:\n"
	"	lea	-256(%rsp), %rsp\n"
	"	pushfq\n"
	"	push	%rax\n"
	"	push	%rbx\n"
	"	push	%rcx\n"
	"	push	%rdx\n"
	"	push	%rsi\n"
	"	push	%rdi\n"
	"	push	%rbp\n"
	"	push	%r8\n"
	"	push	%r9\n"
	"	push	%r10\n"
	"	push	%r11\n"
	"	mov	%rsp, %rbp\n"
	"	sub	$576, %rsp\n"
	"	and	$-64, %rsp\n"
	"	cld\n"
	"	fxsave64 (%rsp)\n"
	"	movq	$-1, 512(%rsp)\n"
	"	mov	$2, %edi\n"
	"	lea	512(%rsp), %rsi\n"
	"	lea	520(%rsp), %rdx\n"
	"	mov	$8, %r10d\n"
	"	mov	$14, %eax\n"
	"	syscall\n"
	"	lea	528(%rsp), %rdi\n"
	"	xor	%esi, %esi\n"
	"	lea	1f(%rip), %rdx\n"
	"	xor	%ecx, %ecx\n"
	"	call	*9f+16(%rip)\n"
	"	mov	%eax, %ebx\n"
	"	test	%eax, %eax\n"
	"	jnz	2f\n"
	"	mov	528(%rsp), %rdi\n"
	"	call	*9f+24(%rip)\n"
	"2:	mov	$2, %edi\n"
	"	lea	520(%rsp), %rsi\n"
	"	xor	%edx, %edx\n"
	"	mov	$8, %r10d\n"
	"	mov	$14, %eax\n"
	"	syscall\n"
	"	mov	9f+8(%rip), %rax\n"
	"	inc	%rbx\n"
	"	mov	%rbx, 24(%rax)\n"
	"	fxrstor64 (%rsp)\n"
	"	mov	%rbp, %rsp\n"
	"	pop	%r11\n"
	"	pop	%r10\n"
	"	pop	%r9\n"
	"	pop	%r8\n"
	"	pop	%rbp\n"
	"	pop	%rdi\n"
	"	pop	%rsi\n"
	"	pop	%rdx\n"
	"	pop	%rcx\n"
	"	pop	%rbx\n"
	"	pop	%rax\n"
	"	popfq\n"
	"	lea	256(%rsp), %rsp\n"
	"	jmp	*9f(%rip)\n"
	"1:	push	%rbx\n"
	"	mov	9f+56(%rip), %rdi\n"
	"	mov	$2, %esi\n"
	"	call	*9f+32(%rip)\n"
	"	mov	%rax, %rbx\n"
	"	test	%rax, %rax\n"
	"	jz	3f\n"
	"	mov	%rax, %rdi\n"
	"	mov	9f+64(%rip), %rsi\n"
	"	call	*9f+40(%rip)\n"
	"	test	%rax, %rax\n"
	"	jz	3f\n"
	"	mov	9f+72(%rip), %rdi\n"
	"	mov	%rbx, %rsi\n"
	"	mov	9f+8(%rip), %rdx\n"
	"	lea	32(%rdx), %rdx\n"
	"	pop	%rbx\n"
	"	jmp	*%rax\n"
	"3:	call	*9f+48(%rip)\n"
	"	test	%rax, %rax\n"
	"	jz	4f\n"
	"	mov	%rax, %rdi\n"
	"	call	*9f+80(%rip)\n"
	"4:	mov	9f+8(%rip), %rcx\n"
	"	mov	%rax, 40(%rcx)\n"
	"	movq	$2, 32(%rcx)\n"
	"	xor	%eax, %eax\n"
	"	pop	%rbx\n"
	"	ret\n"
	"	.balign 8\n"
	"9:\n"
	"remote_stub_end:\n"
	".popsection\n");

static size_t code_bytes(void)
{
	/* cppcheck-suppress comparePointers ; both are of the assembly's one piece */
	return (size_t)(remote_stub_end - remote_stub);
}

size_t stub_return_offset(void)
{
	return code_bytes() + offsetof(struct stub_table, back);
}

static uint64_t add_text(struct buf *b, uint64_t code, const char *text)
{
	uint64_t at = code + b->len;
	buf_add(b, text, strlen(text) + 1);
	return at;
}

void stub_build(struct buf *ret, const struct stub_plan *plan)
{
	struct stub_table table = {
		.words = plan->words,
		.pthread_create = plan->pthread_create,
		.pthread_detach = plan->pthread_detach,
		.dlopen = plan->dlopen,
		.dlsym = plan->dlsym,
		.dlerror = plan->dlerror,
		.strdup = plan->strdup,
	};
	buf_add(ret, remote_stub, code_bytes());
	buf_add(ret, &table, sizeof(table));
	table.library = add_text(ret, plan->code, plan->library);
	table.entry = add_text(ret, plan->code, plan->entry);
	table.argument = add_text(ret, plan->code, plan->argument);
	memcpy(ret->data + code_bytes(), &table, sizeof(table));
}
