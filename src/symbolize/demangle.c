/* demangle.c - C++ names for people, by the demangler in libstdc++.
 *
 * Mangled names come from files that nobody vouches for, and the mangling has back
 * references, by which a hundred bytes can describe a name of gigabytes. So the output is
 * taken piece by piece and the demangler left, by longjmp, once a name is longer than
 * anyone reads; it holds nothing to free at that point (libiberty/cp-demangle.c,
 * d_demangle_callback: its work areas are on the stack).
 *
 * What is shortened here works on the demangled text: the words of a name are separated
 * by spaces and nesting outside of "operator<" and the like is balanced. */
#include "symbolize/demangle.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#include "base/buffer.h"

#define MAX_MANGLED	  4096
#define MAX_DEMANGLED	  16384
#define MAX_TEMPLATE_ARGS 32 /* longer argument lists are shown as <...> */

/* What __cxa_demangle is made of: in libstdc++.a, declared by no header and not exported by
 * libstdc++.so. 0 on success. */
int __gcclibcxx_demangle_callback(const char *mangled,
				  void (*piece)(const char *text, size_t len, void *ctx),
				  void *ctx);

struct output {
	struct buf text;
	jmp_buf too_long;
};

static void add_piece(const char *text, size_t len, void *ctx)
{
	struct output *out = ctx;

	if (out->text.len + len > MAX_DEMANGLED)
		longjmp(out->too_long, 1);
	buf_add(&out->text, text, len);
}

/* Apart from its caller so that no local variable lives across the jump. */
static bool run_demangler(const char *name, struct output *out)
{
	if (setjmp(out->too_long))
		return false;
	return __gcclibcxx_demangle_callback(name, add_piece, out) == 0;
}

/* The demangled text as a C string; NULL when the name is not a mangled one. */
static char *demangle_whole(const char *name)
{
	struct output *out;
	char *text = NULL;

	if (strncmp(name, "_Z", 2) != 0 || strnlen(name, MAX_MANGLED) == MAX_MANGLED)
		return NULL;
	out = xcalloc(1, sizeof(*out));
	if (run_demangler(name, out)) {
		buf_byte(&out->text, '\0');
		text = (char *)out->text.data;
	} else {
		buf_free(&out->text);
	}
	free(out);
	return text;
}

/* Past the parenthesis that closes the one at s; NULL when there is none. */
static const char *after_parentheses(const char *s)
{
	int depth = 0;

	for (; *s; s++) {
		if (*s == '(')
			depth++;
		else if (*s == ')' && --depth == 0)
			return s + 1;
	}
	return NULL;
}

/* Past the '>' that closes the '<' at s; NULL when there is none. */
static const char *after_template(const char *s)
{
	int depth = 0;

	while (*s) {
		if (*s == '(') {
			s = after_parentheses(s);
			if (!s)
				return NULL;
			continue;
		}
		if (*s == '<')
			depth++;
		else if (*s == '>' && --depth == 0)
			return s + 1;
		s++;
	}
	return NULL;
}

/* Past the qualifiers of a member function that follow its parameters. */
static const char *after_qualifiers(const char *s)
{
	static const char *const words[] = {" const", " volatile", " &&", " &"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i]);

		if (strncmp(s, words[i], n) == 0 && (s[n] == '\0' || s[n] == ':' || s[n] == ' ')) {
			s += n;
			i = (size_t)-1;
		}
	}
	return s;
}

static bool ends_with_operator(const struct buf *out)
{
	static const char word[] = "operator";
	size_t n = sizeof(word) - 1;

	if (out->len < n || memcmp(out->data + out->len - n, word, n) != 0)
		return false;
	return out->len == n ||
	       !(isalnum(out->data[out->len - n - 1]) || out->data[out->len - n - 1] == '_');
}

/* Copies the operator that follows the word "operator" and returns what is after it. */
static const char *copy_operator(struct buf *out, const char *s)
{
	size_t n;

	if (*s == '(' || *s == '[')
		n = strnlen(s, 2);
	else if (*s == ' ' || *s == '"') /* a conversion, new, delete, co_await, a literal */
		n = strcspn(s, "(");
	else
		n = strspn(s, "<>=!+-*/%^&|~,");
	if (n == 0 && *s) /* another word that begins so: "operators" */
		n = 1;
	buf_add(out, s, n);
	return s + n;
}

