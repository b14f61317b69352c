/* signature_test.c - the description language: every type, placement and complaint.
 *
 * links: base probe parser
 * needs: catalog_builtin */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe/catalog_impl.h"
#include "events/rows.h"

_Static_assert((int)CAT_TYPE_U64 == (int)ARG_TYPE_U64, "arg types");
_Static_assert((int)CAT_TYPE_I64 == (int)ARG_TYPE_I64, "arg types");
_Static_assert((int)CAT_TYPE_PTR == (int)ARG_TYPE_PTR, "arg types");
_Static_assert((int)CAT_TYPE_BYTES == (int)ARG_TYPE_BYTES, "arg types");
_Static_assert((int)CAT_TYPE_BOOL == (int)ARG_TYPE_BOOL, "arg types");
_Static_assert((int)CAT_TYPE_STRING == (int)ARG_TYPE_STRING, "arg types");
_Static_assert((int)CAT_TYPE_CODE == (int)ARG_TYPE_CODE, "arg types");
_Static_assert((int)CAT_TYPE_DIM3 == (int)ARG_TYPE_DIM3, "arg types");
_Static_assert((int)CAT_TYPE_SHAPE == (int)ARG_TYPE_SHAPE, "arg types");
_Static_assert(MAX_ARGS == MODEL_MAX_ARGS, "arguments of a call");

static int parse_signature(struct cat_entry *en, const char *sig, struct err *e)
{
	size_t pos = 0;
	int rc = cat_signature_parse(en, sig, &pos, e);
	return rc ? err_wrap(e, rc, "character %zu", pos + 1) : 0;
}

static void entry_free(struct cat_entry *en)
{
	for (unsigned i = 0; i < en->nargs; i++) {
		free(en->args[i].name);
		free(en->args[i].enum_type);
	}
	*en = (struct cat_entry){0};
}

static void parse(const char *sig, struct cat_entry *en)
{
	struct err e = {""};
	*en = (struct cat_entry){0};
	if (parse_signature(en, sig, &e))
		fail_msg("%s: %s", sig, e.msg);
}

/* name type fetch size sign vtable source index return nderef deref... */
static void check_arg(const struct cat_entry *en, unsigned i, const char *expected)
{
	assert_true(i < en->nargs);
	const struct cat_arg *a = &en->args[i];
	const struct arg_desc *d = &a->fetch;
	char *got =
		xasprintf("%s%s%s t%u f%u s%u%s%s%s%s @%u.%u%s%s", a->name, a->enum_type ? ":" : "",
			  a->enum_type ? a->enum_type : "", a->arg_type, d->fetch, d->size,
			  d->is_signed ? " signed" : "", a->is_vtable ? " vtable" : "",
			  a->is_kernel ? " kernel" : "", a->of_tensor ? " tensor" : "", d->source,
			  d->index, d->at_return ? " return" : "", a->is_name ? " name" : "");
	for (unsigned k = 0; k < d->nderef; k++) {
		char *more = xasprintf("%s [%d]", got, d->deref[k]);
		free(got);
		got = more;
	}
	assert_string_equal(got, expected);
	free(got);
	for (unsigned k = d->nderef; k < 3; k++)
		assert_int_equal(d->deref[k], 0);
	assert_int_equal(d->layout, 0);
	assert_int_equal(d->pad, 0);
}

static void one(const char *sig, const char *expected)
{
	struct cat_entry en;
	parse(sig, &en);
	assert_int_equal(en.nargs, 1);
	check_arg(&en, 0, expected);
	entry_free(&en);
}

