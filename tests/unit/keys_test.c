/* keys_test.c - which events are alike: texts and numbers of keys, and that there are not too many.
 * links: detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/keys.h"
#include "detect_names.h"

static struct fake_names fake;
static struct detect_names names;
static struct detect_keys *keys;

static int begin(void **state)
{
	(void)state;
	fake_names_make(&fake);
	names = fake_names_of(&fake);
	keys = detect_keys_new(64, KEYS_WHOLE);
	return 0;
}

static int end(void **state)
{
	(void)state;
	detect_keys_free(keys);
	strtab_free(&fake.strings);
	return 0;
}

static void expect_key(uint32_t number, enum detect_layer layer, const char *text, const char *name)
{
	struct detect_key key;
	detect_keys_get(keys, number, &key);
	assert_string_equal(key.text, text);
	assert_string_equal(key.name, name);
	assert_int_equal(key.layer, layer);
	/* A model has the text alone. */
	assert_int_equal(detect_keys_text(keys, layer, text), number);
}

static uint32_t number_of(enum fake_probe probe, uint64_t first, uint64_t second)
{
	struct m_call c = fake_call(probe, 0, 1000, 10);
	c.args[0] = first;
	c.args[1] = second;
	return detect_keys_call(keys, &names, &c).number;
}

static uint64_t shape2(uint64_t rows, uint64_t columns)
{
	return shape_pack((const __u64[SHAPE_DIMS]){rows, columns}, 2);
}

