/* output_owner.c - who called sudo. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/output_file.h"

/* Digits alone, and no id that chown(2) takes for "as it is". */
static bool read_id(const char *text, unsigned *ret)
{
	char *end;
	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	unsigned long v = strtoul(text, &end, 10);
	*ret = (unsigned)v;
	return !*end && !errno && v < (unsigned)-1;
}

struct output_owner output_owner_from_sudo(void)
{
	unsigned uid, gid;
	if (getuid() != 0 || !read_id(getenv("SUDO_UID"), &uid) ||
	    !read_id(getenv("SUDO_GID"), &gid))
		return (struct output_owner){0};
	return (struct output_owner){.known = true, .uid = uid, .gid = gid};
}
