/* inside_test.c - which probes may be inside of a process, and what they know of their functions.
 *
 * links: base symbolize probe parser */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "elf_builder.h"
#include "probe/inside.h"
#include "probe/plan.h"
#include "symbolize/demangle.h"
#include "symbolize/elf_file.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* As libtorch_cpu.so.1.13 has them. */
#define MM	   "_ZN2at4_ops2mm4callERKNS_6TensorES4_"
#define ADDMM	   "_ZN2at4_ops5addmm4callERKNS_6TensorES4_S4_RKN3c106ScalarES8_"
#define ADDMM_	   "_ZN2at4_ops6addmm_4callERNS_6TensorERKS2_S5_RKN3c106ScalarES9_"
#define ADDMM_OUT  "_ZN2at4_ops9addmm_out4callERKNS_6TensorES4_S4_RKN3c106ScalarES8_RS2_"
#define ADD_TENSOR "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE"
#define MUL_SCALAR "_ZN2at4_ops11mul__Scalar4callERNS_6TensorERKN3c106ScalarE"
#define CONVOLUTION                                                                                \
	"_ZN2at4_ops11convolution4callERKNS_6TensorES4_RKN3c108optionalIS2_EENS5_8ArrayRef"        \
	"IlEESB_SB_bSB_l"
#define CONVOLUTION_BACKWARD                                                                       \
	"_ZN2at4_ops20convolution_backward4callERKNS_6TensorES4_S4_N3c1016OptionalArrayRef"        \
	"INS5_6SymIntEEENS5_8ArrayRefIlEESA_SA_bSA_lSt5arrayIbLm3EE"
#define BATCH_NORM                                                                                 \
	"_ZN2at4_ops17native_batch_norm4callERKNS_6TensorERKN3c108optionalIS2_EES9_S9_S9_bdd"
#define LSTM_INPUT "_ZN2at4_ops10lstm_input4callERKNS_6TensorEN3c108ArrayRefIS2_EES7_bldbbb"

/* push %rbp; mov %rsp,%rbp; sub $8,%rsp; mov %rdi,%rax three times; ret */
static const uint8_t code[] = "\x55\x48\x89\xe5\x48\x83\xec\x08\x48\x89\xf8\x48\x89\xf8\x48\x89\xf8"
			      "\xc3";
#define CODE_KEPT  1
#define CODE_MOVED 16

static struct cat_entry operators = {.naming = CAT_NAME_TORCH_OP, .origin = (char *)"built-in:t"};
static struct cat_entry functions = {.naming = CAT_NAME_SYMBOL, .origin = (char *)"built-in:f"};
static struct cat_entry users = {.naming = CAT_NAME_SYMBOL, .origin = (char *)"mine.yaml"};

static struct probe_info probe_of(const struct cat_entry *entry, const char *symbol)
{
	return (struct probe_info){.entry = entry, .symbol = (char *)symbol, .name_arg = -1};
}

static void add_arg(struct probe_info *info, enum arg_source source, uint8_t index,
		    enum arg_fetch fetch, uint8_t nderef)
{
	info->desc.args[info->desc.nargs++] = (struct arg_desc){
		.source = source, .index = index, .fetch = fetch, .size = 8, .nderef = nderef};
}

static struct inside plan(const struct probe_info *info, const char **why)
{
	struct inside in = inside_plan(info, code, sizeof(code) - 1, 0, why);
	assert_int_equal(!in.moved, !!*why);
	assert_true(inside_holds(&in, info));
	return in;
}

static void assert_refused(const struct probe_info *info)
{
	const char *why;
	struct inside in = plan(info, &why);
	if (in.moved)
		print_error("%s was not refused\n", info->symbol);
	assert_int_equal(in.moved, 0);
	assert_true(why[0] != 0);
}