static void every_type(void **state)
{
	(void)state;
	one("(u8 x)", "x t0 f0 s1 @0.0");
	one("(u16 x)", "x t0 f0 s2 @0.0");
	one("(u32 x)", "x t0 f0 s4 @0.0");
	one("(u64 x)", "x t0 f0 s8 @0.0");
	one("(i8 x)", "x t1 f0 s1 signed @0.0");
	one("(i16 x)", "x t1 f0 s2 signed @0.0");
	one("(i32 x)", "x t1 f0 s4 signed @0.0");
	one("(i64 x)", "x t1 f0 s8 signed @0.0");
	one("(int x)", "x t1 f0 s4 signed @0.0");
	one("(uint x)", "x t0 f0 s4 @0.0");
	one("(long x)", "x t1 f0 s8 signed @0.0");
	one("(ulong x)", "x t0 f0 s8 @0.0");
	one("(size x)", "x t3 f0 s8 @0.0");
	one("(bool x)", "x t4 f0 s1 @0.0");
	one("(ptr x)", "x t2 f0 s8 @0.0");
	one("(str x)", "x t5 f1 s8 @0.0");
	one("(pystr x)", "x t5 f2 s8 @0.0");
	one("(cxxstr x)", "x t5 f3 s8 @0.0");
	one("(pycode x)", "x t6 f4 s8 @0.0");
	one("(pytype x)", "x t5 f1 s8 @0.0 [8] [24]");
	one("(object x)", "x t2 f0 s8 vtable @0.0 [0]");
	one("(text x)", "x t5 f5 s8 @0.0");
	one("(kernel x)", "x t5 f0 s8 kernel @0.0");
	one("(xyz x)", "x t7 f6 s8 @0.0");
	one("(dim3 x)", "x t7 f7 s8 @0.0");
	one("(count x)", "x t0 f8 s8 @0.0");
	one("(uid x@stack0)", "x t0 f9 s8 @1.0");
	one("(ptr x@caller)", "x t2 f0 s8 @1.255");
	one("(ptr@caller)", "caller t2 f0 s8 @1.255");
	one("(uid* x)", "x t0 f9 s8 @0.0 [0]");
	/* the last offset is the plan's to fill in */
	one("(shape x)", "x t8 f10 s8 tensor @0.0 [0]");
	one("(shape* x@arg1)", "x t8 f10 s8 tensor @0.1 [0] [0]");
	one("(out shape x@arg0[16])", "x t8 f10 s8 tensor @0.0 return [16] [0]");
	one("(dtype:ScalarType* x)", "x:ScalarType t0 f0 s2 tensor @0.0 [0] [0]");
	one("(dim3 x@arg0[12])", "x t7 f7 s8 @0.0 [12]");
	one("(name:kernel x@arg1)", "x t5 f0 s8 kernel @0.1 name");
	one("(text* x)", "x t5 f5 s8 @0.0 [0]");
	one("(int:CUresult x)", "x:CUresult t1 f0 s4 signed @0.0");
	one("(u64:flags_t x)", "x:flags_t t0 f0 s8 @0.0");
	one("(out int:a* x)", "x:a t1 f0 s4 signed @0.0 return [0]");
	one("-> int:CUresult", "return:CUresult t1 f0 s4 signed @2.0 return");
}

static void pointers_and_places(void **state)
{
	(void)state;
	one("(u32* x)", "x t0 f0 s4 @0.0 [0]");
	one("(size * * x)", "x t3 f0 s8 @0.0 [0] [0]");
	one("(str* x)", "x t5 f1 s8 @0.0 [0]");
	one("(out u64* x)", "x t0 f0 s8 @0.0 return [0]");
	one("(int x@arg3)", "x t1 f0 s4 signed @0.3");
	one("(int x @ arg6)", "x t1 f0 s4 signed @1.0");
	one("(int x@stack0)", "x t1 f0 s4 signed @1.0");
	one("(int x@arg63)", "x t1 f0 s4 signed @1.57");
	one("(int rank@arg0[64])", "rank t1 f0 s4 signed @0.0 [64]");
	one("(str kind@arg1[8][24])", "kind t5 f1 s8 @0.1 [8] [24]");
	one("(u64* x@arg0[-16])", "x t0 f0 s8 @0.0 [-16] [0]");
	one("(out size x@arg0[8])", "x t3 f0 s8 @0.0 return [8]");
	one("(name:object x@arg2)", "x t2 f0 s8 vtable @0.2 name [0]");
	one("(name: str x)", "x t5 f1 s8 @0.0 name");
	one("(_, _, u64)", "arg2 t0 f0 s8 @0.2");
	one("(u64 name)", "name t0 f0 s8 @0.0");
	one("(u64 out)", "out t0 f0 s8 @0.0");
	one("-> int", "return t1 f0 s4 signed @2.0 return");
	one("() -> u64*", "return t0 f0 s8 @2.0 return [0]");
	one("(...) -> str", "return t5 f1 s8 @2.0 return");
}

