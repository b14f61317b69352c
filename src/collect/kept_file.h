/* kept_file.h - a file of /proc, /sys or the file system of cgroups that is read again and again:
 * opened once, read from its beginning each time. And its text: words, numbers, keys. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct collect_env;

#define KEPT_FILE_MOST (1u << 20) /* bytes of a file; what is longer ends at a whole line */

/* Zero-initialised, then kept_file_set. */
struct kept_file {
	char *path;
	int fd;	    /* plus one; 0: it is not open */
	char *text; /* terminated; of the last read */
	size_t room;
};

/* Its name, once. It need not be there. */
void kept_file_set(struct kept_file *f, const char *folder, const char *name);
/* Its text is new. False: it is not there, may not be read, or is empty; it is looked for again the
 * next time. */
bool kept_file_read(struct kept_file *f);
void kept_file_free(struct kept_file *f);

/* When what was just read was true: now on this host, told_ns where the files are a test's. */
uint64_t kept_file_time(const struct collect_env *env, uint64_t told_ns);

/* The start of the line after this one; of the last one, its end. */
const char *text_next_line(const char *line);
/* What follows a line's first word where that is key, as in "key 12" and "key: 12"; else NULL. */
const char *text_after_key(const char *line, const char *key);
/* A number without a sign, after spaces, in this line. Moves *at behind it; false: there is none,
 * or it has more than 64 bits. */
bool text_number(const char **at, uint64_t *ret);
/* The number that follows a key at the start of some line. */
bool text_number_of(const char *text, const char *key, uint64_t *ret);