static struct inside assert_planned(const struct probe_info *info)
{
	const char *why;
	struct inside in = plan(info, &why);
	if (!in.moved)
		print_error("%s: %s\n", info->symbol, why);
	assert_int_equal(in.moved, CODE_MOVED);
	assert_int_equal(in.kept, CODE_KEPT);
	assert_int_equal(in.pushed, 5);
	assert_int_equal(in.before, 0);
	assert_memory_equal(in.code, code, CODE_KEPT + CODE_MOVED);
	return in;
}

/* ---- the stack ---- */

/* "?": it may be left to the kernel, since a type of it is not known. least: words of arguments
 * that the function finds on the stack, by the ABI (System V, x86-64, and the Itanium C++ ABI: what
 * is not trivially copied is passed by a pointer). */
struct stack_example {
	const char *symbol;
	uint16_t least;
};
static const struct stack_example stack_examples[] = {
	{MM, 0},
	{ADD_TENSOR, 0},
	{ADDMM, 0}, /* the result and five: six registers */
	{ADDMM_, 0},
	{ADDMM_OUT, 0},
	{MUL_SCALAR, 0},
	/* registers: the result, three references, an array of two words;
	 * then two, two, the bool (word 4: transposed@stack4 of the catalog), two, one */
	{CONVOLUTION, 8},
	/* registers: the result, three references. OptionalArrayRef may have three words, and then
	 * the first array is in registers: 3, 4, 1, 2, 1, 1 */
	{CONVOLUTION_BACKWARD, 12},
	{BATCH_NORM, 1},
	/* registers: the result, a reference, two arrays of two words; the double in another */
	{LSTM_INPUT, 5},

	{"_Z1fv", 0},
	{"_Z1flllll", 0},
	{"_Z1fllllll", 0},
	{"_Z1flllllll", 1},
	{"_Z1flllllllllllllllll", 11},
	{"_Z1fdddddddd", 0},
	{"_Z1fddddddddd", 1},
	{"_Z1fdddddddddddd", 4},
	{"_ZN1A1fEllllll", 1}, /* a member: `this` */
	{"_ZNK1A1fEllllll", 1},
	{"?_Z1fe", 2}, /* long double */
	{"?_Z1feeee", 8},
	{"?_Z1flllllln", 2}, /* __int128 */
	{"_Z1fllllllRKN1A1BEPv", 2},
	{"?_Z1fPFvllllllllllE", 0},	    /* a function */
	{"?_Z1fPFvliEllllllll", 3},	    /* and others behind it */
	{"?_Z1fM1AFvlEllllll", 2},	    /* a member function's is two words */
	{"?_Z1f1AIJllllllEES0_S0_S0_", 16}, /* four words each, in memory */
	{"?_Z1fIlEvT_T_T_T_T_T_T_", 1},
	{"?_Z1fILi3ELi4EEvllllllll", 2},
	{"?_ZN12_GLOBAL__N_11fEllllllll", 2},
	{"?_ZNSt3mapIiSt4pairIilEE1fEllllllll", 3},
	{"?_ZN1AclEllllllll", 3}, /* operator() */
	{"?_ZN1AcviEv", 0},
	{"?_ZZ1fllllllllENKUlllE_clEllllllll", 3}, /* a lambda of f's */
	{"?_ZN1A1fB5cxx11Ellllllll", 3},
	{"?_Z1fllllllll.constprop.0", 2},
	{"?_Z1fllllllll.cold", 2},
	/* of these nothing is known: sixteen words and more */
	{"cudaLaunchKernel", 4},
	{"ncclCommInitRank", 16}, /* ncclUniqueId, by value */
	{"?_Z", 16},
	{"?_Znonsense", 16},
};

static void test_stack_words(void **state)
{
	int failed = 0;
	const char *why;
	(void)state;
	for (size_t i = 0; i < COUNT(stack_examples); i++) {
		const struct stack_example *x = &stack_examples[i];
		bool may_be_refused = x->symbol[0] == '?';
		struct probe_info info = probe_of(&functions, x->symbol + may_be_refused);
		struct inside in = plan(&info, &why);
		if (in.stack_words >= x->least && in.stack_words <= x->least + 32u &&
		    in.stack_words % 2 == 0 && in.moved)
			continue;
		if (!in.moved && may_be_refused)
			continue;
		print_error("%s: %u words; %u are needed (%s)\n", x->symbol, in.stack_words,
			    x->least, why ? why : "accepted");
		failed++;
	}
	assert_int_equal(failed, 0);
}

