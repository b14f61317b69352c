/* short_lives.c - one process after another that lives for some milliseconds.
 *
 *   short_lives N   N times fork and exec of "short_lives", two at a time
 *   short_lives     sorts numbers: the C library calls back into the program
 *
 * Prints nothing. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBERS 30000

static int numbers[NUMBERS];

__attribute__((noinline)) static int compare_lives(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;
	return x < y ? -1 : x > y;
}

__attribute__((noinline)) static int live_shortly(void)
{
	unsigned seed = 1;
	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = rand_r(&seed);
	qsort(numbers, NUMBERS, sizeof(numbers[0]), compare_lives);
	return numbers[0];
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return live_shortly() < 0;
	int status, running = 0, bad = 0;
	for (int left = atoi(argv[1]); left > 0; left--) {
		if (running++ >= 2 && wait(&status) > 0)
			bad |= status;
		if (!fork()) {
			execl(argv[0], argv[0], (char *)NULL);
			_exit(99);
		}
	}
	while (wait(&status) > 0)
		bad |= status;
	return bad ? 98 : 0;
}
