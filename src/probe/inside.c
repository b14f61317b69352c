/* inside.c - decides, probe by probe.
 *
 * Left to the kernel are calls whose arguments are strings or counts, which it interns, but for
 * those of CPython (inject/calls/texts.c), and those that others wait for (names of kernels,
 * communicators, memory): they are to come at once.
 *
 * A pointer that leads nowhere ends the job where the kernel would only say so. So pointers are
 * followed without a question where the function does it too: those of a backward node, and those
 * of tensors that the function's own type says are references to tensors, and CPython's objects.
 * Others are asked of the kernel (inject/calls/calls.c). */
#include "probe/inside.h"

#include <stdlib.h>
#include <string.h>

#include "probe/plan.h"
#include "symbolize/demangle.h"

#define PARAMETERS_MOST 48
#define STACK_WORDS	32  /* of a function of C in our own catalogs */
#define STACK_ANY	128 /* of one that takes any number, which the language's standard bounds */
#define STACK_MOST	160 /* the more are copied, the dearer */
#define REGISTERS	6

/* A function's parameters by its mangled name. */
struct parameters {
	char *text; /* owned; the pieces lie in it */
	const char *list[PARAMETERS_MOST];
	size_t n;
	bool known; /* these are all */
};

/* Cuts at commas outside of all brackets; false where that is not what it looks like. */
static bool split(struct parameters *p, char *at, char *end)
{
	int depth = 0;
	*end = 0;
	if (at == end || !strcmp(at, "void"))
		return true;
	p->list[p->n++] = at;
	for (; *at; at++) {
		depth += *at == '<' || *at == '(';
		depth -= *at == '>' || *at == ')';
		if (depth < 0 || !strncmp(at, "...", 3))
			return false;
		if (*at != ',' || depth)
			continue;
		*at = 0;
		if (p->n == PARAMETERS_MOST)
			return false;
		p->list[p->n++] = at + 1 + (at[1] == ' ');
	}
	return !depth;
}

/* "f(int, g<a, b>&) const": the brackets that end last. A function that returns a pointer to one
 * has others before. */
static struct parameters parameters_of(const char *symbol)
{
	struct parameters p = {0};
	if (strncmp(symbol, "_Z", 2) != 0)
		return p;
	p.text = demangle(symbol, 1);
	char *end = strrchr(p.text, ')'), *begin = end;
	for (int depth = 0; begin && begin >= p.text; begin--) {
		depth += *begin == ')';
		depth -= *begin == '(';
		if (!depth)
			break;
	}
	if (!begin || begin <= p.text || strchr(p.text, '(') != begin)
		return p;
	p.known = split(&p, begin + 1, end);
	return p;
}

static bool begins_with_one(const char *text, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strncmp(text, list[i], strlen(list[i])))
			return true;
	return false;
}
#define BEGINS_WITH_ONE(text, list) begins_with_one(text, list, sizeof(list) / sizeof((list)[0]))

/* Passed in one register, or one word: what is trivially so, and what has a destructor, which is
 * passed by its address (Itanium C++ ABI 3.1.2.3). */
static bool is_word(const char *type)
{
	static const char *const words[] = {"bool",	      "int",
					    "unsigned int",   "long",
					    "unsigned long",  "double",
					    "float",	      "signed char",
					    "char",	      "short",
					    "unsigned short", "unsigned char",
					    "long long",      "unsigned long long"};
	static const char *const begins[] = {
		"c10::ScalarType", "c10::Layout",      "c10::MemoryFormat",
		"c10::Device",	   "c10::SymInt",      "c10::DispatchKeySet",
		"at::Tensor",	   "at::Generator",    "c10::Storage",
		"std::vector<",	   "std::shared_ptr<", "c10::intrusive_ptr<",
		"c10::List<"};
	size_t n = strlen(type);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(type, words[i]))
			return true;
	return (n && (type[n - 1] == '&' || type[n - 1] == '*')) ||
	       (BEGINS_WITH_ONE(type, begins) && !strchr(type, '('));
}

/* Of two words, or three or four. */
static size_t words_of(const char *type)
{
	static const char *const two[] = {
		"c10::ArrayRef<",	   "at::Dimname", "c10::basic_string_view<",
		"std::basic_string_view<", "c10::Stream", "std::array<bool, "};
	static const char *const optional[] = {"c10::optional<", "std::optional<",
					       "c10::OptionalArrayRef<", "at::OptionalIntArrayRef",
					       "at::OptionalSymIntArrayRef"};
	if (is_word(type))
		return 1;
	if (BEGINS_WITH_ONE(type, two))
		return 2;
	if (!BEGINS_WITH_ONE(type, optional))
		return 0;
	const char *inner = strchr(type, '<');
	bool known = !inner || !strncmp(type, "c10::OptionalA", 14);
	if (!known) {
		char of[256];
		size_t n = strlen(inner);
		if (n < 3 || n > sizeof(of))
			return 0;
		memcpy(of, inner + 1, n - 2); /* without the brackets */
		of[n - 2] = 0;
		size_t words = words_of(of);
		known = words && words <= 2;
	}
	return known ? 4 : 0;
}

static bool is_built_in(const struct probe_info *info)
{
	const char *origin = info->entry->origin;
	return origin && !strncmp(origin, "built-in:", 9);
}

/* Room that arguments may take on the stack: what is returned in memory and `this` take a register
 * each. Negative where a type is not known. */