/* Where four words a type are not enough, or how many there are cannot be told from the symbol, it
 * is to be refused; or enough are to be copied. */
static const struct stack_example hard_examples[] = {
	{"_Z1fPKcz", 32}, /* f(char const*, ...): as many as the caller likes */
	/* void (*f<long>(long, ... eight))(int): what it returns stands around its parameters */
	{"_Z1fIlEPFviET_T_T_T_T_T_T_T_", 2},
	/* f(A<((1)>(2))>, long, ... fourteen) */
	{"_Z1f1AIXgtLi1ELi2EEEllllllllllllll", 8},
};

static void assert_enough(const struct stack_example *x)
{
	const char *why;
	struct probe_info info = probe_of(&functions, x->symbol);
	struct inside in = plan(&info, &why);
	char *text = demangle(x->symbol, 1);
	if (in.moved && in.stack_words < x->least)
		print_error("%s: %u words; %u may be needed\n", text, in.stack_words, x->least);
	free(text);
	assert_true(!in.moved || in.stack_words >= x->least);
}

/* Of a function of C only our own catalogs know that it has few arguments. */
static void test_users_function(void **state)
{
	const char *why;
	struct probe_info info = probe_of(&users, "my_function");
	(void)state;
	assert_int_equal(plan(&info, &why).moved, 0);
	info = probe_of(&users, "_Z1fll");
	assert_true(plan(&info, &why).moved);
}

static void test_stack_variadic(void **state)
{
	(void)state;
	assert_enough(&hard_examples[0]);
}

static void test_stack_function_returned(void **state)
{
	(void)state;
	assert_enough(&hard_examples[1]);
}

static void test_stack_operator_in_type(void **state)
{
	(void)state;
	assert_enough(&hard_examples[2]);
}

/* f(Big): what has 48 bytes or more, by value, has more than four words. */
static void test_stack_big_type(void **state)
{
	static const struct stack_example big = {"_Z1f3Big", 16};
	(void)state;
	assert_enough(&big);
}

static void test_many_parameters(void **state)
{
	char symbol[256] = "_Z1f";
	(void)state;
	for (unsigned n = 1; n < 200; n++) {
		const char *why;
		strcat(symbol, "l");
		struct probe_info info = probe_of(&functions, symbol);
		struct inside in = plan(&info, &why);
		unsigned least = n > 6 ? n - 6 : 0;
		if (in.moved && in.stack_words < least)
			print_error("%u parameters: %u words, %u are needed\n", n, in.stack_words,
				    least);
		assert_true(!in.moved || in.stack_words >= least);
		assert_int_equal(in.stack_words % 2, 0);
		if (n <= 40)
			assert_true(in.moved);
	}
}

/* Far more than may be copied. */
static void test_too_many_words(void **state)
{
	char symbol[512] = "_Z1f";
	(void)state;
	for (int n = 0; n < 47; n++)
		strcat(symbol, "1A");
	struct probe_info info = probe_of(&functions, symbol);
	assert_refused(&info);
}

/* ---- all operators of the installed library ---- */

struct bound {
	size_t words, unknown;
};

static void add_type(struct bound *b, const char *type, size_t n)
{
	/* sizes as PyTorch's headers have them; what has a destructor is passed by its address */
	static const char *const words[] = {"long",	   "bool",
					    "double",	   "int",
					    "c10::SymInt", "c10::ScalarType",
					    "c10::Layout", "c10::MemoryFormat",
					    "c10::Device", "at::Tensor",
					    "c10::Storage"};
	static const char *const two[] = {"c10::ArrayRef<", "at::Dimname",
					  "c10::basic_string_view<", "c10::Stream",
					  "std::array<bool, "};
	if (!n)
		return;
	bool word = type[n - 1] == '&' || type[n - 1] == '*';
	for (size_t i = 0; i < COUNT(words); i++)
		word |= n == strlen(words[i]) && !strncmp(type, words[i], n);
	for (size_t i = 0; i < COUNT(two) && !word; i++)
		if (!strncmp(type, two[i], strlen(two[i]))) {
			b->words += 2;
			return;
		}
	b->words += word;
	b->unknown += !word;
}

