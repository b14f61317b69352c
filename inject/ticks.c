/* ticks.c - whether the counter can be used, and its line to CLOCK_MONOTONIC. */
#include "ticks.h"

#include <cpuid.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define POWER_LEAF    0x80000007 /* "Advanced Power Management": EDX bit 8 */
#define INVARIANT_TSC (1u << 8)

bool ticks_are_counted;

uint64_t ticks_monotonic_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

/* Linux uses the counter itself, having seen that it agrees between processors. */
static bool linux_trusts_it(void)
{
	char source[32] = "";
	FILE *f = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
	if (!f)
		return false;
	bool read = fgets(source, sizeof(source), f) != NULL;
	fclose(f);
	return read && (!strcmp(source, "tsc\n") || !strcmp(source, "kvm-clock\n"));
}

void ticks_choose(void)
{
	unsigned a, b, c, d = 0;
	ticks_are_counted =
		__get_cpuid(POWER_LEAF, &a, &b, &c, &d) && d & INVARIANT_TSC && linux_trusts_it();
}

struct ticks_pair ticks_pair_now(void)
{
	struct ticks_pair best = {0};
	uint64_t narrowest = UINT64_MAX;
	for (int i = 0; i < 4; i++) {
		uint64_t before = ticks_now(), ns = ticks_monotonic_ns(), after = ticks_now();
		if (after - before >= narrowest)
			continue;
		narrowest = after - before;
		best = (struct ticks_pair){before + narrowest / 2, ns};
	}
	return best;
}

uint64_t ticks_to_ns(const struct ticks_pair *a, const struct ticks_pair *b, uint64_t ticks)
{
	if (b->ticks <= a->ticks)
		return b->ns;
	double rate = (double)(b->ns - a->ns) / (double)(b->ticks - a->ticks);
	return b->ns + (uint64_t)(int64_t)((double)(int64_t)(ticks - b->ticks) * rate);
}