/* One that only a file names is judged by its calls too, eight of them, and no text else. */
static void named_layers_have_keys(void **state)
{
	(void)state;
	struct detect_layers *layers = detect_keys_layers(keys);
	fake.probes[FAKE_OTHER_LAYER].layer = fake_string(&fake, "mylib");
	uint32_t number = number_of(FAKE_OTHER_LAYER, 0, 0);
	assert_int_not_equal(number, 0);
	assert_int_equal(layers->len, 1);
	assert_string_equal(detect_layer_name(layers, DETECT_NAMED), "mylib");
	assert_int_equal(detect_layer_add(layers, "mylib"), DETECT_NAMED);
	static const char *const bad[] = {"",	 "A",	 "9lib",
					  "a b", "a\n",	 "all",
					  "gpu", "user", "a-name-that-is-too-long-for-one"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(detect_layer_add(layers, bad[i]), DETECT_LAYERS);
	char name[] = "lib0";
	for (uint32_t l = DETECT_NAMED + 1; l < DETECT_LAYERS; l++) {
		name[3]++;
		assert_int_equal(detect_layer_add(layers, name), l);
	}
	assert_int_equal(detect_layer_add(layers, "another"), DETECT_LAYERS);
	detect_keys_forget_rows(keys);
	fake.probes[FAKE_OTHER_LAYER].layer = fake_string(&fake, "another");
	assert_int_equal(number_of(FAKE_OTHER_LAYER, 0, 0), 0);
}

static void calls_have_texts(void **state)
{
	(void)state;
	expect_key(number_of(FAKE_OPERATOR, shape2(128, 768), shape2(768, 3072)), DETECT_TORCH,
		   "aten::mm [128,768][768,3072]", "aten::mm");
	expect_key(number_of(FAKE_OPERATOR, SHAPE_UNKNOWN, shape2(5, 0)), DETECT_TORCH,
		   "aten::mm [?][5,0]", "aten::mm");
	expect_key(number_of(FAKE_FUNCTION, 1, 0), DETECT_PYTHON, "forward (model.py:11)",
		   "forward");
	expect_key(number_of(FAKE_COPY, 0x7f00, 1 << 20), DETECT_CUDA, "cuMemcpyHtoD_v2 2^20",
		   "cuMemcpyHtoD_v2");
	uint64_t kernel =
		fake_string(&fake, "void at::native::vectorized_kernel<4, at::Add<float> >(int)");
	expect_key(number_of(FAKE_LAUNCH, kernel, dim3_pack(8, 1, 1)), DETECT_CUDA,
		   "cuLaunchKernel vectorized_kernel<4, Add<float>>",
		   "cuLaunchKernel vectorized_kernel<4, Add<float>>");
	expect_key(number_of(FAKE_RUNTIME_COPY, 4096, 1), DETECT_CUDA, "cudaMemcpyAsync HtoD 2^12",
		   "cudaMemcpyAsync HtoD");
	expect_key(number_of(FAKE_INSTANT, fake_string(&fake, "Optimizer.step#SGD.step"), 0),
		   DETECT_TORCH, "Optimizer.step#SGD.step", "Optimizer.step#SGD.step");
	assert_int_equal(number_of(FAKE_OTHER_LAYER, 0, 0), 0);
	assert_int_equal(number_of(FAKE_PROBES, 0, 0), 0);
	assert_int_equal(detect_keys_count(keys), 7);
}

static uint32_t operator_at(enum fake_probe probe, uint32_t thread, uint64_t start_ns, uint64_t ns,
			    uint64_t rows)
{
	struct m_call c = fake_call(probe, thread, start_ns, ns);
	if (probe == FAKE_OPERATOR) {
		c.args[0] = shape2(rows, 64);
		c.args[1] = shape2(64, 64);
	} else {
		c.nargs = 0;
	}
	return detect_keys_call(keys, &names, &c).number;
}

/* aten::linear takes as long as the aten::mm that it calls. */
static void an_operator_has_the_shapes_of_what_it_calls(void **state)
{
	(void)state;
	fake.probes[FAKE_INSTANT].name = fake_string(&fake, "aten::linear");
	fake.probes[FAKE_INSTANT].nargs = 0;
	fake.probes[FAKE_INSTANT].name_arg = -1;
	operator_at(FAKE_OPERATOR, 0, 1000, 10, 128);
	uint32_t small = operator_at(FAKE_INSTANT, 0, 990, 30, 0);
	expect_key(small, DETECT_TORCH, "aten::linear [128,64][64,64]", "aten::linear");
	operator_at(FAKE_OPERATOR, 0, 2000, 10, 512);
	uint32_t large = operator_at(FAKE_INSTANT, 0, 1990, 30, 0);
	expect_key(large, DETECT_TORCH, "aten::linear [512,64][64,64]", "aten::linear");
	operator_at(FAKE_OPERATOR, 0, 3000, 10, 128);
	assert_int_equal(operator_at(FAKE_INSTANT, 0, 2990, 30, 0), small);
	/* not what was called before it, or by another thread meanwhile */
	uint32_t plain = operator_at(FAKE_INSTANT, 0, 3030, 30, 0);
	expect_key(plain, DETECT_TORCH, "aten::linear", "aten::linear");
	operator_at(FAKE_OPERATOR, 1, 4000, 10, 128);
	assert_int_equal(operator_at(FAKE_INSTANT, 0, 3990, 30, 0), plain);
	operator_at(FAKE_OPERATOR, 0, 5000, 10, 128);
	operator_at(FAKE_OPERATOR, 256, 5001, 10, 512); /* the same place */
	assert_int_equal(operator_at(FAKE_INSTANT, 0, 4990, 30, 0), plain);
}

/* Pointers are no part of a key, sizes are one by their powers. */
static void what_is_alike_has_one_number(void **state)
{
	(void)state;
	uint32_t copy = number_of(FAKE_COPY, 1, 1 << 20);
	assert_int_equal(number_of(FAKE_COPY, 2, (1 << 20) + 5), copy);
	assert_int_equal(number_of(FAKE_COPY, 2, (1 << 21) - 1), copy);
	assert_int_not_equal(number_of(FAKE_COPY, 2, 1 << 21), copy);
	expect_key(number_of(FAKE_COPY, 2, 0), DETECT_CUDA, "cuMemcpyHtoD_v2 2^0",
		   "cuMemcpyHtoD_v2");
	/* Sequences of all lengths do not make a key each. */
	uint32_t before = detect_keys_count(keys);
	for (uint64_t n = 64; n < 128; n++)
		number_of(FAKE_OPERATOR, shape2(n, 64), shape2(64, 64));
	assert_int_equal(detect_keys_count(keys) - before, 4);
	/* A launch takes as long for any grid, but it is other work. */
	struct m_call c = fake_call(FAKE_LAUNCH, 0, 1, 1);
	c.args[0] = fake_string(&fake, "kernel_a(int)");
	c.args[1] = dim3_pack(8, 1, 1);
	struct detect_keyed small = detect_keys_call(keys, &names, &c);
	c.args[1] = dim3_pack(16, 1, 1);
	struct detect_keyed large = detect_keys_call(keys, &names, &c);
	assert_int_equal(small.number, large.number);
	assert_int_equal(small.function, large.function);
	assert_int_not_equal(small.size, large.size);
	assert_int_not_equal(small.size, 0);
}

static struct m_gpu_span span_of(const char *kernel, uint64_t at_ns)
{
	return (struct m_gpu_span){.start_ns = at_ns + 500,
				   .end_ns = at_ns + 900,
				   .pid = 100,
				   .work = WORK_KERNEL,
				   .name = fake_string(&fake, kernel),
				   .grid = dim3_pack(24, 1, 1),
				   .called_ns = at_ns,
				   .called_tid = 1000};
}

static void spans_have_texts(void **state)
{
	(void)state;
	struct m_gpu_span s = span_of("gemm", 0);
	expect_key(detect_keys_gpu_span(keys, &names, &s).number, DETECT_CUDA,
		   "kernel gemm 2^4 blocks", "kernel gemm");
	s.work = WORK_COPY;
	s.copy_kind = 1;
	s.bytes = 1 << 16;
	s.source_kind = MEMORY_PINNED;
	s.destination_kind = MEMORY_DEVICE;
	expect_key(detect_keys_gpu_span(keys, &names, &s).number, DETECT_CUDA,
		   "copy HtoD pinned 2^16", "copy HtoD pinned");
	s.source_kind = MEMORY_PAGEABLE;
	expect_key(detect_keys_gpu_span(keys, &names, &s).number, DETECT_CUDA,
		   "copy HtoD pageable 2^16", "copy HtoD pageable");
	s.work = WORK_SYNC;
	assert_int_equal(detect_keys_gpu_span(keys, &names, &s).number, 0);
}

/* A kernel of NCCL is of the collective around its launch, or of the group that ends then. */
static void collectives_tell_their_kernels(void **state)
{
	(void)state;
	fake.comms = 1;
	fake.comm = (struct m_comm){.handle = 0xabc, .size = 4, .hash = 7};
	struct m_call c = fake_call(FAKE_ALL_REDUCE, 0, 10000, 100);
	c.args[0] = 0xabc;
	c.args[1] = 1 << 22;
	expect_key(detect_keys_call(keys, &names, &c).number, DETECT_NCCL,
		   "ncclAllReduce 2^22 of 4", "ncclAllReduce");
	struct m_call start = fake_call(FAKE_GROUP_START, 0, 20000, 1);
	struct m_call grouped = fake_call(FAKE_ALL_REDUCE, 0, 20100, 5);
	struct m_call finish = fake_call(FAKE_GROUP_END, 0, 21000, 100);
	grouped.args[1] = 1 << 10;
	detect_keys_call(keys, &names, &start);
	detect_keys_call(keys, &names, &grouped);
	detect_keys_call(keys, &names, &grouped);
	detect_keys_call(keys, &names, &finish);
	struct m_gpu_span s = span_of("ncclDevKernel_AllReduce", 10050);
	expect_key(detect_keys_gpu_span(keys, &names, &s).number, DETECT_NCCL,
		   "kernel ncclDevKernel_AllReduce 2^22", "kernel ncclDevKernel_AllReduce");
	s = span_of("ncclDevKernel_AllReduce", 21050);
	expect_key(detect_keys_gpu_span(keys, &names, &s).number, DETECT_NCCL,
		   "kernel ncclDevKernel_AllReduce 2^11", "kernel ncclDevKernel_AllReduce");
	struct detect_keyed between, after;
	s = span_of("ncclDevKernel_AllReduce", 15000); /* in no call */
	between = detect_keys_gpu_span(keys, &names, &s);
	s = span_of("ncclDevKernel_AllReduce", 50000);
	after = detect_keys_gpu_span(keys, &names, &s);
	assert_int_equal(between.number, after.number);
	expect_key(detect_keys_gpu_span(keys, &names, &s).number, DETECT_NCCL,
		   "kernel ncclDevKernel_AllReduce 2^4 blocks", "kernel ncclDevKernel_AllReduce");
}

static void beyond_the_most_keys_are_one(void **state)
{
	(void)state;
	struct detect_key key;
	char name[32];
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "range %d", i);
		number_of(FAKE_INSTANT, fake_string(&fake, name), 0);
	}
	number_of(FAKE_COPY, 0, 1 << 20);
	assert_int_equal(detect_keys_count(keys), 64 + 2);
	detect_keys_get(keys, number_of(FAKE_INSTANT, fake_string(&fake, "range 9000"), 0), &key);
	assert_string_equal(key.text, "(other)");
	assert_int_equal(key.layer, DETECT_TORCH);
	/* What was met in time has its own number still. */
	detect_keys_get(keys, number_of(FAKE_INSTANT, fake_string(&fake, "range 3"), 0), &key);
	assert_string_equal(key.text, "range 3");
}