/* at::_ops::NAME::call(...): the text behind "::call(" to the last bracket, cut at commas amid no
 * < or (. */
static struct bound bound_of(const char *text)
{
	struct bound b = {0};
	const char *at = strstr(text, "::call("), *end = text + strlen(text) - 1;
	assert_non_null(at);
	assert_int_equal(*end, ')');
	at += strlen("::call(");
	const char *begin = at;
	for (int depth = 0; at < end; at++) {
		depth += (*at == '<' || *at == '(') - (*at == '>' || *at == ')');
		if (*at != ',' || depth)
			continue;
		add_type(&b, begin, (size_t)(at - begin));
		begin = at + 2;
	}
	add_type(&b, begin, (size_t)(end - begin));
	return b;
}

struct survey {
	unsigned operators, failed, most;
};

/* Types that are not known are all in memory, of 32 bytes; the others have five registers, behind
 * the one of the result: what is on the stack at most. */
static int check_operator(const struct elf_symbol *sym, void *ctx)
{
	struct survey *s = ctx;
	const char *why;
	if (!sym->is_function || strncmp(sym->name, "_ZN2at4_ops", 11) != 0 ||
	    !strstr(sym->name, "4callE"))
		return 0;
	struct probe_info info = probe_of(&operators, sym->name);
	char *text = demangle(sym->name, 1);
	struct bound b = bound_of(text);
	size_t least = 4 * b.unknown + (b.words > 5 ? b.words - 5 : 0);
	struct inside in = plan(&info, &why);
	if (in.stack_words < least || in.stack_words % 2 || !in.moved) {
		print_error("%s: %u words, %zu are needed (%s)\n", text, in.stack_words, least,
			    why ? why : "accepted");
		s->failed++;
	}
	free(text);
	s->operators++;
	s->most = in.stack_words > s->most ? in.stack_words : s->most;
	return s->failed > 10;
}

static struct elf_file *open_torch(void)
{
	struct elf_file *f;
	struct err e;
	if (!elf_file_open(&f, "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13", &e))
		return f;
	print_message("skipped: %s\n", e.msg);
	skip();
	return NULL;
}

static void test_installed_operators(void **state)
{
	struct elf_file *f = open_torch();
	struct survey s = {0};
	(void)state;
	elf_file_symbols(f, check_operator, &s);
	elf_file_close(f);
	print_message("%u operators, %u words at most\n", s.operators, s.most);
	assert_int_equal(s.failed, 0);
	assert_true(s.operators > 1000);
}

/* ---- which pointers are followed without a question ---- */

#define SHAPE(info, index) add_arg(info, ARG_REG, index, FETCH_SHAPE, 3)

static void assert_trust(const struct probe_info *info, uint8_t trust)
{
	struct inside in = assert_planned(info);
	if (in.trust != trust)
		print_error("%s: trust %u, not %u\n", info->symbol, in.trust, trust);
	assert_int_equal(in.trust, trust);
}

