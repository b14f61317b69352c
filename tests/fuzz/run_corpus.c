/* run_corpus.c - runs one fuzz target over its corpus as an ordinary test, or over changed copies
 * of it for tests/fuzz/campaign.py.
 *
 * usage: NAME_fuzz CORPUS_FOLDER
 *        NAME_fuzz CORPUS_FOLDER SEED FIRST COUNT PROGRESS_FILE
 *
 * Linked with a *_fuzz.c in place of libFuzzer. The first way each file of the folder is one TAP
 * test, in the order of their names: it finds nothing new (tests/fuzz/run.sh does), it keeps what
 * was found. A target reports a finding by abort(), so the file at work is named before it runs.
 *
 * The second way inputs FIRST to FIRST + COUNT - 1 of a seed are made of the files (mutate.c), and
 * the number of the one at work is in the progress file, with the longest time that one took. Input
 * N is the same however many are run before it. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What campaign.py reads, also after the end of this process. */
struct progress {
	uint64_t input;
	uint64_t slowest_ns;
	uint64_t slowest_input;
};

#define LIMIT_S 10

static int is_input(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int read_file(struct buf *ret, const char *folder, const char *name)
{
	char path[4096];
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
		return -1;
	FILE *file = fopen(path, "rb");
	if (!file)
		return -1;
	uint8_t part[4096];
	for (size_t n; (n = fread(part, 1, sizeof(part), file)) > 0;)
		buf_add(ret, part, n);
	fclose(file);
	return 0;
}

/* In a block of exactly its size: a read beyond the end is seen by the sanitizer. */
static void run(const struct buf *input)
{
	uint8_t *data = malloc(input->len ? input->len : 1);
	if (!data)
		abort();
	if (input->len)
		memcpy(data, input->data, input->len);
	LLVMFuzzerTestOneInput(data, input->len);
	free(data);
}

static int run_files(const char *folder, struct dirent **names, int n)
{
	int failed = 0;
	printf("1..%d\n", n);
	for (int i = 0; i < n; i++) {
		struct buf input = {0};
		int bad = read_file(&input, folder, names[i]->d_name);
		printf("# %s\n", names[i]->d_name);
		fflush(stdout);
		if (!bad)
			run(&input);
		failed |= bad;
		printf("%s %d - %s\n", bad ? "not ok" : "ok", i + 1, names[i]->d_name);
		buf_free(&input);
	}
	return failed != 0;
}

static struct progress *open_progress(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct progress)))
		return NULL;
	void *p = mmap(NULL, sizeof(struct progress), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int run_changed(const char *folder, struct dirent **names, int n, char **args)
{
	uint64_t seed = strtoull(args[0], NULL, 10), first = strtoull(args[1], NULL, 10);
	uint64_t last = first + strtoull(args[2], NULL, 10);
	struct progress *p = open_progress(args[3]);
	struct buf *files = xcalloc((size_t)n, sizeof(*files)), input = {0};
	if (!p)
		return 1;
	for (int i = 0; i < n; i++)
		read_file(&files[i], folder, names[i]->d_name);
	for (uint64_t i = first; i < last; i++) {
		uint64_t random = seed + i * 0x9e3779b97f4a7c15ULL, start = now_ns();
		const struct buf *one = &files[random_next(&random) % (uint64_t)n];
		mutate(&input, one, &files[random_next(&random) % (uint64_t)n], &random);
		p->input = i;
		alarm(4 * LIMIT_S); /* campaign.py judges by CPU time: others work here too */
		run(&input);
		if (now_ns() - start > p->slowest_ns) {
			p->slowest_ns = now_ns() - start;
			p->slowest_input = i;
		}
	}
	for (int i = 0; i < n; i++)
		buf_free(&files[i]);
	free(files);
	buf_free(&input);
	return 0;
}

int main(int argc, char **argv)
{
	struct dirent **names = NULL;
	int n = argc == 2 || argc == 6 ? scandir(argv[1], &names, is_input, alphasort) : -1;
	if (n <= 0) {
		printf("Bail out! usage: %s CORPUS_FOLDER [SEED FIRST COUNT PROGRESS_FILE]\n",
		       argv[0]);
		return 1;
	}
	int rc =
		argc == 2 ? run_files(argv[1], names, n) : run_changed(argv[1], names, n, argv + 2);
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return rc;
}
