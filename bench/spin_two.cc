/* spin_two.cc - the function that spin_inside calls, in a library: it has two arguments, and begins
 * with `push` and then with what the place of a jump can be taken from, as most compiled functions
 * do. */
long spin_two(long, long);

__asm__(".text\n"
	".globl _Z8spin_twoll\n.type _Z8spin_twoll,@function\n_Z8spin_twoll:\n"
	".cfi_startproc\n"
	"push %rbx\n"
	".cfi_adjust_cfa_offset 8\n.cfi_rel_offset %rbx,0\n"
	"mov %rdi,%rbx\nlea (%rdi,%rsi),%rax\nimul %rsi,%rbx\nxor %rbx,%rax\n"
	"pop %rbx\n"
	".cfi_adjust_cfa_offset -8\n.cfi_restore %rbx\n"
	"ret\n"
	".cfi_endproc\n"
	".size _Z8spin_twoll,.-_Z8spin_twoll\n");