static void test_trust_tensors(void **state)
{
	(void)state;
	/* as catalog/torch.yaml has them */
	struct probe_info mm = probe_of(&operators, MM);
	SHAPE(&mm, 1);
	SHAPE(&mm, 2);
	add_arg(&mm, ARG_REG, 1, FETCH_VALUE, 2);
	assert_trust(&mm, CALL_TRUST_POINTERS);
	struct probe_info addmm = probe_of(&operators, ADDMM);
	SHAPE(&addmm, 2);
	SHAPE(&addmm, 3);
	assert_trust(&addmm, CALL_TRUST_POINTERS);
	struct probe_info addmm_ = probe_of(&operators, ADDMM_);
	SHAPE(&addmm_, 0);
	SHAPE(&addmm_, 1);
	SHAPE(&addmm_, 2);
	assert_trust(&addmm_, CALL_TRUST_POINTERS);
	struct probe_info out = probe_of(&operators, ADDMM_OUT);
	SHAPE(&out, 1);
	SHAPE(&out, 2);
	SHAPE(&out, 5);
	assert_trust(&out, CALL_TRUST_POINTERS);
	struct probe_info conv = probe_of(&operators, CONVOLUTION);
	SHAPE(&conv, 1);
	SHAPE(&conv, 2);
	add_arg(&conv, ARG_STACK, 4, FETCH_VALUE, 0);
	SHAPE(&conv, 0);
	conv.desc.args[conv.desc.nargs - 1].at_return = 1;
	assert_trust(&conv, CALL_TRUST_POINTERS);
}

/* What its type says is no tensor; and what its type does not say. */
static void test_strange_pointers(void **state)
{
	static const struct {
		const char *what, *symbol;
		uint8_t source, index, at_return;
	} strange[] = {
		{"a scalar", ADDMM, ARG_REG, 4, 0},
		{"another scalar", ADDMM, ARG_REG, 5, 0},
		{"a scalar, of one that writes into a tensor", ADDMM_OUT, ARG_REG, 3, 0},
		{"the result, before there is one", ADDMM, ARG_REG, 0, 0},
		{"an optional tensor", CONVOLUTION, ARG_REG, 3, 0},
		{"an optional tensor", BATCH_NORM, ARG_REG, 2, 0},
		{"an array", CONVOLUTION, ARG_REG, 4, 0},
		{"half an array", CONVOLUTION, ARG_REG, 5, 0},
		{"behind the last", MM, ARG_REG, 3, 0},
		{"far behind the last", MM, ARG_REG, 255, 0},
		{"on the stack", CONVOLUTION, ARG_STACK, 0, 0},
		{"far on the stack", MM, ARG_STACK, 0, 0},
		{"what is returned", MM, ARG_RETURN, 0, 0},
		{"what is returned, by the number of a tensor", MM, ARG_RETURN, 1, 0},
		{"a scalar, at the return", ADDMM, ARG_REG, 4, 1},
		{"of a symbol without types", "aten_mm", ARG_REG, 1, 0},
		{"of a symbol that is cut", "_ZN2at4_ops2mm4callE", ARG_REG, 1, 0},
	};
	int failed = 0;
	(void)state;
	for (size_t i = 0; i < COUNT(strange); i++) {
		const char *why;
		struct probe_info info = probe_of(&operators, strange[i].symbol);
		add_arg(&info, strange[i].source, strange[i].index, FETCH_SHAPE, 3);
		info.desc.args[0].at_return = strange[i].at_return;
		struct inside in = plan(&info, &why);
		if (!in.moved && in.trust == CALL_TRUST_NONE)
			continue;
		print_error("%s (%s) was not refused\n", strange[i].what, strange[i].symbol);
		failed++;
	}
	assert_int_equal(failed, 0);
}

/* One strange pointer among tensors is enough. */
static void test_one_strange_pointer(void **state)
{
	struct probe_info info = probe_of(&operators, ADDMM);
	(void)state;
	SHAPE(&info, 1);
	SHAPE(&info, 2);
	SHAPE(&info, 3);
	assert_trust(&info, CALL_TRUST_POINTERS);
	SHAPE(&info, 4);
	assert_refused(&info);
}

/* Tensor& mul__Scalar::call(Tensor& self, Scalar const& other): it returns no tensor in memory, so
 * the second register is of the scalar. */
static void test_strange_in_place_overload(void **state)
{
	struct probe_info info = probe_of(&operators, MUL_SCALAR);
	(void)state;
	SHAPE(&info, 1);
	assert_refused(&info);
}

