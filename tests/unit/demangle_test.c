/* demangle_test.c - C++ names as people want them, and names made to do harm.
 *
 * links: base symbolize */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "symbolize/demangle.h"

static const struct {
	const char *symbol;
	const char *plain;
	const char *full;
} names[] = {
	{"main", "main", "main"},
	{"_Znot_mangled", "_Znot_mangled", "_Znot_mangled"},
	{"gc_collect_main.constprop.0", "gc_collect_main", "gc_collect_main"},
	{"do_it.part.0.isra.1", "do_it", "do_it"},
	{"_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE",
	 "at::_ops::add_Tensor::call",
	 "at::_ops::add_Tensor::call(at::Tensor const&, at::Tensor const&, c10::Scalar const&)"},
	{"_ZNK5torch3fooEv", "torch::foo", "torch::foo() const"},
	{"_Z3barIiEvT_", "bar<int>", "void bar<int>(int)"},
	{"_ZN3fooIiEclEv.constprop.0", "foo<int>::operator()", "foo<int>::operator()()"},
	{"_ZZN3fooIiEclEvENKUlvE_clEv", "foo<int>::operator()::{lambda#1}::operator()",
	 "foo<int>::operator()()::{lambda()#1}::operator()() const"},
	{"_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo", "(anonymous namespace)::foo()"},
	{"_ZN3fooL3barE", "foo::bar", "foo::bar"},
	{"_ZN3fooltERKS_", "foo::operator<", "foo::operator<(foo const&)"},
	{"_ZN3fooltIiEEvT_", "foo::operator< <int>", "void foo::operator< <int>(int)"},
	{"_ZN3foocvSsEv", "foo::operator std::string", "foo::operator std::string()"},
	{"_Znwm", "operator new", "operator new(unsigned long)"},
	{"_ZdaPv", "operator delete[]", "operator delete[](void*)"},
	{"_ZN3foo9operatorsEv", "foo::operators", "foo::operators()"},
	{"_ZN3foo8operatorE", "foo::operator", "foo::operator"},
	{"_ZN3foo1fEPFviE", "foo::f", "foo::f(void (*)(int))"},
	{"_Z1fIiEPFvvET_", "void (*f<int>(int))()", "void (*f<int>(int))()"},
	{"_ZN1A4sizeB5cxx11Ev", "A::size", "A::size[abi:cxx11]()"},
	{"_ZThn16_N1A1fEv", "non-virtual thunk to A::f", "non-virtual thunk to A::f()"},
	{"_ZTIFvvE", "typeinfo for void ()", "typeinfo for void ()"},
	{"_ZN1VISt6vectorIiSaIiEESt4lessIiEE4pushEi", "V<...>::push",
	 "V<std::vector<int, std::allocator<int> >, std::less<int> >::push(int)"},
};

static void test_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *plain = demangle(names[i].symbol, 0);
		char *full = demangle(names[i].symbol, 1);

		assert_string_equal(plain, names[i].plain);
		assert_string_equal(full, names[i].full);
		free(plain);
		free(full);
	}
}

static void test_vtables(void **state)
{
	char *name;

	(void)state;
	name = demangle_vtable("_ZTVN5torch8autograd9generated12AddBackward0E");
	assert_string_equal(name, "AddBackward0");
	free(name);
	name = demangle_vtable("_ZTVN5torch8autograd7CppNodeINS_3FooEEE");
	assert_string_equal(name, "CppNode<torch::Foo>");
	free(name);
	name = demangle_vtable("_ZTV4Node");
	assert_string_equal(name, "Node");
	free(name);
	assert_null(demangle_vtable("_ZTIN5torch3FooE"));
	assert_null(demangle_vtable("_ZTVoops"));
	assert_null(demangle_vtable("main"));
}

/* _Z1fI1AIii.. where each argument repeats the one before twice: 2^60 characters. */
static void test_bomb(void **state)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	struct buf name = {0};
	char *plain, *small;

	(void)state;
	buf_printf(&name, "_Z1f1AIiiES_IS0_S0_E");
	small = demangle((char *)name.data, 1);
	assert_string_equal(small, "f(A<int, int>, A<A<int, int>, A<int, int> >)");
	free(small);
	for (int i = 1; i < 60; i++) {
		char ref[8];

		if (i < 36)
			snprintf(ref, sizeof(ref), "S%c_", digits[i]);
		else
			snprintf(ref, sizeof(ref), "S1%c_", digits[i - 36]);
		buf_printf(&name, "S_I%s%sE", ref, ref);
	}
	plain = demangle((char *)name.data, 0);
	assert_string_equal(plain, (char *)name.data); /* given up on: shown as it is */
	free(plain);
	buf_free(&name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_vtables),
		cmocka_unit_test(test_bomb),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
