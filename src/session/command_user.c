/* command_user.c - sudo, doas and pkexec say in the environment who called them. Root alone is
 * believed: whoever is root may run a command as anybody. */
#include "session/command_user.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"

#define ENTRY_BYTES (64u << 10) /* of one user in the user database */
#define GROUPS_MOST 65536	/* NGROUPS_MAX of Linux */

/* ---- the user database ---- */

struct entry {
	struct passwd pw;
	char text[ENTRY_BYTES];
};

/* A decimal number and nothing else; uid_t's last value means none. */
static bool number_of(const char *text, unsigned *ret)
{
	char *end;
	errno = 0;
	unsigned long n = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
	if (*text < '0' || *text > '9' || *end || errno || n >= (unsigned)-1)
		return false;
	*ret = (unsigned)n;
	return true;
}

static bool find_uid(struct entry *ret, uid_t uid)
{
	struct passwd *found = NULL;
	return !getpwuid_r(uid, &ret->pw, ret->text, sizeof(ret->text), &found) && found;
}

static bool find_name(struct entry *ret, const char *name)
{
	struct passwd *found = NULL;
	return !getpwnam_r(name, &ret->pw, ret->text, sizeof(ret->text), &found) && found;
}

/* ---- who called ---- */

static bool is_in_group(const struct passwd *pw, gid_t gid)
{
	gid_t *groups = xcalloc(GROUPS_MOST, sizeof(*groups));
	int n = GROUPS_MOST;
	bool found = gid == pw->pw_gid;
	if (getgrouplist(pw->pw_name, pw->pw_gid, groups, &n) < 0)
		n = 0;
	for (int i = 0; i < n; i++)
		found |= groups[i] == gid;
	free(groups);
	return found;
}

/* SUDO_UID, SUDO_GID and SUDO_USER have to name one user; the group may be another of theirs. */
static int find_sudo(struct entry *ret, struct err *e)
{
	const char *uid = getenv("SUDO_UID"), *gid = getenv("SUDO_GID"),
		   *name = getenv("SUDO_USER");
	unsigned u, g;
	if (uid && gid && name && number_of(uid, &u) && number_of(gid, &g) && find_uid(ret, u) &&
	    !strcmp(ret->pw.pw_name, name) && is_in_group(&ret->pw, g)) {
		ret->pw.pw_gid = g;
		return 0;
	}
	return err_set(e, EINVAL,
		       "SUDO_UID, SUDO_GID and SUDO_USER do not name one user of this host: say "
		       "with -u whom the command runs as");
}

/* 1: nobody else called. */
static int find_caller(struct entry *ret, struct err *e)
{
	const char *doas = getenv("DOAS_USER"), *pkexec = getenv("PKEXEC_UID");
	unsigned uid;
	if (getuid())
		return 1;
	if (getenv("SUDO_UID"))
		return find_sudo(ret, e);
	if (doas ? find_name(ret, doas) : pkexec && number_of(pkexec, &uid) && find_uid(ret, uid))
		return 0;
	if (!doas && !pkexec)
		return 1;
	return err_set(e, EINVAL,
		       "%s names no user of this host: say with -u whom the command runs as",
		       doas ? "DOAS_USER" : "PKEXEC_UID");
}

static int find_wanted(struct entry *ret, const char *wanted, struct err *e)
{
	unsigned uid;
	if (find_name(ret, wanted) || (number_of(wanted, &uid) && find_uid(ret, uid)))
		return 0;
	return err_set(e, EINVAL, "-u: there is no user '%s'", wanted);
}

/* ---- what the command gets ---- */

static void take_groups(struct command_user *u)
{
	u->groups = xcalloc(GROUPS_MOST, sizeof(*u->groups));
	u->groups_len = GROUPS_MOST;
	if (getgrouplist(u->name, u->gid, u->groups, &u->groups_len) < 0) {
		u->groups[0] = u->gid;
		u->groups_len = 1;
	}
}

int command_user_find(struct command_user *ret, const char *wanted, struct err *e)
{
	struct entry *found = xcalloc(1, sizeof(*found));
	int rc = wanted ? find_wanted(found, wanted, e) : find_caller(found, e);
	*ret = (struct command_user){0};
	if (!rc && found->pw.pw_uid != getuid()) {
		*ret = (struct command_user){.changes = true,
					     .uid = found->pw.pw_uid,
					     .gid = found->pw.pw_gid,
					     .name = xstrdup(found->pw.pw_name),
					     .home = xstrdup(found->pw.pw_dir),
					     .shell = xstrdup(found->pw.pw_shell)};
		take_groups(ret);
	}
	free(found);
	return rc < 0 ? rc : 0;
}

void command_user_free(struct command_user *u)
{
	free(u->name);
	free(u->home);
	free(u->shell);
	free(u->groups);
	*u = (struct command_user){0};
}

int command_user_become(const struct command_user *u)
{
	if (!u->changes)
		return 0;
	if (setgroups((size_t)u->groups_len, u->groups) || setresgid(u->gid, u->gid, u->gid) ||
	    setresuid(u->uid, u->uid, u->uid))
		return -errno;
	/* no way back was left */
	if (u->uid && (!setuid(0) || !seteuid(0)))
		return -EPERM;
	if (setenv("HOME", u->home, 1) || setenv("USER", u->name, 1) ||
	    setenv("LOGNAME", u->name, 1) || setenv("SHELL", u->shell, 1))
		return -errno;
	return 0;
}
