/* blame_stacks.c - what the stack of a sample or a wait says: whose it is, and what was done there.
 * Of names and files alone; what lies around it in time is blame_world.c's. */
#include <string.h>

#include "analyze/account_impl.h"
#include "analyze/blame_impl.h"
#include "analyze/profile.h"

static bool starts(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

/* The kernel's ways into page faults, and where it maps and unmaps memory. */
static bool is_memory(const char *name)
{
	static const char *const begins[] = {
		"asm_exc_page_fault", "exc_page_fault",	  "do_user_addr_fault", "handle_mm_fault",
		"__x64_sys_munmap",   "__x64_sys_mmap",	  "__x64_sys_madvise",	"__x64_sys_brk",
		"__x64_sys_mremap",   "do_anonymous_page"};
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (starts(name, begins[i]))
			return true;
	return false;
}

/* torch/serialization.py, torch/distributed/checkpoint, safetensors/torch.py. */
bool blame_is_save(const struct rec_tables *t, uint32_t function, uint32_t in_file)
{
	static const char *const those[][2] = {{"save", "/torch/serialization.py"},
					       {"_save", "/torch/serialization.py"},
					       {"_legacy_save", "/torch/serialization.py"},
					       {"save", "/checkpoint/state_dict_saver.py"},
					       {"save_file", "/safetensors/torch.py"}};
	const char *name = strtab_get(&t->strings, function, NULL);
	const char *file = strtab_get(&t->strings, in_file, NULL);
	for (size_t i = 0; i < sizeof(those) / sizeof(those[0]); i++) {
		size_t n = strlen(file), m = strlen(those[i][1]);
		if (!strcmp(name, those[i][0]) && n >= m && !strcmp(file + n - m, those[i][1]))
			return true;
	}
	return false;
}

static bool fills_pages(const struct rec_tables *t, uint32_t stack)
{
	for (; stack; stack = t->stacks.data[stack].parent) {
		const struct m_frame *f = &t->frames.data[t->stacks.data[stack].frame];
		const char *name = strtab_get(&t->strings, f->name, NULL);
		if (f->kind == FRAME_KERNEL &&
		    (starts(name, "filemap_get_pages") || starts(name, "page_cache_ra")))
			return true;
	}
	return false;
}

static uint8_t kind_of_stack(const struct rec_tables *t, uint32_t stack)
{
	uint8_t ret = BLAME_RUNS;
	uint32_t leaf = stack;
	for (; stack; stack = t->stacks.data[stack].parent) {
		const struct m_frame *f = &t->frames.data[t->stacks.data[stack].frame];
		if (f->kind == FRAME_PYTHON && blame_is_save(t, f->name, f->file))
			return BLAME_SAVES;
		if (f->kind == FRAME_KERNEL && is_memory(strtab_get(&t->strings, f->name, NULL)))
			ret = BLAME_FAULTS;
	}
	return ret == BLAME_RUNS && fills_pages(t, leaf) ? BLAME_FILLS : ret;
}

/* What everybody calls says nothing of who runs. */
static bool is_of_libc(const struct rec_tables *t, const struct m_frame *f)
{
	static const char *const begins[] = {"libc.so", "libc-2",    "libm.so", "libm-2",
					     "ld-2",	"ld-linux",  "ld-musl", "libc.musl",
					     "[vdso]",	"libpthread"};
	const char *path = strtab_get(&t->strings, f->library, NULL);
	const char *slash = strrchr(path, '/');
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (starts(slash ? slash + 1 : path, begins[i]))
			return true;
	return false;
}

uint32_t blame_frame_of_stack(const struct rec_tables *t, uint32_t stack)
{
	uint32_t native = BLAME_NO_FRAME;
	bool in_libc = true; /* so far */
	for (; stack; stack = t->stacks.data[stack].parent) {
		uint32_t frame = t->stacks.data[stack].frame;
		const struct m_frame *f = &t->frames.data[frame];
		if (f->kind == FRAME_PYTHON)
			return frame;
		if (!in_libc || f->kind != FRAME_NATIVE || !f->name)
			continue;
		in_libc = is_of_libc(t, f);
		if (native == BLAME_NO_FRAME || !in_libc)
			native = frame;
	}
	return native;
}

static bool is_of_loader(const char *file)
{
	return strstr(file, "/torch/utils/data/");
}

static bool is_in_loader(const struct rec_tables *t, uint32_t stack)
{
	for (; stack; stack = t->stacks.data[stack].parent) {
		const struct m_frame *f = &t->frames.data[t->stacks.data[stack].frame];
		if (f->kind == FRAME_PYTHON && is_of_loader(strtab_get(&t->strings, f->file, NULL)))
			return true;
	}
	return false;
}

/* The innermost of the job's own Python code; what asks PyTorch's loader for a batch is no more
 * than that. */
static uint32_t own_frame_of(const struct rec_tables *t, uint32_t stack)
{
	for (; stack; stack = t->stacks.data[stack].parent) {
		uint32_t frame = t->stacks.data[stack].frame;
		const struct m_frame *f = &t->frames.data[frame];
		if (f->kind != FRAME_PYTHON || !f->line)
			continue;
		const char *file = strtab_get(&t->strings, f->file, NULL);
		if (!profile_is_library(file))
			return frame;
		if (is_of_loader(file))
			break;
	}
	return BLAME_NO_FRAME;
}

static bool is_compilers_file(const char *file)
{
	static const char *const parts[] = {"/torch/_dynamo/",	  "/torch/_inductor/",
					    "/torch/_functorch/", "-packages/triton/",
					    "-packages/jax/",	  "-packages/numba/"};
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(file, parts[i]))
			return true;
	return false;
}

/* What it was compiled for: the line of Python that called the compiler. One that is Python itself
 * calls other Python code too, so that its outermost frame counts; a native one has it right above.
 * Where there is none, the compiler's own; of a native one none: it is at a thousand places. */
static uint32_t compiled_for(const struct rec_tables *t, uint32_t stack)
{
	uint32_t ret = BLAME_NO_FRAME;
	bool native = false;
	for (uint32_t s = stack; s && !(native && ret != BLAME_NO_FRAME);
	     s = t->stacks.data[s].parent) {
		uint32_t frame = t->stacks.data[s].frame;
		const struct m_frame *f = &t->frames.data[frame];
		bool python = f->kind == FRAME_PYTHON;
		native |= !python && account_is_compile(t, f);
		if (account_is_compile(t, f) ||
		    (python && is_compilers_file(strtab_get(&t->strings, f->file, NULL))))
			ret = BLAME_NO_FRAME;
		else if (python && f->line && ret == BLAME_NO_FRAME)
			ret = frame;
	}
	return ret == BLAME_NO_FRAME && !native ? blame_frame_of_stack(t, stack) : ret;
}

struct blame_sample blame_sample_of_stack(const struct rec_tables *t, uint32_t stack)
{
	struct blame_sample ret = {.frame = blame_frame_of_stack(t, stack),
				   .own = own_frame_of(t, stack),
				   .loads = is_in_loader(t, stack),
				   .fills = fills_pages(t, stack),
				   .kind = kind_of_stack(t, stack),
				   .runs = (uint8_t)account_owner_of_stack(t, stack)};
	if (ret.runs == ACCOUNT_COMPILE && ret.kind != BLAME_SAVES) {
		ret.kind = BLAME_COMPILES;
		ret.frame = compiled_for(t, stack);
	}
	return ret;
}
