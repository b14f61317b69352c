/* gate.h - how others come into the shim's code, and how it is known that they have left it: it
 * may be unloaded.
 *
 * A function that CUPTI calls is one in assembly, which calls ours and then jumps to sem_post(3):
 * the count that says that a thread has left is raised in libc, which stays. Those that are called
 * too often for that say with a plain store that they are in: torch_ops.c takes them away first,
 * waits until nobody is in them, and gives 0.2 s to who is between that store and their end. */
#pragma once

#include <stdbool.h>

/* Defines name_of_function_gate, to be called as the function, which returns nothing, has at most
 * six arguments and begins with gate_enter(). */
#define GATE(function)                                                                             \
	__asm__(".pushsection .text\n"                                                             \
		".type " #function "_gate, @function\n" #function "_gate:\n"                       \
		"	sub	$8, %rsp\n"                                                                  \
		"	call	" #function "\n"                                                   \
		"	add	$8, %rsp\n"                                                                  \
		"	lea	gate_left(%rip), %rdi\n"                                                     \
		"	jmp	*sem_post@GOTPCREL(%rip)\n"                                                  \
		".size " #function "_gate, . - " #function "_gate\n"                               \
		".popsection\n");

void gate_enter(void);

/* Waits until all have left that have entered, and gives those time that are about to. False
 * when somebody does not leave. */
bool gate_wait(void);
