/* spans.c - what the GPU did goes into the recording as it comes: its times, its process and
 * its name are known already. */
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

void pipeline_gpu_span(struct pipeline *p, const struct m_gpu_span *span)
{
	rec_put_gpu_span(p->writer, span);
	p->gpu_spans++;
}
