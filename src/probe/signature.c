/* signature.c - the description language: '(u64 handle, out u64* got) -> int!nonzero'.
 *
 * Turns a description into the argument records that BPF follows. The language is
 * specified in docs/catalog.md. Where arguments lie is the System V AMD64 ABI, 3.2.3
 * "Parameter Passing": the first six integer or pointer arguments in rdi, rsi, rdx, rcx,
 * r8, r9, the others on the stack above the return address, eight bytes each.
 * Does not know the function that is described and cannot check the description. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "probe/catalog_impl.h"

#define REGISTER_ARGS 6
#define MAX_POSITION  63 /* of an argument, the registers included */
#define AT_CALLER     (REGISTER_ARGS + ARG_CALLER)
#define MAX_DEREFS    3
#define MAX_OFFSET    (1 << 20)
#define MAX_NAME      32
#define MAX_ENUM_NAME 64

struct type {
	const char *name;
	uint8_t arg_type;
	uint8_t fetch;
	uint8_t size;
	bool is_signed;
	bool is_vtable;
	bool is_kernel;
	bool of_tensor;
	uint8_t nderef;
	int32_t deref[2];
};

/* pytype: PyObject.ob_type at 8 and PyTypeObject.tp_name at 24 bytes, CPython
 * Include/object.h and Include/cpython/object.h, builds with a GIL.
 * object: the vtable pointer is the first word (Itanium C++ ABI, 2.4).
 * shape, dtype: an at::Tensor is a pointer to its TensorImpl; the plan fills in the offset. */
static const struct type types[] = {
	{"u8", CAT_TYPE_U64, FETCH_VALUE, 1, false, false, false, false, 0, {0}},
	{"u16", CAT_TYPE_U64, FETCH_VALUE, 2, false, false, false, false, 0, {0}},
	{"u32", CAT_TYPE_U64, FETCH_VALUE, 4, false, false, false, false, 0, {0}},
	{"u64", CAT_TYPE_U64, FETCH_VALUE, 8, false, false, false, false, 0, {0}},
	{"i8", CAT_TYPE_I64, FETCH_VALUE, 1, true, false, false, false, 0, {0}},
	{"i16", CAT_TYPE_I64, FETCH_VALUE, 2, true, false, false, false, 0, {0}},
	{"i32", CAT_TYPE_I64, FETCH_VALUE, 4, true, false, false, false, 0, {0}},
	{"i64", CAT_TYPE_I64, FETCH_VALUE, 8, true, false, false, false, 0, {0}},
	{"int", CAT_TYPE_I64, FETCH_VALUE, 4, true, false, false, false, 0, {0}},
	{"uint", CAT_TYPE_U64, FETCH_VALUE, 4, false, false, false, false, 0, {0}},
	{"long", CAT_TYPE_I64, FETCH_VALUE, 8, true, false, false, false, 0, {0}},
	{"ulong", CAT_TYPE_U64, FETCH_VALUE, 8, false, false, false, false, 0, {0}},
	{"size", CAT_TYPE_BYTES, FETCH_VALUE, 8, false, false, false, false, 0, {0}},
	{"bool", CAT_TYPE_BOOL, FETCH_VALUE, 1, false, false, false, false, 0, {0}},
	{"ptr", CAT_TYPE_PTR, FETCH_VALUE, 8, false, false, false, false, 0, {0}},
	{"object", CAT_TYPE_PTR, FETCH_VALUE, 8, false, true, false, false, 1, {0}},
	{"str", CAT_TYPE_STRING, FETCH_CSTRING, 8, false, false, false, false, 0, {0}},
	{"cxxstr", CAT_TYPE_STRING, FETCH_CXXSTRING, 8, false, false, false, false, 0, {0}},
	{"pystr", CAT_TYPE_STRING, FETCH_PYSTRING, 8, false, false, false, false, 0, {0}},
	{"pytype", CAT_TYPE_STRING, FETCH_CSTRING, 8, false, false, false, false, 2, {8, 24}},
	{"pycode", CAT_TYPE_CODE, FETCH_PYCODE, 8, false, false, false, false, 0, {0}},
	{"text", CAT_TYPE_STRING, FETCH_TEXT, 8, false, false, false, false, 0, {0}},
	{"kernel", CAT_TYPE_STRING, FETCH_VALUE, 8, false, false, true, false, 0, {0}},
	{"xyz", CAT_TYPE_DIM3, FETCH_XYZ, 8, false, false, false, false, 0, {0}},
	{"dim3", CAT_TYPE_DIM3, FETCH_DIM3, 8, false, false, false, false, 0, {0}},
	{"count", CAT_TYPE_U64, FETCH_COUNT, 8, false, false, false, false, 0, {0}},
	{"uid", CAT_TYPE_U64, FETCH_UID, 8, false, false, false, false, 0, {0}},
	{"shape", CAT_TYPE_SHAPE, FETCH_SHAPE, 8, false, false, false, true, 1, {0}},
	{"dtype", CAT_TYPE_U64, FETCH_VALUE, 2, false, false, false, true, 1, {0}},
};
#define TYPE_COUNT (sizeof(types) / sizeof(types[0]))

