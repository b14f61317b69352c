/* output_file_test.c - files by paths that may be traps.
 * links: base
 *
 * What needs a second user, or a file system that is full, is skipped without root. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/output_file.h"

#define OTHER 65534 /* a user who is not the one that runs this */

struct fixture {
	char dir[32];
	char *path; /* in it */
	struct err e;
};

static int set_up(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	snprintf(f->dir, sizeof(f->dir), "/tmp/eacgm-out-XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	f->path = xasprintf("%s/out", f->dir);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	char *command = xasprintf("rm -rf '%s'", f->dir);
	int rc = system(command);
	free(command);
	free(f->path);
	free(f);
	return rc;
}

static char *in(const struct fixture *f, const char *name)
{
	return xasprintf("%s/%s", f->dir, name);
}

static void put(const char *path, const char *text)
{
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static void assert_holds(const char *path, const char *want)
{
	char text[64] = "";
	FILE *in_file = fopen(path, "r");
	assert_non_null(in_file);
	size_t n = fread(text, 1, sizeof(text) - 1, in_file);
	fclose(in_file);
	text[n] = 0;
	assert_string_equal(text, want);
}

/* So many names are in the folder. */
static void assert_names(const struct fixture *f, int want)
{
	char *command = xasprintf("test $(ls -A '%s' | wc -l) = %d", f->dir, want);
	assert_int_equal(system(command), 0);
	free(command);
}

/* Writes "new" to a path; what came of it. */
static int write_new(struct fixture *f, const char *path, const struct output_owner *owner)
{
	struct output_file o;
	int rc = output_file_create(&o, path, owner, &f->e);
	if (rc)
		return rc;
	rc = write(o.fd, "new", 3) == 3 ? 0 : output_file_error(&o, errno, &f->e);
	return output_file_finish(&o, rc, &f->e);
}

static void need_root(void)
{
	if (geteuid() != 0)
		skip();
}

static void a_file_gets_its_name_when_told(void **state)
{
	struct fixture *f = *state;
	struct output_file o;
	struct stat st;
	put(f->path, "old");
	mode_t mask = umask(027);
	assert_int_equal(output_file_create(&o, f->path, NULL, &f->e), 0);
	umask(mask);
	assert_int_equal(write(o.fd, "ne", 2), 2);
	assert_holds(f->path, "old");
	assert_int_equal(output_file_name(&o, &f->e), 0);
	assert_holds(f->path, "ne");
	assert_int_equal(write(o.fd, "w", 1), 1); /* on into the same file */
	assert_int_equal(output_file_name(&o, &f->e), 0);
	assert_int_equal(output_file_close(&o, &f->e), 0);
	assert_holds(f->path, "new");
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_names(f, 1);
}

static void what_has_no_name_is_taken_away(void **state)
{
	struct fixture *f = *state;
	struct output_file o;
	put(f->path, "old");
	assert_int_equal(output_file_create(&o, f->path, NULL, &f->e), 0);
	assert_int_equal(output_file_close(&o, &f->e), 0);
	assert_int_equal(output_file_create(&o, f->path, NULL, &f->e), 0);
	assert_int_equal(output_file_finish(&o, -ENOSPC, &f->e), -ENOSPC);
	assert_holds(f->path, "old");
	assert_names(f, 1);
}

static void a_file_with_its_name_can_be_taken_away_and_no_other(void **state)
{
	struct fixture *f = *state;
	struct output_file o;
	assert_int_equal(output_file_create(&o, f->path, NULL, &f->e), 0);
	assert_int_equal(output_file_name(&o, &f->e), 0);
	output_file_discard(&o);
	assert_names(f, 0);
	assert_int_equal(output_file_create(&o, f->path, NULL, &f->e), 0);
	assert_int_equal(output_file_name(&o, &f->e), 0);
	assert_int_equal(unlink(f->path), 0);
	put(f->path, "another's");
	output_file_discard(&o);
	assert_holds(f->path, "another's");
}

static void links_at_the_end_are_replaced(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	char *secret = in(f, "secret");
	put(secret, "secret");
	assert_int_equal(symlink("secret", f->path), 0);
	assert_int_equal(write_new(f, f->path, NULL), 0);
	assert_holds(secret, "secret");
	assert_holds(f->path, "new");
	assert_int_equal(lstat(f->path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	unlink(f->path);
	assert_int_equal(link(secret, f->path), 0);
	assert_int_equal(write_new(f, f->path, NULL), 0);
	assert_holds(secret, "secret");
	assert_holds(f->path, "new");
	unlink(f->path);
	assert_int_equal(symlink("nowhere", f->path), 0);
	assert_int_equal(write_new(f, f->path, NULL), 0);
	assert_names(f, 2);
	free(secret);
}

static void links_to_folders_are_followed_where_nobody_else_writes(void **state)
{
	struct fixture *f = *state;
	char *folder = in(f, "folder"), *link_path = in(f, "link"),
	     *out = in(f, "link/../link/out");
	char *behind = in(f, "folder/out");
	assert_int_equal(mkdir(folder, 0755), 0);
	assert_int_equal(symlink("folder", link_path), 0);
	assert_int_equal(write_new(f, out, NULL), 0);
	assert_holds(behind, "new");
	unlink(link_path);
	assert_int_equal(symlink(folder, link_path), 0); /* the whole path */
	unlink(behind);
	assert_int_equal(write_new(f, out, NULL), 0);
	assert_holds(behind, "new");
	unlink(behind);
	assert_int_equal(chmod(f->dir, 0777), 0);
	assert_int_equal(write_new(f, out, NULL), -EXDEV);
	assert_non_null(
		strstr(f->e.msg, "'link' in it is a symbolic link in a folder that others"));
	assert_int_equal(chmod(f->dir, 0755), 0);
	unlink(link_path);
	assert_int_equal(symlink("link", link_path), 0);
	assert_int_equal(write_new(f, out, NULL), -ELOOP);
	assert_int_equal(access(behind, F_OK), -1);
	free(folder);
	free(link_path);
	free(out);
	free(behind);
}

static void links_in_a_folder_of_another_user_are_not_followed(void **state)
{
	struct fixture *f = *state;
	need_root();
	char *theirs = in(f, "theirs"), *mine = in(f, "mine"), *trap = in(f, "theirs/trap");
	char *out = in(f, "theirs/trap/out"), *device = in(f, "theirs/device");
	struct output_owner other = {true, OTHER, OTHER};
	assert_int_equal(mkdir(theirs, 0755) | mkdir(mine, 0700), 0);
	assert_int_equal(symlink(mine, trap) | symlink("/dev/null", device), 0);
	assert_int_equal(chown(theirs, OTHER, OTHER), 0);
	assert_int_equal(write_new(f, out, NULL), -EXDEV);
	assert_int_equal(write_new(f, device, NULL), 0); /* replaced */
	assert_holds(device, "new");
	assert_int_equal(write_new(f, out, &other), 0); /* who called sudo, and may say so */
	free(theirs);
	free(mine);
	free(trap);
	free(out);
	free(device);
}

static void files_of_others_in_shared_folders_stay(void **state)
{
	struct fixture *f = *state;
	struct output_owner other = {true, OTHER, OTHER};
	need_root();
	put(f->path, "theirs");
	assert_int_equal(chown(f->path, OTHER, OTHER) | chmod(f->dir, 01777), 0);
	assert_int_equal(write_new(f, f->path, NULL), -EPERM);
	assert_non_null(strstr(f->e.msg, "belongs to somebody else"));
	assert_holds(f->path, "theirs");
	assert_int_equal(write_new(f, f->path, &other), 0);
	unlink(f->path);
	assert_int_equal(symlink("x", f->path) | lchown(f->path, OTHER, OTHER), 0);
	assert_int_equal(write_new(f, f->path, NULL), -EPERM);
	unlink(f->path);
	put(f->path, "mine");
	assert_int_equal(write_new(f, f->path, NULL), 0);
	assert_names(f, 1);
}

static void pipes_of_others_are_not_opened(void **state)
{
	struct fixture *f = *state;
	need_root();
	assert_int_equal(mkfifo(f->path, 0666), 0);
	assert_int_equal(chown(f->path, OTHER, OTHER) | chmod(f->dir, 01777), 0);
	assert_int_equal(write_new(f, f->path, NULL), -EPERM); /* and not: waits for a reader */
	assert_non_null(strstr(f->e.msg, "pipe or device of somebody else"));
	assert_names(f, 1);
}

static void pipes_and_devices_are_written_to_directly(void **state)
{
	struct fixture *f = *state;
	char text[8] = "", *link_path = in(f, "link");
	assert_int_equal(mkfifo(f->path, 0600), 0);
	int reader = open(f->path, O_RDONLY | O_NONBLOCK);
	assert_true(output_file_is_direct(f->path));
	assert_int_equal(write_new(f, f->path, NULL), 0);
	assert_int_equal(read(reader, text, sizeof(text)), 3);
	assert_int_equal(symlink("out", link_path), 0);
	assert_int_equal(write_new(f, link_path, NULL), 0);
	assert_int_equal(read(reader, text, sizeof(text)), 3);
	close(reader);
	assert_int_equal(write_new(f, "/dev/null", NULL), 0);
	assert_int_equal(write_new(f, "/dev/full", NULL), -ENOSPC);
	assert_string_equal(f->e.msg, "cannot write '/dev/full': No space left on device");
	assert_names(f, 2);
	free(link_path);
}

static void descriptors_are_used_as_they_are(void **state)
{
	struct fixture *f = *state;
	char text[8] = "", path[32];
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), i ? "/dev/fd/%d" : "/proc/self/fd/%d", ends[1]);
		assert_true(output_file_is_direct(path));
		assert_int_equal(write_new(f, path, NULL), 0);
		assert_int_equal(read(ends[0], text, sizeof(text)), 3);
	}
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(write_new(f, path, NULL), -EBADF);
	assert_true(output_file_is_direct("/dev/stdout"));
	assert_false(output_file_is_direct("/dev/fd/1x"));
}

static void bad_paths_are_told(void **state)
{
	struct fixture *f = *state;
	char *missing = in(f, "no/out"), *through = in(f, "out/x"), long_name[300];
	put(f->path, "old");
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = 0;
	const struct {
		const char *path;
		int rc;
	} rows[] = {{"", -ENOENT},	 {f->dir, -EISDIR},	    {"/", -EISDIR},
		    {"/tmp/", -EISDIR},	 {"/tmp/..", -EISDIR},	    {missing, -ENOENT},
		    {through, -ENOTDIR}, {long_name, -ENAMETOOLONG}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(write_new(f, rows[i].path, NULL), rows[i].rc);
		assert_non_null(strstr(f->e.msg, "cannot write '"));
		assert_non_null(strstr(f->e.msg, strerror(-rows[i].rc)));
	}
	assert_holds(f->path, "old");
	assert_names(f, 1);
	free(missing);
	free(through);
}

/* As long as a name may be: its temporary one is shorter. */
static void long_names_have_room(void **state)
{
	struct fixture *f = *state;
	char name[256];
	memset(name, 'n', 255);
	name[255] = 0;
	char *path = in(f, name);
	assert_int_equal(write_new(f, path, NULL), 0);
	assert_holds(path, "new");
	free(path);
}

/* Many at once have names of their own, and one of them comes last. */
static void writers_do_not_share_a_temporary_name(void **state)
{
	struct fixture *f = *state;
	struct output_file o[50];
	for (int i = 0; i < 50; i++)
		assert_int_equal(output_file_create(&o[i], f->path, NULL, &f->e), 0);
	assert_names(f, 50);
	for (int i = 0; i < 50; i++)
		assert_int_equal(output_file_finish(&o[i], i % 2 ? -EINTR : 0, &f->e),
				 i % 2 ? -EINTR : 0);
	assert_names(f, 1);
}

/* The folder's name leads elsewhere meanwhile. */
static void a_folder_that_is_swapped_is_still_the_one(void **state)
{
	struct fixture *f = *state;
	struct output_file o;
	char *folder = in(f, "folder"), *moved = in(f, "moved"), *other = in(f, "other");
	char *out = in(f, "folder/out"), *there = in(f, "moved/out");
	assert_int_equal(mkdir(folder, 0755) | mkdir(other, 0755), 0);
	assert_int_equal(output_file_create(&o, out, NULL, &f->e), 0);
	assert_int_equal(rename(folder, moved) | symlink("other", folder), 0);
	assert_int_equal(output_file_finish(&o, 0, &f->e), 0);
	assert_int_equal(access(out, F_OK), -1);
	assert_int_equal(access(there, F_OK), 0);
	free(folder);
	free(moved);
	free(other);
	free(out);
	free(there);
}

static void the_owner_is_who_called_sudo(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	need_root();
	setenv("SUDO_UID", "65534", 1);
	setenv("SUDO_GID", "65533", 1);
	struct output_owner owner = output_owner_from_sudo();
	assert_int_equal(write_new(f, f->path, &owner), 0);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_uid, 65534);
	assert_int_equal(st.st_gid, 65533);
	static const char *const bad[] = {"",	"-1",	      "1x",
					  " 1", "4294967295", "99999999999999999999"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		setenv("SUDO_UID", bad[i], 1);
		assert_false(output_owner_from_sudo().known);
	}
	setenv("SUDO_UID", "1", 1);
	unsetenv("SUDO_GID");
	assert_false(output_owner_from_sudo().known);
	setenv("SUDO_GID", "1", 1);
	pid_t pid = fork();
	if (!pid)
		_exit(setresuid(OTHER, OTHER, OTHER) || output_owner_from_sudo().known);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
}

