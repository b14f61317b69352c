/* account_samples.c - what main threads ran, by the samples of the CPU clock. A stack has one
 * owner: the import of a module, the compiler or the call of MPI that is on it, else whose code its
 * leaf is. */
#include <string.h>

#include "analyze/account_impl.h"
#include "base/files.h"

struct reading {
	struct accounting *a;
	uint8_t *owner_of; /* by stack: owner + 1, 0 = not looked at */
};

static const char *base_name(const struct rec_tables *t, uint32_t path)
{
	return path_file_name(strtab_get(&t->strings, path, NULL));
}

static bool starts(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

static bool is_import(const struct rec_tables *t, const struct m_frame *f)
{
	return f->kind == FRAME_PYTHON &&
	       starts(strtab_get(&t->strings, f->file, NULL), "<frozen importlib");
}

static bool ends(const char *s, const char *with)
{
	size_t n = strlen(s), m = strlen(with);
	return n >= m && !strcmp(s + n - m, with);
}

/* CUDA's, of C++ and of PTX, within the driver or beside it; and LLVM. */
static bool is_compilers_library(const char *library)
{
	static const char *const names[] = {
		"libnvrtc",	    "libnvJitLink", "libnvvm",	  "libnvidia-ptxjitcompiler",
		"libnvptxcompiler", "libLLVM",	    "libllvmlite"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (starts(library, names[i]))
			return true;
	return false;
}

/* Where these are within another library: XLA's, which compiles on threads of its own, too. */
static bool is_compilers_function(const char *name)
{
	const char *compile = strstr(name, "::Compile"); /* but not CompiledModule */
	if (starts(name, "llvm::") || starts(name, "mlir::"))
		return strstr(name, "Pass"); /* they have much else, which others use */
	return starts(name, "xla::") &&
	       (strstr(name, "Compiler::") || strstr(name, "Autotuner::") ||
		(compile && compile[strlen("::Compile")] != 'd'));
}

/* torch.compile, Triton, JAX, numba and CUDA's at work, as opposed to what they compiled. */
bool account_is_compile(const struct rec_tables *t, const struct m_frame *f)
{
	const char *file = strtab_get(&t->strings, f->file, NULL);
	const char *name = strtab_get(&t->strings, f->name, NULL);
	if (f->kind == FRAME_NATIVE)
		return is_compilers_library(base_name(t, f->library)) ||
		       is_compilers_function(name);
	if (f->kind != FRAME_PYTHON || !strcmp(name, "<module>"))
		return false;
	return ends(file, "torch/_dynamo/convert_frame.py") ||
	       (ends(file, "torch/_inductor/compile_fx.py") && strstr(name, "compile")) ||
	       (ends(file, "triton/compiler/compiler.py") && !strcmp(name, "compile")) ||
	       ends(file, "jax/_src/compiler.py") ||
	       (ends(file, "jax/_src/interpreters/mlir.py") && starts(name, "lower_")) ||
	       (ends(file, "jax/_src/interpreters/partial_eval.py") && starts(name, "trace_to_")) ||
	       ends(file, "numba/core/compiler.py");
}

static bool is_torch(const struct rec_tables *t, const struct m_frame *f)
{
	const char *library = base_name(t, f->library);
	return f->kind == FRAME_NATIVE &&
	       (starts(library, "libtorch") || starts(library, "libc10"));
}

/* Open MPI's, MPICH's and those made of it: what they call is theirs. */
static bool is_mpi(const struct rec_tables *t, const struct m_frame *f)
{
	return f->kind == FRAME_NATIVE && starts(base_name(t, f->library), "libmpi");
}

/* Works for whoever calls it. */
static bool is_libc(const struct rec_tables *t, const struct m_frame *f)
{
	const char *library = base_name(t, f->library);
	return starts(library, "libc.so") || starts(library, "libc-") ||
	       starts(library, "libm.so") || starts(library, "libpthread") ||
	       starts(library, "ld-linux");
}

enum account_owner account_owner_of_stack(const struct rec_tables *t, uint32_t stack)
{
	enum account_owner owner = ACCOUNT_CPU;
	bool torch = false;
	for (; stack; stack = t->stacks.data[stack].parent) {
		const struct m_frame *f = &t->frames.data[t->stacks.data[stack].frame];
		if (is_import(t, f))
			return ACCOUNT_IMPORT;
		if (account_is_compile(t, f))
			return ACCOUNT_COMPILE;
		if (is_mpi(t, f))
			return ACCOUNT_MPI;
		torch = torch || is_torch(t, f);
		if (owner != ACCOUNT_CPU || (f->kind == FRAME_NATIVE && is_libc(t, f)))
			continue;
		if (f->kind == FRAME_KERNEL)
			owner = ACCOUNT_KERNEL;
		else if (f->kind == FRAME_PYTHON || (f->kind == FRAME_NATIVE && f->in_python))
			owner = ACCOUNT_PYTHON;
		else if (f->kind == FRAME_NATIVE)
			owner = ACCOUNT_NATIVE;
	}
	if (owner == ACCOUNT_CPU) /* nothing but the C library */
		return ACCOUNT_NATIVE;
	return owner == ACCOUNT_NATIVE && torch ? ACCOUNT_OPERATORS : owner;
}

static void add_samples(void *ctx, const struct visited_rows *rows)
{
	struct reading *r = ctx;
	struct accounting *a = r->a;
	const struct m_sample *samples = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_sample *s = &samples[i];
		if (a->on_gpu && s->kind == SAMPLE_OFFCPU && s->reason == WAIT_GPU)
			map64_set(a->on_gpu, a->t->threads.data[s->thread].pid, 1);
		size_t at = account_place(a, s->thread, s->time_ns);
		/* what spins until the GPU is ready has its owner */
		if (s->kind != SAMPLE_CPU || at == SIZE_MAX ||
		    stretches_within(&a->syncs, s->thread, s->time_ns, s->time_ns + 1))
			continue;
		if (!r->owner_of[s->stack])
			r->owner_of[s->stack] =
				(uint8_t)(account_owner_of_stack(a->t, s->stack) + 1);
		a->running[at].samples[r->owner_of[s->stack] - 1]++;
		a->ret->threads.data[at].samples++;
	}
}

void syncs_load(struct accounting *a, const struct timeline *t)
{
	for (size_t i = 0; i < t->calls.len; i++) {
		const struct timeline_call *c = &t->calls.data[i];
		const struct timeline_call_kind *k = timeline_call_kind_of(t, c);
		uint64_t unused;
		if (timeline_call_waits(t, k) && map64_get(&a->place_of, k->thread, &unused))
			*vec_push(&a->syncs.all) =
				(struct keyed_stretch){k->thread, c->start_ns, c->end_ns};
	}
	for (size_t i = 0; a->through && i < a->through->all.len; i++) {
		uint64_t unused;
		if (map64_get(&a->place_of, a->through->all.data[i].key, &unused))
			*vec_push(&a->syncs.all) = a->through->all.data[i];
	}
	stretches_end(&a->syncs);
}

void account_read_samples(struct accounting *a, const struct row_source *s)
{
	struct reading r = {a, xcalloc(a->t->stacks.len + 1, 1)};
	rows_read(s, ROW_SAMPLE, add_samples, &r);
	free(r.owner_of);
}

void account_split(uint64_t ns[static ACCOUNT_OWNERS], const uint32_t samples[static ACCOUNT_RUNS],
		   uint64_t left)
{
	uint64_t left_ns = ns[ACCOUNT_CPU];
	if (!left)
		return;
	ns[ACCOUNT_CPU] = 0;
	for (int k = 0; k < ACCOUNT_RUNS && left; k++) { /* the last one has what rounding leaves */
		uint64_t n = samples[k];
		uint64_t part_ns = n == left
					   ? left_ns
					   : (uint64_t)((double)left_ns * (double)n / (double)left);
		ns[k] += part_ns;
		left_ns -= part_ns;
		left -= n;
	}
}
