/* guest_open.c - makes and removes the folder through which a process is given the CUPTI shim
 * (src/collect/guest.h), many times; before that, removes those that were left behind.
 *
 * usage: guest_open PID SHIM TIMES
 * Prints "opened N failed N" and what was said of the last that failed. */
#include <stdio.h>
#include <stdlib.h>

#include "collect/guest.h"

int main(int argc, char **argv)
{
	struct err e = {0};
	unsigned opened = 0, failed = 0;
	if (argc != 4)
		return 2;
	guest_clean_up();
	for (int i = 0; i < atoi(argv[3]); i++) {
		struct guest *g;
		if (guest_open(&g, atoi(argv[1]), argv[2], GUEST_RING, &e)) {
			failed++;
			continue;
		}
		opened++;
		guest_close(g);
	}
	printf("opened %u failed %u\n%s\n", opened, failed, e.msg);
	return 0;
}