static void test_trust_of_others(void **state)
{
	struct cat_entry node = {.naming = CAT_NAME_SYMBOL, .role = "autograd_node"};
	struct cat_entry other = {.naming = CAT_NAME_SYMBOL, .role = "matmul"};
	(void)state;
	/* no pointers, nothing to trust */
	struct probe_info info = probe_of(&operators, "aten_mm");
	add_arg(&info, ARG_REG, 1, FETCH_VALUE, 0);
	assert_trust(&info, CALL_TRUST_NONE);
	/* pointers of other functions are asked of the kernel, whatever their types are */
	info = probe_of(&functions, MM);
	SHAPE(&info, 1);
	assert_trust(&info, CALL_TRUST_NONE);
	info.entry = &other;
	assert_trust(&info, CALL_TRUST_NONE);
	info.entry = &node;
	assert_trust(&info, CALL_TRUST_POINTERS);
}

/* ---- what stays with the kernel ---- */

static void test_kept_fetches(void **state)
{
	(void)state;
	for (int fetch = FETCH_VALUE; fetch <= FETCH_SHAPE; fetch++)
		for (uint8_t before = 0; before < MAX_ARGS; before++) {
			struct probe_info info = probe_of(&functions, "f");
			for (uint8_t i = 0; i < before; i++)
				add_arg(&info, ARG_REG, 0, FETCH_VALUE, 0);
			add_arg(&info, ARG_REG, 0, (enum arg_fetch)fetch, 0);
			if (fetch == FETCH_VALUE || fetch == FETCH_XYZ || fetch == FETCH_DIM3 ||
			    fetch == FETCH_SHAPE)
				assert_planned(&info);
			else
				assert_refused(&info);
		}
}

/* The kernel reads the return address; what lies behind it is read inside. */
static void test_kept_callers(void **state)
{
	(void)state;
	struct probe_info info = probe_of(&functions, "f");
	add_arg(&info, ARG_STACK, 254, FETCH_VALUE, 0);
	assert_planned(&info);
	add_arg(&info, ARG_STACK, ARG_CALLER, FETCH_VALUE, 0);
	assert_refused(&info);
}

/* Of CPython's own functions, and of no user's that are said to be like them. */
static void test_texts_of_python(void **state)
{
	struct cat_entry own = {.layer = LAYER_PYTHON, .origin = (char *)"built-in:python.yaml"};
	struct cat_entry strange = {.layer = LAYER_PYTHON, .origin = (char *)"mine.yaml"};
	static const enum arg_fetch texts[] = {FETCH_CSTRING, FETCH_PYSTRING, FETCH_PYCODE};
	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		struct probe_info info = probe_of(&own, "f");
		add_arg(&info, ARG_REG, 1, texts[i], 0);
		struct inside in = assert_planned(&info);
		assert_int_equal(in.trust, CALL_TRUST_POINTERS);
		assert_true(in.stack_words && in.stack_words < 64);
		info.entry = &strange;
		assert_refused(&info);
	}
	struct probe_info info = probe_of(&own, "f");
	add_arg(&info, ARG_REG, 0, FETCH_TEXT, 0);
	assert_refused(&info);
	own.variadic = true; /* the language promises room for 127 */
	info = probe_of(&own, "f");
	assert_true(assert_planned(&info).stack_words >= 128);
}

static void test_kept_calls(void **state)
{
	struct cat_entry instant = {.instant = true}, usdt = {.usdt = true};
	(void)state;
	struct probe_info info = probe_of(&functions, "f");
	assert_planned(&info);
	info.desc.stack_chance = UINT32_MAX; /* a function of the library's has them taken */
	assert_planned(&info);
	info.desc.keep = 1;
	assert_refused(&info);
	info.desc.keep = 0;
	info.desc.begins = 1;
	assert_refused(&info);
	info.desc.begins = 0;
	info.entry = &instant;
	assert_refused(&info);
	info.entry = &usdt;
	assert_refused(&info);
}