/* Texts of any length stay apart, and end lines nowhere. */
static void hostile_names(void **state)
{
	(void)state;
	struct detect_key key;
	char name[2000];
	memset(name, 'a', sizeof(name));
	name[1999] = 0;
	uint32_t first = number_of(FAKE_INSTANT, fake_string(&fake, name), 0);
	name[1998] = 'b';
	uint32_t second = number_of(FAKE_INSTANT, fake_string(&fake, name), 0);
	assert_int_not_equal(first, second);
	detect_keys_get(keys, first, &key);
	assert_true(strlen(key.text) < KEY_TEXT_BYTES);
	detect_keys_get(keys, number_of(FAKE_INSTANT, fake_string(&fake, "a\tb\nc"), 0), &key);
	assert_string_equal(key.text, "a b c");
	detect_keys_get(keys, number_of(FAKE_FUNCTION, 1ULL << 40, 0), &key);
	assert_string_equal(key.text, "?");
	assert_int_equal(detect_keys_text(keys, DETECT_TORCH, "a\tb"), 0);
	assert_int_equal(detect_keys_text(keys, DETECT_HOST, "cpu"), 0);
	detect_keys_get(keys, 0, &key);
	assert_string_equal(key.text, "");
	detect_keys_get(keys, 5000, &key);
	assert_string_equal(key.text, "");
}

