/* unwind_build.c - how long it takes to compile the unwind rules of files, and what they come to.
 *
 * Prints a line per file: size of its tables, and the best of five times. Files are read from
 * the page cache.
 *
 *   usage: unwind_build FILE... */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "symbolize/unwind_table.h"

#define ROUNDS 5

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static int measure(const char *path)
{
	struct unwind_table_stats stats;
	struct unwind_table table;
	struct elf_file *f;
	double best_ms = 1e9;
	uint32_t nrules = 0;
	size_t bytes = 0;
	struct err e;

	if (elf_file_open(&f, path, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		return 1;
	}
	for (int i = 0; i < ROUNDS; i++) {
		double start_ms = now_ms(), took_ms;

		if (unwind_table_build(f, &table, &stats, &e) < 0) {
			fprintf(stderr, "%s: %s\n", path, e.msg);
			elf_file_close(f);
			return 1;
		}
		took_ms = now_ms() - start_ms;
		best_ms = took_ms < best_ms ? took_ms : best_ms;
		nrules = ((const struct unwind_table_head *)table.words)->nrules;
		bytes = table.len * sizeof(*table.words);
		if (unwind_table_check(table.words, table.len, &e) < 0)
			fprintf(stderr, "%s: %s\n", path, e.msg);
		unwind_table_free(&table);
	}
	printf("%8.1f %8llu %9llu %6u %10zu %6llu %6llu  %s\n", best_ms,
	       (unsigned long long)stats.fdes, (unsigned long long)stats.rows, nrules, bytes,
	       (unsigned long long)stats.unsupported, (unsigned long long)stats.damaged, path);
	elf_file_close(f);
	return 0;
}

int main(int argc, char **argv)
{
	int failed = 0;

	printf("%8s %8s %9s %6s %10s %6s %6s  %s\n", "ms", "FDEs", "rows", "rules", "bytes",
	       "unsup.", "damag.", "file");
	for (int i = 1; i < argc; i++)
		failed |= measure(argv[i]);
	return failed;
}
