/* kernel_name_test.c - short names of kernels of PyTorch, cuBLAS, CUTLASS, NCCL and Triton,
 * and of text that is none.
 * links: base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/kernel_name.h"

static const char *const cases[][2] = {
	{"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
	 "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, "
	 "3ul>)",
	 "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3>>"},
	{"void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>, "
	 "std::array<char *, (unsigned long)1>>(int, T2, T3)",
	 "vectorized_elementwise_kernel<4, FillFunctor<float>, array<char *, 1>>"},
	{"ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"},
	{"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_"
	 "segment_k_off_kernel__5x_cublas",
	 "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_"
	 "segment_k_off_kernel__5x_cublas"},
	{"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
	 "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"},
	{"triton_poi_fused_add_0", "triton_poi_fused_add_0"},
	{"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<"
	 "at::native::(anonymous namespace)::TensorListMetadata<2>>(T1, T2)",
	 "multi_tensor_apply_kernel<TensorListMetadata<2>>"},
	{"void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<"
	 "at::native::AbsFunctor<float> >(at::TensorIteratorBase&, at::native::AbsFunctor<float> "
	 "const&)::{lambda(int)#1}>(int, at::native::gpu_kernel_impl_nocast<...>::{lambda(int)#1})",
	 "elementwise_kernel<128, 2, {lambda#1}>"},
	{"void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x6_nt_align4>("
	 "cutlass_80_tensorop_s1688gemm_128x64_16x6_nt_align4::Params)",
	 "Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x6_nt_align4>"},
	{"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
	 "at::native::func_wrapper_t<float, at::native::sum_functor<float, float, "
	 "float>::operator()"
	 "(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, float, 4, 4> >(T3)",
	 "reduce_kernel<512, 1, ReduceOp<float, …>>"},
	{"void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, "
	 "false, cutlass::bfloat16_t, Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, "
	 "false, true, false, false, true, true, false>(pytorch_flash::Flash_fwd_params)",
	 "flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, …>, …>"},
	{"std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, "
	 "float, false, true, 8>(cublasGemvParamsEx<int>)",
	 "kernel<int, int, __nv_bfloat16, float, false, true, 8>"},
	{"void cub::DeviceRadixSortSingleTileKernel<cub::Policy900, (bool)0, unsigned int, -1L>("
	 "unsigned int const*)",
	 "DeviceRadixSortSingleTileKernel<Policy900, 0, unsigned int, -1>"},
	{"unsigned long foo::sum(unsigned long const*)", "sum"},
	{"_ZN2at6native4funcEv", "_ZN2at6native4funcEv"},
	{"kernel 0x7f0012345678", "kernel 0x7f0012345678"},
	{"Foo::operator()(int) const", "operator()"},
	{"bool ns::operator< <int>(int)", "operator<<int>"},
	{"", ""},
	{"(", "()"},
	{"<<<<", "<<<<>>>>"},
	{"a<b,,c>", "a<b, , c>"},
	{"::", "::"},
	{")>(", ")>"},
};

static void real_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char got[KERNEL_NAME_BYTES];
		kernel_name_short(got, sizeof(got), cases[i][0]);
		assert_string_equal(got, cases[i][1]);
	}
}

static void unresolved_ones_are_told(void **state)
{
	(void)state;
	assert_false(kernel_name_known(""));
	assert_false(kernel_name_known("kernel 0x7f00"));
	assert_true(kernel_name_known("kernel"));
	assert_true(kernel_name_known("ampere_sgemm_128x64_tn"));
}

/* Any bytes, into any size: terminated, and never more than there is room for. */
static void garbage(void **state)
{
	(void)state;
	static const char letters[] = "a:<>(){}, 4u*&-operator\xc3\xa9\xff";
	srand(1);
	for (int i = 0; i < 200000; i++) {
		char name[65], got[KERNEL_NAME_BYTES + 1];
		size_t len = (size_t)rand() % 64, size = 1 + (size_t)rand() % KERNEL_NAME_BYTES;
		for (size_t k = 0; k < len; k++)
			name[k] = letters[(size_t)rand() % (sizeof(letters) - 1)];
		name[len] = 0;
		memset(got, 'x', sizeof(got));
		kernel_name_short(got, size, name);
		assert_non_null(memchr(got, 0, size));
		assert_int_equal(got[size], 'x');
	}
	char deep[4096];
	for (size_t i = 0; i < sizeof(deep) - 1; i++)
		deep[i] = i % 2 ? '<' : 'a';
	deep[sizeof(deep) - 1] = 0;
	char got[KERNEL_NAME_BYTES];
	kernel_name_short(got, sizeof(got), deep);
	assert_true(strlen(got) < sizeof(got));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_names),
		cmocka_unit_test(unresolved_ones_are_told),
		cmocka_unit_test(garbage),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