static void registers_then_stack(void **state)
{
	(void)state;
	struct cat_entry en;
	parse(" ( u64 a, _ , _, _, int e, u8, ptr g ,_, size i@stack2, ... ) -> ptr!null ", &en);
	assert_int_equal(en.nargs, 6);
	check_arg(&en, 0, "a t0 f0 s8 @0.0");
	check_arg(&en, 1, "e t1 f0 s4 signed @0.4");
	check_arg(&en, 2, "arg5 t0 f0 s1 @0.5");
	check_arg(&en, 3, "g t2 f0 s8 @1.0");
	check_arg(&en, 4, "i t3 f0 s8 @1.2");
	check_arg(&en, 5, "return t2 f0 s8 @2.0 return");
	assert_true(en.has_return);
	assert_int_equal(en.error, CAT_ERROR_NULL);
	entry_free(&en);
	parse("(int a@arg4, int b)", &en);
	check_arg(&en, 1, "b t1 f0 s4 signed @0.5");
	entry_free(&en);
}

/* What takes more than one place, and what follows it: cuLaunchKernel, cudaLaunchKernel,
 * ncclCommInitRank as the ABI passes them. */
static void several_places(void **state)
{
	(void)state;
	struct cat_entry en;
	parse("(name:kernel f, xyz grid, xyz block, uint shared, ptr stream)", &en);
	check_arg(&en, 1, "grid t7 f6 s8 @0.1");
	check_arg(&en, 2, "block t7 f6 s8 @0.4");
	check_arg(&en, 3, "shared t0 f0 s4 @1.1");
	check_arg(&en, 4, "stream t2 f0 s8 @1.2");
	entry_free(&en);
	parse("(ptr f, dim3 grid, dim3 block, _, size shared, ptr stream)", &en);
	check_arg(&en, 1, "grid t7 f7 s8 @0.1");
	check_arg(&en, 2, "block t7 f7 s8 @0.3");
	check_arg(&en, 3, "shared t3 f0 s8 @1.0");
	check_arg(&en, 4, "stream t2 f0 s8 @1.1");
	entry_free(&en);
	parse("(dim3* at, int next)", &en); /* a pointer is one place */
	check_arg(&en, 1, "next t1 f0 s4 signed @0.1");
	entry_free(&en);
	parse("(dim3 d@stack1, int next)", &en);
	check_arg(&en, 1, "next t1 f0 s4 signed @1.3");
	entry_free(&en);
	parse("(out ptr* comm, int size, uid id@stack0, int next, int rank@arg2)", &en);
	check_arg(&en, 2, "id t0 f9 s8 @1.0");
	check_arg(&en, 3, "next t1 f0 s4 signed @1.16");
	check_arg(&en, 4, "rank t1 f0 s4 signed @0.2");
	entry_free(&en);
	parse("(ptr a, ptr by@caller, int next)", &en); /* it takes no place */
	check_arg(&en, 1, "by t2 f0 s8 @1.255");
	check_arg(&en, 2, "next t1 f0 s4 signed @0.1");
	entry_free(&en);
	parse("(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g) -> int", &en);
	assert_int_equal(en.nargs, MAX_ARGS);
	entry_free(&en);
}

