/* account_compilers.c - when compilers ran that a process or its children had started: gcc's and
 * CUDA's programs while they live, the workers of torch.compile while they use a CPU. */
#include <fnmatch.h>
#include <string.h>

#include "analyze/account_impl.h"
#include "analyze/programs.h"
#include "base/files.h"

#define GENERATIONS 64

static bool matches(const char *const *patterns, const char *name)
{
	for (; *patterns; patterns++)
		if (!fnmatch(*patterns, name, 0))
			return true;
	return false;
}

/* They live on between what they compile. */
static bool is_worker(const char *program)
{
	return strstr(program, "compile_worker");
}

bool account_is_compiler(const char *program)
{
	static const char *const names[] = {
		"ptxas",       "cicc",	  "nvcc",     "nvlink", "fatbinary",	"cudafe*",
		"cc1",	       "cc1*",	  "cc",	      "c++",	"gcc",		"gcc-*",
		"g++",	       "g++-*",	  "*-gcc",    "*-g++",	"*-gcc-[0-9]*", "*-g++-[0-9]*",
		"clang",       "clang-*", "clang++*", "as",	"*-as",		"ld",
		"ld.*",	       "*-ld",	  "lld",      "ld.lld", "lto1",		"collect2",
		"lto-wrapper", "rustc",	  "tileiras", NULL};
	return matches(names, program) || is_worker(program);
}

static void add(struct accounting *a, uint32_t pid, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t parent = pid;
	for (int i = 0; i < GENERATIONS && map64_get(&a->parent_of, parent, &parent); i++)
		*vec_push(&a->compiles.all) =
			(struct keyed_stretch){(uint32_t)parent, from_ns, to_ns};
}

static void add_samples(void *ctx, const struct visited_rows *rows)
{
	struct accounting *a = ctx;
	const struct m_sample *samples = rows->rows;
	uint64_t unused;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_sample *s = &samples[i];
		uint32_t pid = a->t->threads.data[s->thread].pid;
		if (s->kind == SAMPLE_CPU && map64_get(&a->workers, pid, &unused))
			add(a, pid, s->time_ns > s->weight_ns ? s->time_ns - s->weight_ns : 0,
			    s->time_ns);
	}
}

void compiles_load(struct accounting *a, const struct row_source *s)
{
	for (size_t i = 0; i < a->t->processes.len; i++) {
		const struct m_process *p = &a->t->processes.data[i];
		const char *program = account_program(a->t, p);
		if (is_worker(program))
			map64_set(&a->workers, p->pid, 1);
		else if (account_is_compiler(program))
			add(a, p->pid, p->start_ns, p->end_ns ? p->end_ns : UINT64_MAX);
	}
	if (a->workers.len)
		rows_read(s, ROW_SAMPLE, add_samples, a);
	stretches_end(&a->compiles);
}
