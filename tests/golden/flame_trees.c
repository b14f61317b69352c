/* flame_trees.c - call trees of known weights: a training run, hostile names, nothing, one
 * frame, deep and wide ones, two runs compared, bytes, and as many frames as a large run has. */
#include "golden/flame_trees.h"

#include <stdio.h>

#define LIBTORCH "/usr/lib/python3/dist-packages/torch/lib/libtorch_cpu.so"
#define LIBC	 "/usr/lib/x86_64-linux-gnu/libc.so.6"
#define PYTHON	 "/usr/bin/python3.11"

static uint32_t below(struct calltree *t, uint32_t parent, enum calltree_kind kind,
		      const char *name, const char *file, uint32_t line, const char *library)
{
	return calltree_child(t, parent, calltree_frame(t, kind, name, file, line, library));
}

static uint32_t native(struct calltree *t, uint32_t parent, const char *name, const char *library)
{
	return below(t, parent, CALLTREE_NATIVE, name, "", 0, library);
}

static uint32_t python(struct calltree *t, uint32_t parent, const char *name, uint32_t line)
{
	return below(t, parent, CALLTREE_PYTHON, name, "/home/user/gpt/train.py", line, "");
}

static void add_ms(struct calltree *t, uint32_t node, int64_t ms, int which)
{
	calltree_add(t, node, ms * 1000000, which);
}

/* 60 s: 49 in train_step, 8 in loading data, 2 in start-up, 1 in another thread. */
static void training(struct calltree *t, int which, int64_t attention_ms)
{
	uint32_t start = native(t, 0, "_start", PYTHON);
	calltree_build_id(t, PYTHON, "");
	calltree_build_id(t, PYTHON, "0123456789abcdef0123456789abcdef01234567");
	calltree_build_id(t, PYTHON, "ffff"); /* of another process: the first stays */
	uint32_t runtime =
		native(t, native(t, start, "__libc_start_main", LIBC), "Py_RunMain", PYTHON);
	uint32_t module = python(t, runtime, "<module>", 88);
	uint32_t step = python(t, module, "train_step", 41);
	uint32_t forward = python(t, step, "GPT.forward", 17);
	uint32_t linear = below(t, forward, CALLTREE_OPERATOR, "aten::linear", "", 0, "");
	uint32_t attention = below(t, forward, CALLTREE_OPERATOR,
				   "aten::scaled_dot_product_attention", "", 0, "");
	uint32_t gemm =
		native(t,
		       native(t, linear,
			      "at::native::structured_addmm_out_cpu::impl(at::Tensor const&, "
			      "at::Tensor const&, c10::Scalar const&, at::Tensor const&)",
			      LIBTORCH),
		       "mkl_blas_avx512_sgemm_kernel_0", LIBTORCH);
	uint32_t launch = native(t, attention, "cudaLaunchKernel", "/usr/lib/libcudart.so.12");
	uint32_t flash = below(t, launch, CALLTREE_GPU,
			       "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >",
			       "", 0, "");
	uint32_t backward = python(t, step, "Tensor.backward", 52);
	uint32_t engine =
		native(t, backward, "torch::autograd::Engine::evaluate_function", LIBTORCH);
	uint32_t optimizer = python(t, step, "AdamW.step", 55);
	uint32_t data = python(t, module, "DataLoader.__next__", 33);
	uint32_t copy = below(t, native(t, data, "read", LIBC), CALLTREE_KERNEL,
			      "copy_page_to_iter", "", 0, "");
	uint32_t import = python(t, module, "<import>", 1);
	uint32_t other = below(t, 0, CALLTREE_OTHER, "[stack cut: no rules]", "", 0, "");
	add_ms(t, gemm, 15000, which);
	add_ms(t, linear, 1000, which);
	add_ms(t, flash, attention_ms, which);
	add_ms(t, launch, 500, which);
	add_ms(t, engine, 18000, which);
	add_ms(t, optimizer, 5500, which);
	add_ms(t, copy, 6000, which);
	add_ms(t, data, 2000, which);
	add_ms(t, import, 2000, which);
	add_ms(t, other, 1000, which);
}

static void plain(struct calltree *t)
{
	training(t, 0, 9000);
}

static void differential(struct calltree *t)
{
	t->differential = true;
	training(t, 0, 9000);
	training(t, 1, 4000);
	uint32_t step = python(t, 0, "only_in_base", 7), fresh = python(t, 0, "only_in_new", 8);
	add_ms(t, step, 3000, 1);
	add_ms(t, fresh, 1000, 0);
}

