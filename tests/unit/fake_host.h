/* fake_host.h - a /proc, a /sys and cgroups of a test's making, and what a collector tells, as
 * lines of text: "host cpu_ratio 0.5". */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect/registry.h"

#define MS 1000000ULL
#define S  (1000 * MS)

static char fake_root[64], fake_sys[80];
static char told[1u << 16]; /* since it was last looked at */

static int fake_host_make(void **state)
{
	(void)state;
	snprintf(fake_root, sizeof(fake_root), "/tmp/eacgm-host-XXXXXX");
	if (!mkdtemp(fake_root))
		return -1;
	snprintf(fake_sys, sizeof(fake_sys), "%s/sys", fake_root);
	told[0] = 0;
	return mkdir(fake_sys, 0700);
}

#define NOBODY 65534

/* Root may read all files, so a test of those that may not be read is another user meanwhile; who
 * is not root may not read them anyway. The test ends as who it was. */
__attribute__((unused)) static void be_nobody(void)
{
	if (!geteuid())
		assert_int_equal(seteuid(NOBODY), 0);
}

static void be_oneself(void)
{
	if (geteuid() != getuid())
		assert_int_equal(seteuid(getuid()), 0);
}

static int fake_host_remove(void **state)
{
	char command[96];
	(void)state;
	be_oneself();
	snprintf(command, sizeof(command), "rm -rf '%s'", fake_root);
	return system(command); /* NOLINT(cert-env33-c): a name of our own */
}

/* The path of a file of it; the folders above are made. */
static void fake_path(char ret[256], const char *name)
{
	snprintf(ret, 256, "%s/%s", fake_root, name);
	for (char *slash = strchr(ret + strlen(fake_root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(ret, 0700);
		*slash = '/';
	}
}

__attribute__((format(printf, 2, 3), unused)) static void put(const char *name, const char *format,
							      ...)
{
	char path[256];
	va_list args;
	fake_path(path, name);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	va_start(args, format);
	vfprintf(f, format, args);
	va_end(args);
	fclose(f);
}

__attribute__((unused)) static void drop(const char *name)
{
	char path[256];
	fake_path(path, name);
	assert_int_equal(unlink(path), 0);
}

/* Others may read what there is; but for those files, which nobody may. */
__attribute__((unused)) static void forbid(const char *const *names, size_t n)
{
	char path[256], command[96];
	snprintf(command, sizeof(command), "chmod -R a+rX '%s'", fake_root);
	assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a name of our own */
	for (size_t i = 0; i < n; i++) {
		fake_path(path, names[i]);
		assert_int_equal(chmod(path, 0), 0);
	}
}

/* forbid() is over. */
__attribute__((unused)) static void allow(void)
{
	char command[96];
	snprintf(command, sizeof(command), "chmod -R u+rwX '%s'", fake_root);
	assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): likewise */
}

static void tell(const char *line)
{
	strncat(told, line, sizeof(told) - strlen(told) - 1);
}

static void on_counter(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
		       double value)
{
	char entity[192], line[256];
	(void)ctx;
	(void)time_ns;
	assert_true(value >= 0 && value < 1e18);
	entity_text(entity, sizeof(entity), of);
	snprintf(line, sizeof(line), "%s %s %.4g\n", entity, name, value);
	tell(line);
}

static void on_event(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
		     const char *text)
{
	char entity[192], line[512];
	(void)ctx;
	(void)time_ns;
	entity_text(entity, sizeof(entity), of);
	snprintf(line, sizeof(line), "%s %s: %s\n", entity, name, text);
	tell(line);
}

static void on_note(void *ctx, const char *subject, const char *reason)
{
	(void)ctx;
	(void)subject;
	(void)reason;
	fail(); /* what is not there is nobody's affair */
}

static const struct collect_env fake_env = {.proc_root = fake_root, .sys_root = fake_sys};
static const struct collect_sink fake_sink = {
	.counter = on_counter, .event = on_event, .note = on_note};

/* NULL: there is no such thing here. */
__attribute__((unused)) static void *fake_open(const struct collector *c)
{
	void *state = NULL;
	struct err e;
	int rc = c->open(&state, &fake_env, &fake_sink, &e);
	assert_true(rc ? !state : state != NULL);
	return state;
}

#define expect(text)                                                                               \
	do {                                                                                       \
		assert_string_equal(told, text);                                                   \
		told[0] = 0;                                                                       \
	} while (0)