static void test_code(void **state)
{
	/* endbr64 before it, push %rsp, sub $8,%rsp, and cut */
	static const uint8_t endbr[] = "\xf3\x0f\x1e\xfa\x41\x57\x48\x89\xe5\x48\x83\xec\x08"
				       "\x48\x89\xf8\x48\x89\xf8\x48\x89\xf8\xc3";
	uint8_t other[sizeof(code)];
	const char *why;
	struct probe_info info = probe_of(&functions, "f");
	(void)state;
	struct inside in = inside_plan(&info, endbr, sizeof(endbr) - 1, 4, &why);
	assert_null(why);
	assert_int_equal(in.before, 4);
	assert_int_equal(in.kept, 6);
	assert_int_equal(in.moved, 16);
	assert_int_equal(in.pushed, 15);
	assert_memory_equal(in.code, endbr, 22);
	assert_true(inside_holds(&in, &info));
	memcpy(other, code, sizeof(code));
	other[0] = 0x54;
	assert_int_equal(inside_plan(&info, other, sizeof(code) - 1, 0, &why).moved, 0);
	assert_non_null(why);
	assert_int_equal(inside_plan(&info, code + 4, sizeof(code) - 5, 0, &why).moved, 0);
	assert_non_null(why);
	for (size_t len = 0; len < CODE_KEPT + CODE_MOVED; len++) {
		assert_int_equal(inside_plan(&info, code, len, 0, &why).moved, 0);
		assert_non_null(why);
	}
}

/* ---- of a file ---- */

/* push %rbx; mov $16,%ecx; xor %eax,%eax; add $3,%eax; nopl 0(%rax); dec %ecx; jnz -11, to the add;
 * pop %rbx; ret. */
static const char looped[] = "\x53\xb9\x10\x00\x00\x00\x31\xc0\x83\xc0\x03\x0f\x1f\x40\x00"
			     "\xff\xc9\x75\xf5\x5b\xc3";

/* How many places of a library that has this function can be inside. */
static uint32_t places_inside(const char *function, size_t len, size_t size)
{
	static const char entry[] = "catalog: 1\nlayer: torch\nlibraries: [\"libfoo.so*\"]\n"
				    "probes:\n- id: foo\n  symbols: [\"foo\"]\n"
				    "  about: a function\n  naming: symbol\n  cost: low\n";
	struct elf_builder elf;
	struct elf_file *file;
	struct catalog catalog = {0};
	struct file_plan out = {0};
	struct buf table = {0}, strings = {0};
	struct err e = {""};
	elf_builder_init(&elf);
	memcpy(elf.file.data + 0x200, function, len);
	buf_byte(&strings, 0);
	elf_builder_symbol(&table, &strings, "", 0, 0, 0);
	elf_builder_symbol(&table, &strings, "foo", ELF_BASE + 0x200, size,
			   STB_GLOBAL << 4 | STT_FUNC);
	uint32_t link =
		elf_builder_section(&elf, ".strtab", SHT_STRTAB, strings.data, strings.len, 0);
	elf_builder_section(&elf, ".symtab", SHT_SYMTAB, table.data, table.len, link);
	elf_builder_finish(&elf, ET_DYN);
	buf_free(&table);
	buf_free(&strings);
	if (elf_file_open_memory(&file, elf.file.data, elf.file.len, &e) ||
	    catalog_parse(&catalog, entry, sizeof(entry) - 1, "built-in:test", &e))
		fail_msg("%s", e.msg);
	struct plan p = {.catalog = &catalog, .layers = ~0u, .inside = true};
	assert_int_equal(plan_file(&p, file, "/usr/lib/libfoo.so.1", &out, &e), 0);
	assert_int_equal(out.results.len, 1);
	assert_int_equal(out.sites.len, 1);
	uint32_t n = out.results.data[0].inside;
	assert_int_equal(n, out.sites.data[0].inside.moved > 0);
	file_plan_free(&out);
	plan_free(&p);
	catalog_free(&catalog);
	elf_file_close(file);
	elf_builder_free(&elf);
	return n;
}

