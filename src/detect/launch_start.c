/* launch_start.c - windows at the beginning of launches. */
#include "detect/launch_start.h"

#include <stdbool.h>

#define QUICK_WINDOWS 3
#define SLOW	      0.105 /* -ln 0.9 */

static uint64_t start_of(const struct paced *w, size_t len, uint64_t window_ns)
{
	double usual = paced_usual(w, len);
	size_t quick = 0, i = 0;
	if (w[0].ln_pace > usual - SLOW)
		return 0;
	for (; i < len && quick < QUICK_WINDOWS; i++) {
		bool follows = !i || w[i].start_ns <= w[i - 1].start_ns + window_ns;
		quick = w[i].ln_pace > usual - SLOW ? follows * quick + 1 : 0;
	}
	uint64_t took =
		quick < QUICK_WINDOWS ? UINT64_MAX : w[i - QUICK_WINDOWS].start_ns - w[0].start_ns;
	return took <= LAUNCH_START_MOST_NS ? took : 0;
}

uint64_t launch_start_ns(const struct paced *windows, size_t n, uint64_t window_ns)
{
	uint64_t longest = 0;
	for (size_t i = 0, len; i < n; i += len) {
		len = paced_launch(windows + i, n - i);
		uint64_t took = start_of(windows + i, len, window_ns);
		longest = took > longest ? took : longest;
	}
	return longest;
}

size_t launch_start_leave_out(struct paced *windows, size_t n, uint64_t start_ns)
{
	size_t kept = 0;
	for (size_t i = 0, len; i < n; i += len) {
		uint64_t first_ns = windows[i].start_ns;
		len = paced_launch(windows + i, n - i);
		for (size_t k = i; k < i + len; k++)
			if (windows[k].start_ns >= first_ns + start_ns)
				windows[kept++] = windows[k];
	}
	return kept;
}
