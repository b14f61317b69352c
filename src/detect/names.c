/* names.c - the names of a file's rows. */
#include "detect/names.h"

#include <string.h>

static const char *string(void *ctx, uint32_t number)
{
	const struct rec_tables *t = ctx;
	return strtab_get(&t->strings, number, NULL);
}

static const struct m_probe *probe(void *ctx, uint32_t number)
{
	const struct rec_tables *t = ctx;
	return number < t->probes.len ? &t->probes.data[number] : NULL;
}

static const struct m_thread *thread(void *ctx, uint32_t index)
{
	const struct rec_tables *t = ctx;
	return index < t->threads.len ? &t->threads.data[index] : NULL;
}

static const struct m_code *code(void *ctx, uint32_t number)
{
	const struct rec_tables *t = ctx;
	return number < t->codes.len ? &t->codes.data[number] : NULL;
}

static const struct m_metric *metric(void *ctx, uint32_t number)
{
	const struct rec_tables *t = ctx;
	return number < t->metrics.len ? &t->metrics.data[number] : NULL;
}

static const struct m_comm *comm(void *ctx, uint32_t pid, uint64_t handle, uint64_t time_ns)
{
	const struct rec_tables *t = ctx;
	for (size_t i = 0; i < t->comms.len; i++) {
		const struct m_comm *c = &t->comms.data[i];
		if (c->pid == pid && c->handle == handle && c->start_ns <= time_ns &&
		    (!c->end_ns || time_ns <= c->end_ns))
			return c;
	}
	return NULL;
}

bool detect_library_is_called(const char *path)
{
	static const char *const stems[] = {"libtorch",	    "libc10",	   "libcuda",  "libcudart",
					    "libcudnn",	    "libcublas",   "libcufft", "libcurand",
					    "libcusolver",  "libcusparse", "libcupti", "libnvrtc",
					    "libnvJitLink", "libnccl",	   "libxla"};
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	for (size_t i = 0; i < sizeof(stems) / sizeof(stems[0]); i++)
		if (!strncmp(name, stems[i], strlen(stems[i])))
			return true;
	return false;
}

bool detect_line_of_stack(const struct rec_tables *t, uint32_t stack, struct detect_line *ret)
{
	bool called = false;
	for (; stack; stack = t->stacks.data[stack].parent) {
		uint32_t frame = t->stacks.data[stack].frame;
		const struct m_frame *f = &t->frames.data[frame];
		if (f->kind == FRAME_PYTHON) {
			*ret = (struct detect_line){.frame = frame,
						    .line = f->line,
						    .function =
							    strtab_get(&t->strings, f->name, NULL),
						    .file = strtab_get(&t->strings, f->file, NULL),
						    .called = called};
			return true;
		}
		called |= f->library &&
			  detect_library_is_called(strtab_get(&t->strings, f->library, NULL));
	}
	return false;
}

static bool line(void *ctx, uint32_t stack, struct detect_line *ret)
{
	const struct rec_tables *t = ctx;
	return stack < t->stacks.len && detect_line_of_stack(t, stack, ret);
}

void detect_names_of_source(struct detect_names *ret, const struct row_source *r)
{
	*ret = (struct detect_names){.ctx = (void *)(uintptr_t)r->tables,
				     .string = string,
				     .probe = probe,
				     .thread = thread,
				     .code = code,
				     .comm = comm,
				     .metric = metric,
				     .line = line};
}