static int stack_words(const struct probe_info *info, const struct parameters *p)
{
	size_t words = 2;
	bool all_words = true;
	if (!p->text)
		return !is_built_in(info) ? -1 : info->entry->variadic ? STACK_ANY : STACK_WORDS;
	if (!p->known)
		return -1;
	for (size_t i = 0; i < p->n; i++) {
		size_t of_it = words_of(p->list[i]);
		if (!of_it)
			return -1;
		words += of_it;
		all_words &= of_it == 1;
	}
	if (all_words && words <= REGISTERS)
		return 0;
	return (int)(words + (words & 1));
}

static bool is_tensor(const char *type)
{
	return !strcmp(type, "at::Tensor const&") || !strcmp(type, "at::Tensor&");
}

/* Operators that write into a tensor return a reference; the others return in memory. "__" stands
 * before the overload of one that writes into its first argument, and in other names: what those
 * return is not known. */
static bool returns_in_memory(const struct probe_info *info)
{
	return !strstr(info->symbol, "_out4callE") && !strstr(info->symbol, "_4callE");
}

static bool return_is_known(const struct probe_info *info)
{
	const char *name = strstr(info->symbol, "4_ops");
	return name && !strstr(name, "__");
}

/* Whether all of an operator's arguments that lie behind pointers are of tensors by its type. */
static bool reads_tensors(const struct probe_info *info, const struct parameters *p)
{
	uint32_t hidden = returns_in_memory(info);
	if (!return_is_known(info))
		return false;
	for (uint8_t i = 0; i < info->desc.nargs; i++) {
		const struct arg_desc *a = &info->desc.args[i];
		if (!a->nderef)
			continue;
		if (a->at_return && hidden && !a->index) /* the result */
			continue;
		if (a->source != ARG_REG || a->index < hidden || a->index - hidden >= p->n ||
		    !is_tensor(p->list[a->index - hidden]))
			return false;
	}
	return true;
}

static bool has_pointers(const struct probe_info *info)
{
	for (uint8_t i = 0; i < info->desc.nargs; i++)
		if (info->desc.args[i].nderef)
			return true;
	return false;
}

static uint8_t trust_of(const struct probe_info *info, const struct parameters *p)
{
	bool node = info->entry->role && !strcmp(info->entry->role, "autograd_node");
	bool tensors =
		info->entry->naming == CAT_NAME_TORCH_OP && p->known && reads_tensors(info, p);
	bool python = info->entry->layer == LAYER_PYTHON;
	return node || tensors || python ? CALL_TRUST_POINTERS : CALL_TRUST_NONE;
}

/* Of one that reads tensors, each argument is to be one by its type. */
static bool is_strange(const struct probe_info *info, uint8_t trust)
{
	return info->entry->naming == CAT_NAME_TORCH_OP && has_pointers(info) &&
	       trust == CALL_TRUST_NONE;
}

static bool is_text_of_python(const struct arg_desc *a)
{
	return a->fetch == FETCH_CSTRING || a->fetch == FETCH_PYSTRING || a->fetch == FETCH_PYCODE;
}

static const char *kept_from_it(const struct probe_info *info)
{
	bool python = info->entry->layer == LAYER_PYTHON && is_built_in(info);
	const struct probe_desc *d = &info->desc;
	/* of others calls are asked for while they are open, or nobody knows what users' functions
	 * hand over in which registers */
	if (info->entry->layer != LAYER_TORCH && info->entry->layer != LAYER_CUDA && !python)
		return "its layer is the kernel's";
	if (info->entry->instant || info->entry->usdt)
		return "it is no function's call";
	if (d->keep || d->begins)
		return "other calls are told by it";
	for (uint8_t i = 0; i < d->nargs; i++)
		if (d->args[i].source == ARG_STACK && d->args[i].index == ARG_CALLER)
			return "it says who called";
	for (uint8_t i = 0; i < d->nargs; i++)
		if (d->args[i].fetch != FETCH_VALUE && d->args[i].fetch != FETCH_XYZ &&
		    d->args[i].fetch != FETCH_DIM3 && d->args[i].fetch != FETCH_SHAPE &&
		    !(python && is_text_of_python(&d->args[i])))
			return "the kernel numbers its texts";
	return NULL;
}

struct inside inside_plan(const struct probe_info *info, const uint8_t *code, size_t len,
			  uint32_t place, const char **why)
{
	struct inside in = {.before = (uint8_t)place};
	*why = kept_from_it(info);
	if (*why)
		return in;
	struct prologue p = prologue_find(code, len, place, CALL_JUMP_BYTES);
	struct parameters parameters = parameters_of(info->symbol);
	int words = stack_words(info, &parameters);
	in.trust = trust_of(info, &parameters);
	*why = !p.moved			    ? p.why
	       : place > PROLOGUE_BYTES	    ? "its first instructions are too long"
	       : p.pushed == 4		    ? "it pushes the stack pointer"
	       : words < 0		    ? "how it is given its arguments is not known"
	       : words > STACK_MOST	    ? "it has too many arguments"
	       : is_strange(info, in.trust) ? "its arguments are not what the catalog says"
					    : NULL;
	if (!*why) {
		in.kept = p.kept;
		in.moved = p.moved;
		in.pushed = p.pushed;
		in.rips = p.rips;
		in.stack_words = (uint16_t)words;
		memcpy(in.code, code, (size_t)p.kept + p.moved);
	}
	free(parameters.text);
	return in;
}

bool inside_holds(const struct inside *in, const struct probe_info *info)
{
	if (!in->moved)
		return true;
	return !kept_from_it(info) && in->moved >= CALL_JUMP_BYTES &&
	       prologue_rips_hold(&in->rips, in->kept, (size_t)in->kept + in->moved) &&
	       in->before < in->kept && in->pushed >= -1 && in->pushed < 16 && in->pushed != 4 &&
	       in->stack_words <= STACK_MOST && !(in->stack_words & 1) &&
	       in->trust <= CALL_TRUST_POINTERS;
}
