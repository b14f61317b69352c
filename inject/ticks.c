/* ticks.c - whether the counter can be used. It calls nothing that allocates: it may run amid a
 * call of the job's. */
#include "ticks.h"

#include <cpuid.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define POWER_LEAF    0x80000007 /* "Advanced Power Management": EDX bit 8 */
#define INVARIANT_TSC (1u << 8)

bool ticks_are_counted;

/* Linux uses the counter itself, having seen that it agrees between processors. */
static bool linux_trusts_it(void)
{
	char source[32] = "";
	int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		      O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, source, sizeof(source) - 1);
	close(fd);
	return n > 0 && (!strcmp(source, "tsc\n") || !strcmp(source, "kvm-clock\n"));
}

void ticks_choose(void)
{
	unsigned a, b, c, d = 0;
	ticks_are_counted =
		__get_cpuid(POWER_LEAF, &a, &b, &c, &d) && d & INVARIANT_TSC && linux_trusts_it();
}