/* Another recording: the same number of a string means another name. */
static void rows_are_forgotten(void **state)
{
	(void)state;
	uint32_t before = number_of(FAKE_INSTANT, fake_string(&fake, "one"), 0);
	detect_keys_forget_rows(keys);
	strtab_free(&fake.strings);
	fake_names_make(&fake);
	fake_string(&fake, "two");
	uint32_t two = number_of(FAKE_INSTANT, fake_string(&fake, "two"), 0);
	assert_int_not_equal(two, before);
	assert_int_equal(number_of(FAKE_INSTANT, fake_string(&fake, "one"), 0), before);
}

static void less_depth(void **state)
{
	(void)state;
	struct detect_key key;
	detect_keys_free(keys);
	keys = detect_keys_new(64, KEYS_FUNCTIONS);
	assert_int_equal(number_of(FAKE_COPY, 0, 1 << 20), number_of(FAKE_COPY, 0, 1));
	detect_keys_get(keys, number_of(FAKE_RUNTIME_COPY, 1, 2), &key);
	assert_string_equal(key.text, "cudaMemcpyAsync DtoH");
	detect_keys_free(keys);
	keys = detect_keys_new(64, KEYS_LAYERS);
	assert_int_equal(number_of(FAKE_COPY, 0, 1 << 20), number_of(FAKE_LAUNCH, 0, 1));
	assert_int_equal(detect_keys_count(keys), 1);
}