/* Looks for words in front of the name that are not its return type. "vtable for ",
 * "typeinfo for ", "guard variable for " are followed by a type or variable, which is left as
 * it is: returns false. "non-virtual thunk to " is followed by a function: its length. */
static bool skip_thunk_prefix(const char *text, size_t *ret_len)
{
	static const char thunk[] = " thunk to ";
	size_t words = strcspn(text, "(<:");
	const char *at = memmem(text, words, thunk, sizeof(thunk) - 1);

	*ret_len = at ? at - text + sizeof(thunk) - 1 : 0;
	return !memmem(text, words, " for ", 5);
}

/* Copies a parenthesis or drops it where it is a parameter list; NULL when lost. */
static const char *shorten_parentheses(struct buf *out, const char *s)
{
	static const char anonymous[] = "(anonymous namespace)";
	size_t n = sizeof(anonymous) - 1;

	if (strncmp(s, anonymous, n) == 0) {
		buf_add(out, s, n);
		return s + n;
	}
	if (s[1] == '*' || s[1] == '&') /* returns a pointer to a function */
		return NULL;
	s = after_parentheses(s);
	return s ? after_qualifiers(s) : NULL;
}

static const char *shorten_template(struct buf *out, const char *s)
{
	const char *end = after_template(s);

	if (!end)
		return NULL;
	if (end - s > MAX_TEMPLATE_ARGS)
		buf_add(out, "<...>", 5);
	else
		buf_add(out, s, end - s);
	return end;
}

/* Drops the return type, parameters, qualifiers and long template arguments. False when
 * the text is of a form not known here. */
static bool shorten(const char *s, struct buf *out)
{
	size_t kept;

	if (!skip_thunk_prefix(s, &kept))
		return false;
	buf_add(out, s, kept);
	s += kept;
	while (s && *s) {
		if (ends_with_operator(out)) {
			s = copy_operator(out, s);
			if (*s == ' ' && s[1] == '<') /* "operator< <int>" */
				buf_byte(out, *s++);
		} else if (*s == '(') {
			s = shorten_parentheses(out, s);
		} else if (*s == '<') {
			s = shorten_template(out, s);
		} else if (*s == '[') { /* [abi:cxx11] */
			s = strchr(s, ']');
			s = s ? s + 1 : NULL;
		} else if (*s == ' ' && strncmp(s, " [clone", 7) == 0) {
			break;
		} else if (*s == ' ') { /* what came before was the return type */
			out->len = kept;
			s++;
		} else {
			buf_byte(out, *s++);
		}
	}
	return s && out->len > kept;
}

/* Copies that the compiler made of one function go by the function's name. The demangler
 * writes "f() [clone .constprop.0]"; names in C have the suffix itself. */
static void cut_clone_suffix(char *text)
{
	static const char *const suffixes[] = {" [clone ", ".constprop.", ".isra.", ".part.",
					       ".cold",	   ".lto_priv.",  ".llvm."};

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		char *at = strstr(text, suffixes[i]);

		if (at && at != text)
			*at = '\0';
	}
}

char *demangle(const char *name, int params)
{
	char *text = demangle_whole(name);
	struct buf out = {0};

	if (!text) {
		text = xstrdup(name);
		params = 1; /* nothing to shorten */
	}
	cut_clone_suffix(text);
	if (params)
		return text;
	if (!shorten(text, &out)) {
		buf_free(&out);
		return text;
	}
	buf_byte(&out, '\0');
	free(text);
	return (char *)out.data;
}

/* The last component of a qualified name, template arguments left whole. */
static const char *last_component(const char *s)
{
	const char *last = s;

	while (s && *s) {
		if (*s == '<') {
			s = after_template(s);
		} else if (*s == '(') {
			s = after_parentheses(s);
		} else if (s[0] == ':' && s[1] == ':') {
			s += 2;
			last = s;
		} else {
			s++;
		}
	}
	return last;
}

char *demangle_vtable(const char *symbol)
{
	static const char prefix[] = "vtable for ";
	char *text, *ret = NULL;

	if (strncmp(symbol, "_ZTV", 4) != 0)
		return NULL;
	text = demangle_whole(symbol);
	if (text && strncmp(text, prefix, sizeof(prefix) - 1) == 0) {
		cut_clone_suffix(text);
		ret = xstrdup(last_component(text + sizeof(prefix) - 1));
	}
	free(text);
	return ret;
}