static void answers_that_are_no_errors(void **state)
{
	(void)state;
	struct cat_entry en;
	parse("(ptr event) -> int:CUresult!nonzero except 600", &en);
	assert_int_equal(en.error, CAT_ERROR_NONZERO);
	assert_true(en.has_except);
	assert_int_equal(en.error_except, 600);
	entry_free(&en);
	parse("-> int ! nonzero  except  0", &en);
	assert_true(en.has_except);
	assert_int_equal(en.error_except, 0);
	entry_free(&en);
	parse("-> int!nonzero", &en);
	assert_false(en.has_except);
	entry_free(&en);
}

static void returns(void **state)
{
	(void)state;
	struct cat_entry en;
	parse("() -> void", &en);
	assert_int_equal(en.nargs, 0);
	assert_false(en.has_return);
	parse("(void)", &en);
	assert_int_equal(en.nargs, 0);
	parse("() -> int!nonzero", &en);
	assert_int_equal(en.error, CAT_ERROR_NONZERO);
	entry_free(&en);
	parse("-> long ! negative", &en);
	assert_int_equal(en.error, CAT_ERROR_NEGATIVE);
	entry_free(&en);
	parse("-> int", &en);
	assert_int_equal(en.error, CAT_ERROR_NONE);
	entry_free(&en);
}

static void replaces_what_was_there(void **state)
{
	(void)state;
	struct err e;
	struct cat_entry en;
	parse("(u64 a, u64 b) -> int!nonzero", &en);
	assert_int_equal(parse_signature(&en, "(u64 a, oops b)", &e), -EINVAL);
	assert_int_equal(en.nargs, 3); /* untouched on failure */
	assert_string_equal(en.args[1].name, "b");
	assert_int_equal(parse_signature(&en, "(str s)", &e), 0);
	assert_int_equal(en.nargs, 1);
	assert_false(en.has_return);
	assert_int_equal(en.error, CAT_ERROR_NONE);
	check_arg(&en, 0, "s t5 f1 s8 @0.0");
	entry_free(&en);
}

