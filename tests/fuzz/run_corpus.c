/* run_corpus.c - runs one fuzz target over its corpus as an ordinary test.
 *
 * usage: NAME_fuzz CORPUS_FOLDER
 *
 * Linked with a *_fuzz.c in place of libFuzzer: each file of the folder is one TAP test, in the
 * order of their names. It finds nothing new (tests/fuzz/run.sh does); it keeps what was found.
 * A target reports a finding by abort(), so the file at work is named before it runs. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_input(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* Its own block of exactly the file's size: a read beyond the end is seen by the sanitizer. */
static uint8_t *read_file(const char *folder, const char *name, size_t *ret_size)
{
	char path[4096];
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
		return NULL;
	FILE *file = fopen(path, "rb");
	if (!file)
		return NULL;
	uint8_t *data = NULL;
	long size = -1;
	if (!fseek(file, 0, SEEK_END) && (size = ftell(file)) >= 0 && !fseek(file, 0, SEEK_SET))
		data = malloc(size ? (size_t)size : 1);
	if (data && fread(data, 1, (size_t)size, file) != (size_t)size) {
		free(data);
		data = NULL;
	}
	fclose(file);
	if (data)
		*ret_size = (size_t)size;
	return data;
}

int main(int argc, char **argv)
{
	struct dirent **names = NULL;
	int n = argc == 2 ? scandir(argv[1], &names, is_input, alphasort) : -1;
	if (n <= 0) {
		printf("Bail out! usage: %s CORPUS_FOLDER, a folder with files\n", argv[0]);
		return 1;
	}
	printf("1..%d\n", n);
	int failed = 0;
	for (int i = 0; i < n; i++) {
		size_t size = 0;
		uint8_t *data = read_file(argv[1], names[i]->d_name, &size);
		printf("# %s\n", names[i]->d_name);
		fflush(stdout);
		if (data)
			LLVMFuzzerTestOneInput(data, size);
		else
			failed++;
		printf("%s %d - %s\n", data ? "ok" : "not ok", i + 1, names[i]->d_name);
		free(data);
		free(names[i]);
	}
	free(names);
	return failed != 0;
}
