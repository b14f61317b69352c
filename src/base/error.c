/* error.c - formats error sentences. Does not print and does not abort. */
#define ERROR_IMPLEMENTATION
#include "error.h"

#include <stdio.h>
#include <string.h>

int err_set(struct err *e, int code, const char *fmt, ...)
{
	if (e) {
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
		va_end(ap);
	}
	return -code;
}

int err_wrap(struct err *e, int rc, const char *fmt, ...)
{
	if (!e)
		return rc;
	char prefix[256];
	char old[sizeof(e->msg)];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(prefix, sizeof(prefix), fmt, ap);
	va_end(ap);
	memcpy(old, e->msg, sizeof(old));
	snprintf(e->msg, sizeof(e->msg), "%.*s: %.*s", 200, prefix, 300, old);
	return rc;
}
