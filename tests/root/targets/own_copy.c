/* own_copy.c - uses libtarget.so, and calls a function of its own in the place of one that is
 * there: the program's is bound first. */
#include <stdint.h>
#include <stdio.h>

#include "target.h"

__attribute__((visibility("default"))) uint64_t target_push(uint64_t a)
{
	return a + 1;
}

int main(void)
{
	uint64_t sum = target_nop(0);
	for (uint64_t i = 0; i < 100; i++)
		sum += target_push(i);
	printf("%llu\n", (unsigned long long)sum);
	return 0;
}
