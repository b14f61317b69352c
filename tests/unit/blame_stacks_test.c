/* blame_stacks_test.c - what a sample says of its thread, by its stack alone.
 * links: analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyze/blame_impl.h"
#include "made_file.h"
#include "recording/recording.h"

static struct rec_writer *w;
static struct rec_reader *reader;

static int create(void **state)
{
	struct err e = {0};
	(void)state;
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	return 0;
}

static int done(void **state)
{
	(void)state;
	rec_close(reader);
	return 0;
}

static uint32_t python(uint32_t parent, const char *function, const char *file, uint32_t line)
{
	uint32_t frame =
		rec_add_frame(w, &(struct m_frame){.kind = FRAME_PYTHON,
						   .name = (uint32_t)rec_string_z(w, function),
						   .file = (uint32_t)rec_string_z(w, file),
						   .line = line});
	return rec_add_stack(w, &(struct m_stack){parent, frame});
}

static uint32_t native(uint32_t parent, const char *function, const char *library)
{
	uint32_t frame =
		rec_add_frame(w, &(struct m_frame){.kind = FRAME_NATIVE,
						   .name = (uint32_t)rec_string_z(w, function),
						   .library = (uint32_t)rec_string_z(w, library)});
	return rec_add_stack(w, &(struct m_stack){parent, frame});
}

static const struct rec_tables *opened(void)
{
	struct err e = {0};
	if (rec_writer_close(w, false, &e) || rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	return rec_tables(reader);
}

static void is(const struct rec_tables *t, uint32_t stack, enum blame_kind kind, const char *name)
{
	struct blame_sample s = blame_sample_of_stack(t, stack);
	assert_int_equal(s.kind, kind);
	if (!name) {
		assert_int_equal(s.frame, BLAME_NO_FRAME);
		return;
	}
	assert_string_equal(strtab_get(&t->strings, t->frames.data[s.frame].name, NULL), name);
}

/* What it is for is the code that called the compiler, not the compiler's own, also where that lies
 * in a call of another compiler's; nor is that which was compiled. */
static void what_was_compiled_for(void **state)
{
	(void)state;
	uint32_t train = python(0, "main", "/job/train.py", 10);
	uint32_t attends = python(train, "attention", "/x/transformers/attention.py", 158);
	uint32_t built = native(native(attends, "at::attention", "/x/libtorch_cuda.so"),
				"nvrtcCompileProgram", "/x/libnvrtc.so.12");
	uint32_t runs = native(attends, "at::attention", "/x/libtorch_cuda.so");
	uint32_t called = python(train, "_fn", "/x/dist-packages/torch/_dynamo/eval_frame.py", 40);
	uint32_t converts = python(called, "_convert_frame",
				   "/x/dist-packages/torch/_dynamo/convert_frame.py", 9);
	uint32_t works =
		python(python(converts, "codegen", "/x/dist-packages/torch/_inductor/graph.py", 70),
		       "sorted", "/usr/lib/python3.12/heapq.py", 12);
	uint32_t compiled = python(called, "call", "/tmp/torchinductor_root/ab/cab.py", 33);
	uint32_t jits =
		python(train, "backend_compile", "/x/dist-packages/jax/_src/compiler.py", 300);
	uint32_t numba =
		python(train, "compile_extra", "/x/dist-packages/numba/core/compiler.py", 750);
	uint32_t beside = native(native(0, "start_thread", "/lib/libc.so.6"), "compiles",
				 "/x/libnvidia-ptxjitcompiler.so.580.1");
	uint32_t graph_break = native(python(called, "eager", "/job/attention.py", 7),
				      "nvrtcCompileProgram", "/x/libnvrtc.so.12");
	uint32_t pool = native(0, "tsl::PThread::ThreadFn", "/x/xla_cuda_plugin.so");
	uint32_t llvm = native(native(pool, "llvm::legacy::PassManager::run", "/x/p.so"), "malloc",
			       "/lib/libc.so.6");
	uint32_t xla = native(native(pool, "xla::gpu::GpuCompiler::RunBackend", "/x/p.so"),
			      "malloc", "/lib/libc.so.6");
	uint32_t thunk = native(native(pool, "xla::cpu::CopyThunk::Execute", "/x/p.so"), "memcpy",
				"/lib/libc.so.6");
	uint32_t own = python(python(0, "main", "/home/me/jax/train.py", 4), "backend_compile",
			      "/x/dist-packages/jax/_src/compiler.py", 300);
	uint32_t saves = python(attends, "save", "/x/dist-packages/torch/serialization.py", 960);
	const struct rec_tables *t = opened();
	is(t, built, BLAME_COMPILES, "attention");
	is(t, runs, BLAME_RUNS, "attention");
	is(t, works, BLAME_COMPILES, "main");
	is(t, compiled, BLAME_RUNS, "call");
	is(t, jits, BLAME_COMPILES, "main");
	is(t, numba, BLAME_COMPILES, "main");
	is(t, beside, BLAME_COMPILES, NULL);
	is(t, llvm, BLAME_COMPILES, NULL);
	is(t, xla, BLAME_COMPILES, NULL);
	is(t, thunk, BLAME_RUNS, "xla::cpu::CopyThunk::Execute");
	is(t, graph_break, BLAME_COMPILES, "eager");
	is(t, own, BLAME_COMPILES, "main");
	is(t, saves, BLAME_SAVES, "save");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_compiled_for, create, done),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}