/* NCCL gives the address of a communicator that was destroyed to the next one. */
static void a_handle_may_mean_another_communicator(void **state)
{
	(void)state;
	struct detect_key key;
	fake.comms = 1;
	fake.comm = (struct m_comm){.pid = 100, .handle = 0xc0, .size = 4};
	detect_keys_get(keys, number_of(FAKE_ALL_REDUCE, 0xc0, 1 << 22), &key);
	assert_string_equal(key.text, "ncclAllReduce 2^22 of 4");
	number_of(FAKE_COMM_DESTROY, 0xc0, 0);
	fake.comm.size = 8;
	detect_keys_get(keys, number_of(FAKE_ALL_REDUCE, 0xc0, 1 << 22), &key);
	assert_string_equal(key.text, "ncclAllReduce 2^22 of 8");
}

static bool saves(enum detect_layer layer, const char *text)
{
	struct detect_key key;
	detect_keys_get(keys, detect_keys_text(keys, layer, text), &key);
	return key.saves;
}

/* Of a call that was traced, or of a model's text: the file and the function tell. */
static void parts_of_a_checkpoint_save(void **state)
{
	(void)state;
	static const char *const those[] = {
		"save (serialization.py:960)", /* torch.save */
		"_legacy_save (serialization.py:1015)",
		"_save (serialization.py:1207)",
		"save (state_dict_saver.py:90)", /* torch.distributed.checkpoint */
		"_save_state_dict (state_dict_saver.py:400)",
		"async_save (state_dict_saver.py:250)",
		"save_file (torch.py:280)", /* safetensors */
	};
	static const char *const others[] = {
		"load (serialization.py:1300)",
		"_load (serialization.py:1900)",
		"save (model.py:12)",
		"serialization.py (save.py:1)",
		"forward (torch.py:12)",
		"load_file (torch.py:300)",
		"save_file (my_torch.py:3)",
		"load (state_dict_loader.py:80)",
		"import torch",
		"save",
		"",
	};
	for (size_t i = 0; i < sizeof(those) / sizeof(those[0]); i++)
		if (!saves(DETECT_PYTHON, those[i]))
			fail_msg("'%s' does not save", those[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (saves(DETECT_PYTHON, others[i]))
			fail_msg("'%s' saves", others[i]);
	assert_false(saves(DETECT_TORCH, those[0]));
	struct m_call c = fake_call(FAKE_FUNCTION, 0, 1000, 10);
	struct detect_key key;
	fake.codes[2] = (struct m_code){fake_string(&fake, "save"),
					fake_string(&fake, "/lib/torch/serialization.py"), 960};
	c.args[0] = 2;
	detect_keys_get(keys, detect_keys_call(keys, &names, &c).number, &key);
	assert_string_equal(key.text, those[0]);
	assert_true(key.saves);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(calls_have_texts, begin, end),
		cmocka_unit_test_setup_teardown(named_layers_have_keys, begin, end),
		cmocka_unit_test_setup_teardown(an_operator_has_the_shapes_of_what_it_calls, begin,
						end),
		cmocka_unit_test_setup_teardown(what_is_alike_has_one_number, begin, end),
		cmocka_unit_test_setup_teardown(spans_have_texts, begin, end),
		cmocka_unit_test_setup_teardown(collectives_tell_their_kernels, begin, end),
		cmocka_unit_test_setup_teardown(beyond_the_most_keys_are_one, begin, end),
		cmocka_unit_test_setup_teardown(hostile_names, begin, end),
		cmocka_unit_test_setup_teardown(rows_are_forgotten, begin, end),
		cmocka_unit_test_setup_teardown(less_depth, begin, end),
		cmocka_unit_test_setup_teardown(a_handle_may_mean_another_communicator, begin, end),
		cmocka_unit_test_setup_teardown(parts_of_a_checkpoint_save, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