static const char *const float_types[] = {"float", "double", "half", "f16", "f32", "f64"};

struct sig {
	const char *p;
	const char *bad; /* where the error is */
	struct err *e;
	unsigned next; /* position of the next argument: 0.. */
	struct cat_entry *entry;
};

static int fail(struct sig *s, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int fail(struct sig *s, const char *at, const char *fmt, ...)
{
	char msg[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	s->bad = at;
	err_set(s->e, EINVAL, "%s", msg);
	return -EINVAL;
}

static void skip_space(struct sig *s)
{
	while (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r')
		s->p++;
}

/* The identifier at the current place, after space; 0 when there is none. */
static size_t word_len(struct sig *s)
{
	skip_space(s);
	size_t n = 0;
	if (!isalpha((unsigned char)*s->p) && *s->p != '_')
		return 0;
	while (isalnum((unsigned char)s->p[n]) || s->p[n] == '_')
		n++;
	return n;
}

static bool word_is(const char *p, size_t n, const char *word)
{
	return strlen(word) == n && memcmp(p, word, n) == 0;
}

static bool take(struct sig *s, const char *mark)
{
	skip_space(s);
	size_t n = strlen(mark);
	if (strncmp(s->p, mark, n) != 0)
		return false;
	s->p += n;
	return true;
}

/* What stands at a place, for quoting: a word or one character, or "end". */
static const char *what_is_at(const char *p, char *ret, size_t size)
{
	size_t n = 0;
	while (isalnum((unsigned char)p[n]) || p[n] == '_')
		n++;
	if (*p && n == 0)
		n = 1;
	if (!*p)
		snprintf(ret, size, "the end");
	else
		snprintf(ret, size, "'%.*s'", (int)(n > 40 ? 40 : n), p);
	return ret;
}

static int fail_unknown_type(struct sig *s, const char *at, size_t n)
{
	char known[320] = "";
	for (size_t i = 0; i < TYPE_COUNT; i++)
		cat_add_word(known, sizeof(known), types[i].name);
	return fail(s, at, "unknown type '%.*s' (known: %s)", (int)(n > 40 ? 40 : n), at, known);
}

static int parse_type(struct sig *s, const struct type **ret)
{
	size_t n = word_len(s);
	const char *at = s->p;
	char quoted[64];
	if (n == 0)
		return fail(s, at, "expected a type, found %s",
			    what_is_at(at, quoted, sizeof(quoted)));
	for (size_t i = 0; i < TYPE_COUNT; i++) {
		if (!word_is(at, n, types[i].name))
			continue;
		*ret = &types[i];
		s->p += n;
		return 0;
	}
	for (size_t i = 0; i < sizeof(float_types) / sizeof(float_types[0]); i++)
		if (word_is(at, n, float_types[i]))
			return fail(s, at,
				    "'%s' arguments travel in SSE registers, which uprobes cannot "
				    "read; leave it out (it takes no place among the others)",
				    float_types[i]);
	if (word_is(at, n, "void"))
		return fail(s, at,
			    "'void' has no value; 'ptr' is an address, '-> void' may be "
			    "left out");
	return fail_unknown_type(s, at, n);
}

/* 'int:CUresult': the enumeration that names the values. */
static int parse_enum(struct sig *s, const struct type *t, struct cat_arg *arg)
{
	if (*s->p != ':')
		return 0;
	const char *at = s->p++;
	size_t n = word_len(s);
	if (n == 0 || n > MAX_ENUM_NAME)
		return fail(s, at, "expected the name of an enumeration after ':'");
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): parse_type() found it */
	if (t->fetch != FETCH_VALUE || (t->arg_type != CAT_TYPE_I64 && t->arg_type != CAT_TYPE_U64))
		return fail(s, at, "only numbers have names");
	arg->enum_type = xcalloc(n + 1, 1);
	memcpy(arg->enum_type, s->p, n);
	s->p += n;
	return 0;
}

static int add_deref(struct sig *s, const char *at, struct arg_desc *d, int32_t offset)
{
	if (d->nderef == MAX_DEREFS)
		return fail(s, at, "more than %d pointers to follow", MAX_DEREFS);
	d->deref[d->nderef++] = offset;
	return 0;
}

static int parse_number(struct sig *s, unsigned limit, unsigned *ret)
{
	const char *at = s->p;
	uint64_t v = 0;
	if (!isdigit((unsigned char)*at))
		return fail(s, at, "expected a number");
	while (isdigit((unsigned char)*s->p)) {
		v = v * 10 + (unsigned)(*s->p++ - '0');
		if (v > limit)
			return fail(s, at, "number larger than %u", limit);
	}
	*ret = (unsigned)v;
	return 0;
}

/* '@arg3' or '@stack0', then offsets to follow: '[8][24]'; or '@caller'. */
static int parse_place(struct sig *s, unsigned *ret_position, struct arg_desc *d)
{
	char quoted[64];
	skip_space(s);
	const char *at = s->p;
	unsigned base;
	if (strncmp(at, "arg", 3) == 0) {
		base = 0;
		s->p += 3;
	} else if (strncmp(at, "stack", 5) == 0) {
		base = REGISTER_ARGS;
		s->p += 5;
	} else if (strncmp(at, "caller", 6) == 0) {
		s->p += 6;
		*ret_position = AT_CALLER;
		return 0;
	} else {
		return fail(s, at, "expected argN, stackN or caller after '@', found %s",
			    what_is_at(at, quoted, sizeof(quoted)));
	}
	unsigned n;
	int rc = parse_number(s, MAX_POSITION - base, &n);
	if (rc)
		return rc;
	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): fail() is not 0 */
	*ret_position = base + n;
	for (;;) {
		skip_space(s);
		at = s->p;
		if (!take(s, "["))
			return 0;
		bool negative = take(s, "-");
		skip_space(s);
		rc = parse_number(s, MAX_OFFSET, &n);
		if (rc == 0)
			rc = add_deref(s, at, d, negative ? -(int32_t)n : (int32_t)n);
		if (rc)
			return rc;
		if (!take(s, "]"))
			return fail(s, s->p, "expected ']' after the offset");
	}
}

/* Fills how to fetch a type from what place, stars and offsets have led to. */
static int apply_type(struct sig *s, const char *at, const struct type *t, unsigned stars,
		      struct cat_arg *arg)
{
	struct arg_desc *d = &arg->fetch;
	for (unsigned i = 0; i < stars; i++) {
		int rc = add_deref(s, at, d, 0);
		if (rc)
			return rc;
	}
	for (unsigned i = 0; i < t->nderef; i++) {
		int rc = add_deref(s, at, d, t->deref[i]);
		if (rc)
			return rc;
	}
	arg->arg_type = t->arg_type;
	arg->is_vtable = t->is_vtable;
	arg->is_kernel = t->is_kernel;
	arg->of_tensor = t->of_tensor;
	d->fetch = t->fetch;
	d->size = t->size;
	d->is_signed = t->is_signed;
	return 0;
}

static unsigned take_stars(struct sig *s)
{
	unsigned n = 0;
	while (n <= MAX_DEREFS && take(s, "*"))
		n++;
	return n;
}

static int set_name(struct sig *s, const char *at, const char *name, size_t n, struct cat_arg *arg)
{
	if (n > MAX_NAME)
		return fail(s, at, "name longer than %d characters", MAX_NAME);
	if (word_is(name, n, "return"))
		return fail(s, at, "'return' is the name of the return value");
	for (unsigned i = 0; i < s->entry->nargs; i++)
		if (word_is(name, n, s->entry->args[i].name))
			return fail(s, at, "second argument named '%.*s'", (int)n, name);
	arg->name = xcalloc(n + 1, 1);
	memcpy(arg->name, name, n);
	return 0;
}

static int set_position(struct sig *s, const char *at, unsigned position, struct arg_desc *d)
{
	if (position > MAX_POSITION && position != AT_CALLER)
		return fail(s, at, "more than %d arguments", MAX_POSITION + 1);
	d->source = position < REGISTER_ARGS ? ARG_REG : ARG_STACK;
	d->index = (uint8_t)(position < REGISTER_ARGS ? position : position - REGISTER_ARGS);
	return 0;
}

static int fail_too_many(struct sig *s, const char *at)
{
	return fail(s, at, "more than %d values, the return value included; skip some with '_'",
		    MAX_ARGS);
}

static int mark_naming(struct sig *s, const char *at, struct cat_arg *arg)
{
	for (unsigned i = 0; i < s->entry->nargs; i++)
		if (s->entry->args[i].is_name)
			return fail(s, at, "second argument that names the call");
	if (!cat_arg_can_name(arg))
		return fail(s, at, "a call is named by a string, pycode or object");
	arg->is_name = true;
	return 0;
}

/* How many places an argument takes. A uid by value is 128 bytes of stack. */
static unsigned width_of(const struct type *t, const struct cat_arg *arg)
{
	if (t->fetch == FETCH_XYZ)
		return 3;
	if (arg->fetch.nderef)
		return 1;
	return t->fetch == FETCH_DIM3 ? 2 : t->fetch == FETCH_UID ? UID_BYTES / 8 : 1;
}

/* What cannot be read where it is said to be. */
static int check_place(struct sig *s, const char *at, const struct type *t,
		       const struct arg_desc *d)
{
	if (d->nderef && (t->fetch == FETCH_XYZ || t->fetch == FETCH_COUNT))
		return fail(s, at, "'%s' is of the arguments themselves: no pointer to follow%s",
			    t->name, t->fetch == FETCH_XYZ ? "; 'dim3*' is" : "");
	if (d->nderef)
		return 0;
	if (t->fetch == FETCH_UID && d->source != ARG_STACK)
		return fail(s, at, "a 'uid' that is passed by value lies on the stack: '@stackN'");
	/* a struct is not split; what follows it takes the register that it leaves free */
	if (t->fetch == FETCH_DIM3 && d->source == ARG_REG && d->index == REGISTER_ARGS - 1)
		return fail(s, at,
			    "a 'dim3' does not begin in the last register: '@stackN', and "
			    "the next argument '@arg5'");
	return 0;
}

/* The name, placement and marks that follow a type. */
static int parse_arg_rest(struct sig *s, const char *at, const struct type *t, bool out,
			  struct cat_arg *arg)
{
	unsigned stars = take_stars(s);
	size_t n = word_len(s);
	const char *name = s->p;
	s->p += n;
	unsigned position = s->next;
	int rc = 0;
	if (take(s, "@"))
		rc = parse_place(s, &position, &arg->fetch);
	if (rc == 0)
		rc = set_position(s, at, position, &arg->fetch);
	if (rc)
		return rc;
	if (out && t->fetch >= FETCH_TEXT && t->fetch != FETCH_SHAPE)
		return fail(s, at, "'%s' is read when the call begins: no 'out'", t->name);
	if (out && stars == 0 && arg->fetch.nderef == 0)
		return fail(s, at, "'out' needs a pointer to read through: 'out %s*'", t->name);
	arg->fetch.at_return = out;
	rc = apply_type(s, at, t, stars, arg);
	if (rc)
		return rc;
	if (position != AT_CALLER) /* it takes no place among the arguments */
		s->next = position + width_of(t, arg);
	rc = check_place(s, at, t, &arg->fetch);
	if (rc)
		return rc;
	char number[16];
	if (n == 0) {
		n = (size_t)(position == AT_CALLER
				     ? snprintf(number, sizeof(number), "caller")
				     : snprintf(number, sizeof(number), "arg%u", position));
		name = number;
	}
	return set_name(s, name == number ? at : name, name, n, arg);
}

static int parse_arg(struct sig *s)
{
	size_t n = word_len(s);
	const char *at = s->p;
	if (word_is(at, n, "_")) {
		s->p += n;
		s->next++;
		return 0;
	}
	if (s->entry->nargs == MAX_ARGS)
		return fail_too_many(s, at);
	struct cat_arg *arg = &s->entry->args[s->entry->nargs];
	bool names_call = false;
	if (word_is(at, n, "name") && at[n] == ':') {
		names_call = true;
		s->p += n + 1;
		n = word_len(s);
	}
	bool out = word_is(s->p, n, "out");
	if (out)
		s->p += n;
	const struct type *t = NULL;
	int rc = parse_type(s, &t);
	if (rc == 0)
		rc = parse_enum(s, t, arg);
	if (rc == 0)
		rc = parse_arg_rest(s, at, t, out, arg);
	if (rc == 0 && names_call)
		rc = mark_naming(s, at, arg);
	if (rc == 0) {
		s->entry->nargs++;
	} else {
		free(arg->name);
		free(arg->enum_type);
		arg->enum_type = NULL;
	}
	return rc;
}

/* What follows '(' up to and with ')'. */
static int parse_args(struct sig *s)
{
	char quoted[64];
	if (take(s, ")"))
		return 0;
	size_t n = word_len(s);
	if (word_is(s->p, n, "void")) {
		const char *at = s->p;
		s->p += n;
		if (take(s, ")"))
			return 0;
		s->p = at;
	}
	for (;;) {
		if (take(s, "...")) {
			s->entry->variadic = true;
			if (take(s, ")"))
				return 0;
			return fail(s, s->p,
				    "'...' ends the arguments: expected ')'; skip one "
				    "with '_'");
		}
		int rc = parse_arg(s);
		if (rc)
			return rc;
		if (take(s, ")"))
			return 0;
		if (!take(s, ","))
			return fail(s, s->p, "expected ',' or ')', found %s",
				    what_is_at(s->p, quoted, sizeof(quoted)));
	}
}

/* '!nonzero except 600': cudaErrorNotReady is an answer. */
static int parse_except(struct sig *s)
{
	size_t n = word_len(s);
	if (!word_is(s->p, n, "except"))
		return 0;
	s->p += n;
	skip_space(s);
	unsigned v = 0;
	int rc = parse_number(s, INT32_MAX, &v);
	s->entry->has_except = rc == 0;
	s->entry->error_except = (int32_t)v;
	return rc;
}

static int parse_error_rule(struct sig *s, const struct cat_arg *arg)
{
	static const char *const rules[] = {
		[CAT_ERROR_NONZERO] = "nonzero",
		[CAT_ERROR_NEGATIVE] = "negative",
		[CAT_ERROR_NULL] = "null",
	};
	size_t n = word_len(s);
	const char *at = s->p;
	for (int i = CAT_ERROR_NONZERO; i <= CAT_ERROR_NULL; i++) {
		if (!word_is(at, n, rules[i]))
			continue;
		if (arg->fetch.fetch != FETCH_VALUE || arg->fetch.nderef)
			return fail(s, at, "only a plain number or pointer can tell an error");
		if (i == CAT_ERROR_NEGATIVE && !arg->fetch.is_signed)
			return fail(s, at, "an unsigned value is never negative");
		s->p += n;
		s->entry->error = (enum cat_error_rule)i;
		return parse_except(s);
	}
	char quoted[64];
	return fail(s, at, "expected nonzero, negative or null after '!', found %s",
		    what_is_at(at, quoted, sizeof(quoted)));
}

static int parse_return(struct sig *s)
{
	size_t n = word_len(s);
	const char *at = s->p;
	if (word_is(at, n, "void")) {
		s->p += n;
		return 0;
	}
	if (s->entry->nargs == MAX_ARGS)
		return fail_too_many(s, at);
	struct cat_arg *arg = &s->entry->args[s->entry->nargs];
	const struct type *t = NULL;
	int rc = parse_type(s, &t);
	if (rc)
		return rc;
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): fail() is not 0 */
	if (t->fetch == FETCH_PYCODE)
		return fail(s, at, "a frame is gone when its function returns");
	if (t->fetch >= FETCH_TEXT)
		return fail(s, at, "a '%s' is not returned", t->name);
	rc = parse_enum(s, t, arg);
	if (rc)
		return rc;
	arg->fetch.source = ARG_RETURN;
	arg->fetch.at_return = 1;
	rc = apply_type(s, at, t, take_stars(s), arg);
	if (!rc && take(s, "!"))
		rc = parse_error_rule(s, arg);
	if (rc) {
		free(arg->enum_type);
		arg->enum_type = NULL;
		return rc;
	}
	arg->name = xstrdup("return");
	s->entry->nargs++;
	s->entry->has_return = true;
	return 0;
}

