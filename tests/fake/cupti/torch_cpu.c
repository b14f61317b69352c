/* torch_cpu.c - a libtorch_cpu.so of an interface that nobody knows. */
int torch_of_another_kind(void);

int torch_of_another_kind(void)
{
	return 0;
}