static void hostile(struct calltree *t)
{
	static const char *const names[] = {
		"<script>alert(1)</script>",
		"\"quotes\" and 'quotes' & &amp; &#60;",
		"]]><![CDATA[ --> <!-- </metadata></style></svg>",
		"\x01\x02\t\r\n\x1b[31m control \x7f",
		"invalid \xff\xfe\xc0\x80 \xed\xa0\x80 utf-8",
		"U+FFFE \xef\xbf\xbe and U+FFFF \xef\xbf\xbf",
		"javascript:alert(2)",
		"\\u0000\\\"};alert(3);//",
		"",
		"\xe5\x87\xbd\xe6\x95\xb0 operator()(int*) [clone .part.0] a|b .* (",
		"__proto__",
		"constructor;with;semicolons 12",
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint32_t node = below(t, 0, (enum calltree_kind)(i % CALLTREE_KINDS), names[i],
				      names[(i + 1) % 8], (uint32_t)i, names[(i + 2) % 8]);
		calltree_add(t, node, 1000 + (int64_t)i, 0);
	}
}

static void deep(struct calltree *t)
{
	uint32_t node = 0;
	for (uint32_t i = 0; i < 5000; i++)
		node = python(t, node, "recurse", i % 3);
	calltree_add(t, node, 77, 0);
}

static void wide(struct calltree *t)
{
	char name[32];
	for (int i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "function_%d", i);
		calltree_add(t, native(t, 0, name, LIBC), i < 10 ? 1000000 : 10, 0);
	}
}

static void one(struct calltree *t)
{
	calltree_add(t, native(t, 0, "main", "/bin/one"), 5, 0);
}

static void empty(struct calltree *t)
{
	(void)t;
}

static void bytes(struct calltree *t)
{
	uint32_t step = python(t, 0, "train_step", 41);
	calltree_add(t, native(t, step, "cudaMalloc", "/usr/lib/libcudart.so.12"), 3LL << 30, 0);
	calltree_add(t, python(t, step, "Tensor.to", 9), 512LL << 20, 0);
	calltree_add(t, python(t, step, "pin_memory", 9), 4097, 0);
}

/* 200,000 nodes 40 deep, of numbers that are the same on every run. */
static void large(struct calltree *t)
{
	char name[64];
	uint64_t random = 42;
	while (t->nodes.len < 200000) {
		uint32_t node = 0;
		for (int d = 0; d < 40; d++) {
			random = random * 6364136223846793005ULL + 1442695040888963407ULL;
			uint64_t r = random >> 40;
			unsigned n = (unsigned)(r % 16 * (r >> 4) % 16 / (1 + (r >> 10) % 4));
			snprintf(name, sizeof(name), "library_%u::Class_%d::method_%u", n % 4, d,
				 n);
			node = below(t, node, (enum calltree_kind)(n % CALLTREE_KINDS), name, "", 0,
				     LIBTORCH);
			if ((random >> 33) % 30 == 0)
				break;
		}
		calltree_add(t, node, 10101010, 0);
	}
}

/* 5,000 threads of the same weight, each narrower than a pixel and wider than a tenth. */
static void threads(struct calltree *t)
{
	char name[32];
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "thread_%04d", i);
		uint32_t node = native(t, 0, name, LIBC);
		for (int d = 0; d < 9; d++)
			node = native(t, node, "worker", LIBC);
		calltree_add(t, node, 10101010, 0);
	}
}

static const struct {
	const char *name, *title, *unit, *type;
	void (*fill)(struct calltree *t);
} trees[] = {
	{"training", "CPU time of train.py", "ns", "cpu", plain},
	{"differential", "CPU time of train.py against yesterday", "ns", "cpu", differential},
	{"hostile", "</title><script>alert(0)</script> \x02\xff", "count", "cpu", hostile},
	{"deep", "Recursion", "count", "cpu", deep},
	{"wide", "Many functions", "ns", "cpu", wide},
	{"one", "One frame", "count", "cpu", one},
	{"empty", "Nothing", "ns", "offcpu", empty},
	{"bytes", "GPU memory in use", "bytes", "gpu_inuse", bytes},
	{"large", "A large run", "ns", "cpu", large},
	{"threads", "Many threads", "ns", "cpu", threads},
};
#define TREES (sizeof(trees) / sizeof(trees[0]))

const char *const flame_tree_names[TREES + 1] = {
	"training", "differential", "hostile", "deep",	  "wide", "one",
	"empty",    "bytes",	    "large",   "threads", NULL,
};

void flame_tree_make(struct calltree *t, const char *name)
{
	calltree_init(t);
	for (size_t i = 0; i < TREES; i++) {
		if (strcmp(trees[i].name, name))
			continue;
		free((char *)t->title);
		t->title = xstrdup(trees[i].title);
		t->unit = trees[i].unit;
		t->type = trees[i].type;
		t->start_realtime_ns = 1790000000ULL * 1000000000;
		t->duration_ns = 60ULL * 1000000000;
		t->period_ns = !strcmp(t->unit, "ns") ? 10101010 : 0;
		trees[i].fill(t);
	}
	calltree_sum(t);
}
