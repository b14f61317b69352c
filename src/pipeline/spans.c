/* spans.c - names of what the GPU did: whole in the recording's strings, as they come. The
 * spans themselves are in shim_calls.c. */
#include "base/utf8.h"
#include "pipeline/pipeline_impl.h"

uint32_t pipeline_gpu_name(struct pipeline *p, const char *text, size_t len)
{
	struct buf clean = {0};
	if (utf8_valid(text, len))
		return rec_string(p->writer, text, len);
	utf8_append(&clean, text, len);
	uint32_t number = rec_string(p->writer, (const char *)clean.data, clean.len);
	buf_free(&clean);
	return number;
}
