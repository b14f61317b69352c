/* output.c - a stream to a file that appears under its name only when it is whole. */
#include "export/output.h"

#include <errno.h>

#define BUFFER_BYTES (1 << 18)

int output_open(struct output *o, const char *path, const struct output_owner *owner, struct err *e)
{
	*o = (struct output){0};
	int rc = output_file_create(&o->file, path, owner, e);
	if (rc)
		return rc;
	o->stream = fdopen(o->file.fd, "w");
	if (!o->stream) {
		rc = output_file_error(&o->file, errno, e);
		output_file_close(&o->file, NULL);
		return rc;
	}
	setvbuf(o->stream, NULL, _IOFBF, BUFFER_BYTES);
	return 0;
}

int output_error(const struct output *o, struct err *e)
{
	return output_file_error(&o->file, errno ? errno : EIO, e);
}

int output_close(struct output *o, int rc, struct err *e)
{
	errno = 0;
	if ((ferror(o->stream) | fclose(o->stream)) && !rc)
		rc = output_error(o, e);
	o->stream = NULL;
	o->file.fd = -1;
	return output_file_finish(&o->file, rc, e);
}
