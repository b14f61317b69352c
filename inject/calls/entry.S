/* entry.S - the way into a probed function and out of it again. An island of the function
 * (wire/call_ring.h) comes here by a jump, with the site in r11 and everything else as the function
 * was entered: a frame is made, calls_enter() looks at the call, the function is called, as its
 * caller would, and calls_leave() sees it return.
 *
 * The function is called, not jumped to, and no return address is changed: whoever unwinds finds an
 * ordinary frame, with rules (.eh_frame) that never change, exceptions and longjmp(3) go through
 * it, and every return goes where its call came from (shadow stacks, the processor's prediction).
 * What it costs is that arguments on the stack are copied below the frame.
 *
 * calls_enter() and calls_leave() touch no vector registers: arguments and results in them stay. */
#include "entry.h"

	.text
	.p2align 6
	.globl eacgm_call_entry
	.type eacgm_call_entry, @function
eacgm_call_entry:
	.cfi_startproc
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
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
	jle	3f
0:	movzwl	SITE_STACK_WORDS(%r11), %eax
	test	%eax, %eax
	jz	2f
	/* so that the function finds them right above its return address */
	mov	%rax, %rcx
	shl	$3, %rcx
	sub	%rcx, %rsp
1:	mov	8(%rbp,%rax,8), %r10
	mov	%r10, -8(%rsp,%rax,8)
	dec	%eax
	jnz	1b
2:	mov	FRAME_ARGS+0-FRAME_SAVED(%rbp), %rdi
	mov	FRAME_ARGS+8-FRAME_SAVED(%rbp), %rsi
	mov	FRAME_ARGS+16-FRAME_SAVED(%rbp), %rdx
	mov	FRAME_ARGS+24-FRAME_SAVED(%rbp), %rcx
	mov	FRAME_ARGS+32-FRAME_SAVED(%rbp), %r8
	mov	FRAME_ARGS+40-FRAME_SAVED(%rbp), %r9
	mov	FRAME_RAX-FRAME_SAVED(%rbp), %rax
	mov	FRAME_R10-FRAME_SAVED(%rbp), %r10
	call	*(%r11)
	mov	%rax, FRAME_RESULT+0-FRAME_SAVED(%rbp)
	mov	%rdx, FRAME_RESULT+8-FRAME_SAVED(%rbp)
	lea	-FRAME_SAVED(%rbp), %rsp
	mov	%rsp, %rdi
	call	calls_leave
	mov	FRAME_RESULT+0(%rsp), %rax
	mov	FRAME_RESULT+8(%rsp), %rdx
	leave
	.cfi_remember_state
	.cfi_def_cfa %rsp, 8
	ret
3:	.cfi_restore_state
	jz	4f
	/* its stack is to be taken, as the function was entered */
	mov	SITE_FUNCTION(%r11), %rdi
	lea	FRAME_RETURN(%rsp), %rsi
	mov	FRAME_SAVED(%rsp), %rdx
	mov	FRAME_RESULT(%rsp), %rcx
	call	eacgm_call_stack
	mov	FRAME_SITE(%rsp), %r11
	jmp	0b
	/* it is not recorded: as if we had not been here */
4:
	mov	FRAME_ARGS+0(%rsp), %rdi
	mov	FRAME_ARGS+8(%rsp), %rsi
	mov	FRAME_ARGS+16(%rsp), %rdx
	mov	FRAME_ARGS+24(%rsp), %rcx
	mov	FRAME_ARGS+32(%rsp), %r8
	mov	FRAME_ARGS+40(%rsp), %r9
	mov	FRAME_RAX(%rsp), %rax
	mov	FRAME_R10(%rsp), %r10
	leave
	.cfi_def_cfa %rsp, 8
	jmp	*(%r11)
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

/* Calls calls_begin_thread(), which calls libc: what that may change of the registers of vectors
 * that hold arguments is kept. */
	.p2align 4
	.globl calls_begin_thread_apart
	.hidden calls_begin_thread_apart
	.type calls_begin_thread_apart, @function
calls_begin_thread_apart:
	.cfi_startproc
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	sub	$128, %rsp
	movups	%xmm0, 0(%rsp)
	movups	%xmm1, 16(%rsp)
	movups	%xmm2, 32(%rsp)
	movups	%xmm3, 48(%rsp)
	movups	%xmm4, 64(%rsp)
	movups	%xmm5, 80(%rsp)
	movups	%xmm6, 96(%rsp)
	movups	%xmm7, 112(%rsp)
	call	calls_begin_thread
	movups	0(%rsp), %xmm0
	movups	16(%rsp), %xmm1
	movups	32(%rsp), %xmm2
	movups	48(%rsp), %xmm3
	movups	64(%rsp), %xmm4
	movups	80(%rsp), %xmm5
	movups	96(%rsp), %xmm6
	movups	112(%rsp), %xmm7
	leave
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size calls_begin_thread_apart, . - calls_begin_thread_apart

/* Room for islands, of int3 until eacgm writes one. */
	.p2align 12
	.globl eacgm_call_islands
	.type eacgm_call_islands, @function
eacgm_call_islands:
	.fill	CALL_ISLANDS_BYTES, 1, 0xcc
	.size eacgm_call_islands, . - eacgm_call_islands
	.section .note.GNU-stack, "", @progbits