static int parse_all(struct sig *s)
{
	char quoted[64];
	bool any = take(s, "(");
	int rc = any ? parse_args(s) : 0;
	if (rc)
		return rc;
	if (take(s, "->")) {
		any = true;
		rc = parse_return(s);
		if (rc)
			return rc;
	}
	skip_space(s);
	if (!any)
		return fail(s, s->p, "expected '(' or '->', found %s",
			    what_is_at(s->p, quoted, sizeof(quoted)));
	if (*s->p)
		return fail(s, s->p, "unexpected %s", what_is_at(s->p, quoted, sizeof(quoted)));
	return 0;
}

bool cat_arg_can_name(const struct cat_arg *arg)
{
	return arg->arg_type == CAT_TYPE_STRING || arg->arg_type == CAT_TYPE_CODE || arg->is_vtable;
}

int cat_signature_parse(struct cat_entry *entry, const char *sig, size_t *ret_pos, struct err *e)
{
	struct cat_entry parsed = {0};
	struct sig s = {.p = sig, .bad = sig, .e = e, .entry = &parsed};
	int rc = parse_all(&s);
	if (rc) {
		*ret_pos = (size_t)(s.bad - sig);
		cat_entry_free(&parsed);
		return rc;
	}
	cat_args_free(entry);
	memcpy(entry->args, parsed.args, sizeof(entry->args));
	entry->nargs = parsed.nargs;
	entry->has_return = parsed.has_return;
	entry->variadic = parsed.variadic;
	entry->error = parsed.error;
	entry->has_except = parsed.has_except;
	entry->error_except = parsed.error_except;
	return 0;
}