static void a_full_disk_leaves_what_was_there(void **state)
{
	struct fixture *f = *state;
	static char much[1 << 17];
	struct output_file o;
	need_root();
	if (mount("none", f->dir, "tmpfs", 0, "size=64k"))
		skip();
	put(f->path, "old");
	int rc = output_file_create(&o, f->path, NULL, &f->e);
	ssize_t n = rc ? 0 : write(o.fd, much, sizeof(much));
	if (!rc)
		rc = output_file_finish(&o, n < (ssize_t)sizeof(much) ? -ENOSPC : 0, &f->e);
	char *command = xasprintf("test $(ls -A '%s') = out", f->dir);
	int only = system(command);
	struct stat st;
	int there = stat(f->path, &st);
	umount(f->dir);
	free(command);
	assert_int_equal(rc, -ENOSPC);
	assert_int_equal(only | there, 0);
	assert_int_equal(st.st_size, 3);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_A_FOLDER(a_file_gets_its_name_when_told),
		IN_A_FOLDER(what_has_no_name_is_taken_away),
		IN_A_FOLDER(a_file_with_its_name_can_be_taken_away_and_no_other),
		IN_A_FOLDER(links_at_the_end_are_replaced),
		IN_A_FOLDER(links_to_folders_are_followed_where_nobody_else_writes),
		IN_A_FOLDER(links_in_a_folder_of_another_user_are_not_followed),
		IN_A_FOLDER(files_of_others_in_shared_folders_stay),
		IN_A_FOLDER(pipes_of_others_are_not_opened),
		IN_A_FOLDER(pipes_and_devices_are_written_to_directly),
		IN_A_FOLDER(descriptors_are_used_as_they_are),
		IN_A_FOLDER(bad_paths_are_told),
		IN_A_FOLDER(long_names_have_room),
		IN_A_FOLDER(writers_do_not_share_a_temporary_name),
		IN_A_FOLDER(a_folder_that_is_swapped_is_still_the_one),
		IN_A_FOLDER(the_owner_is_who_called_sudo),
		IN_A_FOLDER(a_full_disk_leaves_what_was_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