static void complaints(void **state)
{
	(void)state;
	static const struct {
		const char *sig, *says;
	} cases[] = {
		{"", "character 1: expected '(' or '->', found the end"},
		{"u64 a", "character 1: expected '(' or '->', found 'u64'"},
		{"(u64 a", "character 7: expected ',' or ')', found the end"},
		{"(u64 a) int", "character 9: unexpected 'int'"},
		{"(u64 a, )", "character 9: expected a type, found ')'"},
		{"(intt a)", "character 2: unknown type 'intt' (known: u8 u16 u32 u64 i8 i16 i32 "
			     "i64 int uint long ulong size bool ptr object str cxxstr pystr pytype "
			     "pycode text kernel xyz dim3 count uid shape dtype)"},
		{"(ptr:CUresult x)", "character 5: only numbers have names"},
		{"(size:T x)", "character 6: only numbers have names"},
		{"(count:T x)", "character 7: only numbers have names"},
		{"(int:4 x)", "character 5: expected the name of an enumeration after ':'"},
		{"(int:, u64 b)", "character 5: expected the name of an enumeration after ':'"},
		{"(uid id)", "character 2: a 'uid' that is passed by value lies on the stack: "
			     "'@stackN'"},
		{"(_, _, _, _, _, dim3 d)",
		 "character 17: a 'dim3' does not begin in the last register: '@stackN', and the "
		 "next argument '@arg5'"},
		{"(xyz* grid)", "character 2: 'xyz' is of the arguments themselves: no pointer to "
				"follow; 'dim3*' is"},
		{"(count n@arg0[8])", "character 2: 'count' is of the arguments themselves: no "
				      "pointer to follow"},
		{"(out text* t)", "character 2: 'text' is read when the call begins: no 'out'"},
		{"(out dim3* d)", "character 2: 'dim3' is read when the call begins: no 'out'"},
		{"-> text", "character 4: a 'text' is not returned"},
		{"-> uid", "character 4: a 'uid' is not returned"},
		{"-> shape", "character 4: a 'shape' is not returned"},
		{"-> int!nonzero except", "character 22: expected a number"},
		{"-> int!nonzero except -1", "character 23: expected a number"},
		{"-> int!nonzero except 4294967300", "character 23: number larger than 2147483647"},
		{"-> int!nonzero expect 7", "character 16: unexpected 'expect'"},
		{"(u64 a, double b)", "character 9: 'double' arguments travel in SSE registers, "
				      "which uprobes cannot read; leave it out (it takes no place "
				      "among the others)"},
		{"(f32 x)", "character 2: 'f32' arguments travel in SSE registers, which uprobes "
			    "cannot read; leave it out (it takes no place among the others)"},
		{"(void a)", "character 2: 'void' has no value; 'ptr' is an address, '-> void' may "
			     "be left out"},
		{"(u64 a b)", "character 8: expected ',' or ')', found 'b'"},
		{"(u64 a, u64 a)", "character 13: second argument named 'a'"},
		{"(u64 return)", "character 6: 'return' is the name of the return value"},
		{"(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i)",
		 "character 58: more than 8 values, the return value included; skip some with "
		 "'_'"},
		{"(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h) -> int",
		 "character 61: more than 8 values, the return value included; skip some with "
		 "'_'"},
		{"(out u64 a)", "character 2: 'out' needs a pointer to read through: 'out u64*'"},
		{"(u64**** a)", "character 2: more than 3 pointers to follow"},
		{"(pytype** a)", "character 2: more than 3 pointers to follow"},
		{"(u64 a@rdi)",
		 "character 8: expected argN, stackN or caller after '@', found 'rdi'"},
		{"(u64 a@arg)", "character 11: expected a number"},
		{"(u64 a@arg64)", "character 11: number larger than 63"},
		{"(u64 a@arg0[9999999])", "character 13: number larger than 1048576"},
		{"(u64 a@arg0[8)", "character 14: expected ']' after the offset"},
		{"(u64 a@arg63, u64 b)", "character 15: more than 64 arguments"},
		{"(name:u64 a)", "character 2: a call is named by a string, pycode or object"},
		{"(name:str a, name:str b)", "character 14: second argument that names the call"},
		{"(..., u64 a)", "character 5: '...' ends the arguments: expected ')'; skip one "
				 "with '_'"},
		{"-> int!zero", "character 8: expected nonzero, negative or null after '!', found "
				"'zero'"},
		{"-> u64!negative", "character 8: an unsigned value is never negative"},
		{"-> str!null", "character 8: only a plain number or pointer can tell an error"},
		{"-> pycode", "character 4: a frame is gone when its function returns"},
		{"-> void int", "character 9: unexpected 'int'"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cat_entry en = {0};
		struct err e = {""};
		assert_int_equal(parse_signature(&en, cases[i].sig, &e), -EINVAL);
		assert_string_equal(e.msg, cases[i].says);
		assert_int_equal(en.nargs, 0);
	}
}

static void long_names_are_refused(void **state)
{
	(void)state;
	struct cat_entry en = {0};
	struct err e;
	assert_int_equal(parse_signature(&en, "(u64 a2345678901234567890123456789012)", &e), 0);
	entry_free(&en);
	assert_int_equal(parse_signature(&en, "(u64 a23456789012345678901234567890123)", &e),
			 -EINVAL);
	assert_string_equal(e.msg, "character 6: name longer than 32 characters");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type),
		cmocka_unit_test(pointers_and_places),
		cmocka_unit_test(registers_then_stack),
		cmocka_unit_test(several_places),
		cmocka_unit_test(answers_that_are_no_errors),
		cmocka_unit_test(returns),
		cmocka_unit_test(replaces_what_was_there),
		cmocka_unit_test(complaints),
		cmocka_unit_test(long_names_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