static void test_file(void **state)
{
	(void)state;
	assert_int_equal(places_inside((const char *)code, sizeof(code) - 1, sizeof(code) - 1), 1);
	assert_int_equal(places_inside(looped, sizeof(looped) - 1, sizeof(looped) - 1), 0);
}

/* Of a function whose size is not known nobody knows where it jumps to. */
static void test_file_without_sizes(void **state)
{
	(void)state;
	assert_int_equal(places_inside(looped, sizeof(looped) - 1, 0), 0);
}

/* ---- what comes from elsewhere ---- */

static void test_holds(void **state)
{
	struct probe_info info = probe_of(&operators, MM);
	struct inside x;
	(void)state;
	SHAPE(&info, 1);
	const struct inside in = assert_planned(&info);
	assert_true(inside_holds(&in, &info));
	/* one that is none holds, whatever else it says */
	memset(&x, 0xff, sizeof(x));
	x.moved = 0;
	assert_true(inside_holds(&x, &info));
#define FORGED(field, value)                                                                       \
	x = in;                                                                                    \
	x.field = (value);                                                                         \
	assert_false(inside_holds(&x, &info))
	FORGED(moved, 1);
	FORGED(moved, CALL_JUMP_BYTES - 1);
	FORGED(moved, PROLOGUE_BYTES);
	FORGED(moved, 255);
	FORGED(kept, 0);
	FORGED(kept, PROLOGUE_BYTES - CODE_MOVED + 1);
	FORGED(kept, 255);
	FORGED(before, CODE_KEPT);
	FORGED(before, 255);
	FORGED(pushed, -2);
	FORGED(pushed, 16);
	FORGED(pushed, INT8_MIN);
	FORGED(pushed, INT8_MAX);
	FORGED(stack_words, 1);
	FORGED(stack_words, 162);
	FORGED(stack_words, UINT16_MAX);
	FORGED(trust, CALL_TRUST_POINTERS + 1);
	FORGED(trust, 255);
	/* the most that may be */
	x = in;
	x.kept = PROLOGUE_BYTES - CODE_MOVED;
	x.before = x.kept - 1;
	assert_true(inside_holds(&x, &info));
	/* where it cannot be inside at all */
	info.desc.keep = 1;
	assert_false(inside_holds(&in, &info));
	info.desc.keep = 0;
	info.desc.args[0].fetch = FETCH_CSTRING;
	assert_false(inside_holds(&in, &info));
}

/* "Whether it could be one of inside_plan's for this probe": that refuses these, or says otherwise.
 */
static void test_holds_pushed_rsp(void **state)
{
	struct probe_info info = probe_of(&functions, "f");
	const struct inside in = assert_planned(&info);
	struct inside x;
	(void)state;
	FORGED(pushed, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stack_words),
		cmocka_unit_test(test_users_function),
		cmocka_unit_test(test_stack_variadic),
		cmocka_unit_test(test_stack_function_returned),
		cmocka_unit_test(test_stack_operator_in_type),
		cmocka_unit_test(test_stack_big_type),
		cmocka_unit_test(test_many_parameters),
		cmocka_unit_test(test_too_many_words),
		cmocka_unit_test(test_installed_operators),
		cmocka_unit_test(test_trust_tensors),
		cmocka_unit_test(test_strange_pointers),
		cmocka_unit_test(test_one_strange_pointer),
		cmocka_unit_test(test_strange_in_place_overload),
		cmocka_unit_test(test_trust_of_others),
		cmocka_unit_test(test_kept_fetches),
		cmocka_unit_test(test_kept_callers),
		cmocka_unit_test(test_texts_of_python),
		cmocka_unit_test(test_kept_calls),
		cmocka_unit_test(test_code),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_file_without_sizes),
		cmocka_unit_test(test_holds),
		cmocka_unit_test(test_holds_pushed_rsp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
