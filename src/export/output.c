/* output.c - a file that appears under its name only when it is whole. */
#include "export/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"

/* The standard output is never replaced, also where it is a file. */
static bool is_stdout(const char *path)
{
	return !strcmp(path, "/dev/stdout");
}

bool output_is_direct(const char *path)
{
	struct stat st;
	return is_stdout(path) || (!stat(path, &st) && !S_ISREG(st.st_mode));
}

int output_open(struct output *o, const char *path, struct err *e)
{
	*o = (struct output){.path = path};
	bool direct = output_is_direct(path);
	int fd;
	if (is_stdout(path)) {
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	} else if (direct) {
		fd = open(path, O_WRONLY | O_CLOEXEC);
	} else {
		o->temporary = xasprintf("%s.tmp.XXXXXX", path);
		fd = mkstemp(o->temporary);
	}
	if (fd < 0) {
		int code = errno;
		free(o->temporary);
		return err_set(e, code, "cannot write '%s': %s", path, strerror(code));
	}
	if (!direct) { /* mkstemp makes files that only the owner can read */
		mode_t mask = umask(0);
		umask(mask);
		fchmod(fd, 0666 & ~mask);
	}
	o->stream = fdopen(fd, "w");
	if (!o->stream) {
		int code = errno;
		close(fd);
		return err_set(e, code, "cannot write '%s': %s", path, strerror(code));
	}
	setvbuf(o->stream, NULL, _IOFBF, 1 << 18);
	return 0;
}

int output_error(const struct output *o, struct err *e)
{
	int code = errno ? errno : EIO;
	return err_set(e, code, "cannot write '%s': %s", o->path, strerror(code));
}

int output_close(struct output *o, int rc, struct err *e)
{
	errno = 0;
	if (o->stream && (ferror(o->stream) | fclose(o->stream)) && !rc)
		rc = output_error(o, e);
	if (o->temporary) {
		if (!rc && rename(o->temporary, o->path))
			rc = output_error(o, e);
		if (rc)
			unlink(o->temporary);
	}
	free(o->temporary);
	return rc;
}
