/* entry.S - the way into a probed function and out of it again. An island of the function
 * (wire/call_ring.h) comes here by a jump, with the site in r11 and what was in r11 on the stack,
 * everything else as the function was entered: a frame is made, calls_enter() looks at the call, the
 * function is called, as its caller would, and calls_leave() sees it return.
 *
 * The function is called, not jumped to, and no return address is changed: whoever unwinds finds an
 * ordinary frame, with rules (.eh_frame) that never change, exceptions and longjmp(3) go through
 * it, and every return goes where its call came from (shadow stacks, the processor's prediction).
 * What it costs is that arguments on the stack are copied below the frame.
 *
 * Every register is, at the end, what the function has made of it: a caller that was compiled
 * together with it may know which it leaves alone (gcc's -fipa-ra). calls_enter() and calls_leave()
 * touch no vector registers. */
#include "entry.h"

	.text
	.p2align 6
	.globl eacgm_call_entry
	.type eacgm_call_entry, @function
eacgm_call_entry:
	.cfi_startproc
	.cfi_def_cfa_offset 16
	push	%rbp
	.cfi_def_cfa_offset 24
	.cfi_offset %rbp, -24
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	sub	$FRAME_SAVED, %rsp
	mov	%rdi, FRAME_ARGS+0(%rsp)
	mov	%rsi, FRAME_ARGS+8(%rsp)
	mov	%rdx, FRAME_ARGS+16(%rsp)
	mov	%rcx, FRAME_ARGS+24(%rsp)
	mov	%r8, FRAME_ARGS+32(%rsp)
	mov	%r9, FRAME_ARGS+40(%rsp)
	mov	%rax, FRAME_RAX(%rsp)
	mov	%r10, FRAME_R10(%rsp)
	mov	%r11, FRAME_SITE(%rsp)
	mov	%rsp, %rdi
	cld
	call	calls_enter
	mov	FRAME_SITE(%rsp), %r11
	test	%eax, %eax
	jns	1f
	/* its stack is to be taken, as the function was entered */
	mov	SITE_FUNCTION(%r11), %rdi
	lea	FRAME_RETURN(%rsp), %rsi
	mov	FRAME_SAVED(%rsp), %rdx
	mov	FRAME_RESULT(%rsp), %rcx
	call	eacgm_call_stack
	mov	FRAME_SITE(%rsp), %r11
1:	movzwl	SITE_STACK_WORDS(%r11), %eax
	test	%eax, %eax
	jz	3f
	/* so that the function finds them right above its return address */
	mov	%rax, %rcx
	shl	$3, %rcx
	sub	%rcx, %rsp
2:	mov	FRAME_STACK-8-FRAME_SAVED(%rbp,%rax,8), %r10
	mov	%r10, -8(%rsp,%rax,8)
	dec	%eax
	jnz	2b
3:	mov	FRAME_ARGS+0-FRAME_SAVED(%rbp), %rdi
	mov	FRAME_ARGS+8-FRAME_SAVED(%rbp), %rsi
	mov	FRAME_ARGS+16-FRAME_SAVED(%rbp), %rdx
	mov	FRAME_ARGS+24-FRAME_SAVED(%rbp), %rcx
	mov	FRAME_ARGS+32-FRAME_SAVED(%rbp), %r8
	mov	FRAME_ARGS+40-FRAME_SAVED(%rbp), %r9
	mov	FRAME_RAX-FRAME_SAVED(%rbp), %rax
	mov	FRAME_R10-FRAME_SAVED(%rbp), %r10
	call	*(%r11)
	lea	-FRAME_SAVED(%rbp), %rsp
	cmpl	$0, FRAME_TOKEN(%rsp)
	je	4f
	/* arguments are not asked for any more: their places keep what is returned beside a result */
	mov	%rax, FRAME_RESULT+0(%rsp)
	mov	%rdx, FRAME_RESULT+8(%rsp)
	mov	%rdi, FRAME_ARGS+0(%rsp)
	mov	%rsi, FRAME_ARGS+8(%rsp)
	mov	%rcx, FRAME_ARGS+24(%rsp)
	mov	%r8, FRAME_ARGS+32(%rsp)
	mov	%r9, FRAME_ARGS+40(%rsp)
	mov	%r10, FRAME_R10(%rsp)
	mov	%rsp, %rdi
	call	calls_leave
	mov	FRAME_RESULT+0(%rsp), %rax
	mov	FRAME_RESULT+8(%rsp), %rdx
	mov	FRAME_ARGS+0(%rsp), %rdi
	mov	FRAME_ARGS+8(%rsp), %rsi
	mov	FRAME_ARGS+24(%rsp), %rcx
	mov	FRAME_ARGS+32(%rsp), %r8
	mov	FRAME_ARGS+40(%rsp), %r9
	mov	FRAME_R10(%rsp), %r10
4:	leave
	.cfi_def_cfa %rsp, 16
	pop	%r11
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size eacgm_call_entry, . - eacgm_call_entry

/* Where eacgm takes stacks, by a uprobe: registers that a function leaves as they are still have
 * what they had when the probed one was entered. */
	.p2align 4
	.globl eacgm_call_stack
	.type eacgm_call_stack, @function
eacgm_call_stack:
	.cfi_startproc
	nop
	ret
	.cfi_endproc
	.size eacgm_call_stack, . - eacgm_call_stack

/* void calls_text_place(uint64_t key, uint64_t value, uint64_t how): where eacgm reads texts, by a
 * uprobe, under the library's own name for it. */
	.p2align 4
	.globl eacgm_call_text
	.type eacgm_call_text, @function
	.globl calls_text_place
	.hidden calls_text_place
eacgm_call_text:
calls_text_place:
	.cfi_startproc
	nop
	ret
	.cfi_endproc
	.size eacgm_call_text, . - eacgm_call_text

/* void calls_apart(void (*function)(void *), void *argument, bool has_xsave): calls what may use
 * the registers of vectors, which hold the job's arguments and results: they are kept, but for those
 * of matrices (AMX), which nobody passes. */
	.p2align 4
	.globl calls_apart
	.hidden calls_apart
	.type calls_apart, @function
calls_apart:
	.cfi_startproc
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	push	%rbx
	.cfi_offset %rbx, -24
	mov	%edx, %ebx
	sub	$XSAVE_BYTES, %rsp
	and	$-64, %rsp
	mov	%rdi, %rcx
	test	%ebx, %ebx
	jz	1f
	xor	%eax, %eax
	.irp	at, 512, 520, 528, 536, 544, 552, 560, 568
	mov	%rax, \at(%rsp)
	.endr
	mov	$XSAVE_PARTS, %eax
	xor	%edx, %edx
	xsave	(%rsp)
	mov	%rsi, %rdi
	call	*%rcx
	mov	$XSAVE_PARTS, %eax
	xor	%edx, %edx
	xrstor	(%rsp)
	jmp	2f
1:	fxsave	(%rsp)
	mov	%rsi, %rdi
	call	*%rcx
	fxrstor	(%rsp)
2:	mov	-8(%rbp), %rbx
	leave
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size calls_apart, . - calls_apart

/* Room for islands, of int3 until eacgm writes one. */
	.p2align 12
	.globl eacgm_call_islands
	.type eacgm_call_islands, @function
eacgm_call_islands:
	.fill	CALL_ISLANDS_BYTES, 1, 0xcc
	.size eacgm_call_islands, . - eacgm_call_islands
	.section .note.GNU-stack, "", @progbits
