/* command_line_fuzz.c - hostile command lines: what a program is called by them.
 *
 * The input is the words, a zero behind each, as in /proc/PID/cmdline. A name is the file name of a
 * word, or an interpreter's with "-m" and a module, or with the letter of an option: of no other
 * word anything, for it may be a secret.
 *
 * links: base */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/program_name.h"

#define WORDS_MOST 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

/* "python3 -c", "python3 -m pytest", both in the words. */
static bool is_option(const char *interpreter, const char *name)
{
	size_t len = strlen(interpreter);
	return !strncmp(name, interpreter, len) && !strncmp(name + len, " -", 2) && name[len + 2] &&
	       (!name[len + 3] || (name[len + 2] == 'm' && name[len + 3] == ' '));
}

static bool is_of(char *const *words, const char *name)
{
	for (; *words; words++) {
		const char *file = path_file_name(*words);
		if (!strcmp(file, name) ||
		    (program_is_interpreter(*words) && is_option(file, name)))
			return true;
	}
	return !*name;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *words[WORDS_MOST + 1] = {NULL}, *text = calloc(size + 1, 1);
	size_t n = 0;
	check(text != NULL);
	if (size)
		memcpy(text, data, size);
	for (char *at = text; at < text + size && n < WORDS_MOST; at += strlen(at) + 1)
		words[n++] = at;
	char *name = program_name_of(words), *script = program_script_of(words);
	check(name && is_of(words, name));
	check(!script || (is_of(words, script) && n));
	check(!script || !program_worker_of(words)); /* it is the one or the other */
	free(name);
	free(script);
	free(text);
	return 0;
}
