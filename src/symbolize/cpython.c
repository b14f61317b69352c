/* cpython.c - which CPython a file holds, and where in its objects the names are.
 *
 * Reads: struct offsets of PyFrameObject / _PyInterpreterFrame, PyCodeObject and
 * PyASCIIObject on x86-64, from the headers named at each row, 3.8 to 3.14. What they are
 * used for and what can be seen with them is in docs/developers/cpython.md. Debug builds (Py_DEBUG,
 * Py_TRACE_REFS) of 3.8 to 3.12 have longer object headers and are not told apart; from 3.13
 * on the interpreter says its offsets itself. */
#include "symbolize/cpython.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINOR(hex)   ((hex) >> 16 & 0xff)
#define OLDEST_MINOR 8
#define NEWEST_MINOR 14

bool cpython_present(const struct elf_file *f)
{
	struct elf_symbol sym;

	return elf_file_find(f, "_PyEval_EvalFrameDefault", &sym) && sym.is_function;
}

/* Reads "3.11.2", "3.13.0rc1" or, in a file name, "3.11"; 0 when the text is no version of
 * Python 3. Pre-releases count as the release. */
static uint32_t version_from_text(const char *s)
{
	unsigned int minor, micro = 0;
	int used = 0;

	if (sscanf(s, "3.%3u%n", &minor, &used) != 1 || minor > 99)
		return 0;
	if (s[used] == '.' && isdigit((unsigned char)s[used + 1]))
		micro = strtoul(s + used + 1, NULL, 10);
	return 0x030000f0u | minor << 16 | (micro & 0xff) << 8;
}

/* "libpython3.8.so.1.0", "/opt/conda/bin/python3.10"; 0 when there is no minor version. */
static uint32_t version_from_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *at = strstr(slash ? slash + 1 : path, "python3.");

	/* What follows the minor version in a file name is ".so", "m" or the like. */
	return at ? version_from_text(at + 6) & 0xffff00ff : 0;
}

/* A string that is nothing but a version: digits and points, then at most a suffix such as
 * "+", "rc1" or "a2+". */
static uint32_t version_from_string(const char *s)
{
	size_t n = strspn(s, "0123456789.");
	size_t points = 0;

	for (size_t i = 0; i < n; i++)
		points += s[i] == '.';
	n += strspn(s + n, "abrc");
	n += strspn(s + n, "0123456789+");
	return s[n] == '\0' && n < 16 && points == 2 ? version_from_text(s) : 0;
}

/* PY_VERSION is a string of its own in every build, unless the linker has made it the tail of
 * a longer one ("/opt/python/3.8.18"): tails says whether to look there. want: a version whose
 * minor it must have, or 0 for any that is known here. */
static uint32_t version_from_rodata(const struct elf_file *f, uint32_t want, bool tails)
{
	const uint8_t *data, *p, *end;
	uint64_t address;
	size_t len;

	if (!elf_file_section(f, ".rodata", &data, &len, &address) || len == 0)
		return 0;
	end = data + len;
	for (p = data + 1; (p = memmem(p, end - p, "3.", 2)); p += 2) {
		bool whole = p[-1] == '\0';
		uint32_t v;

		if (!whole && !(tails && ispunct(p[-1]) && p[-1] != '.'))
			continue;
		if (!memchr(p, '\0', end - p))
			return 0;
		v = version_from_string((const char *)p);
		if (v && (want ? MINOR(v) == MINOR(want)
			       : MINOR(v) >= OLDEST_MINOR && MINOR(v) <= NEWEST_MINOR))
			return v;
	}
	return 0;
}

int cpython_version(const struct elf_file *f, const char *path, uint32_t *ret, struct err *e)
{
	const char *soname = elf_file_soname(f);
	struct elf_symbol sym;
	const void *value = NULL;
	uint32_t named = 0, found;

	/* const unsigned long Py_Version, Include/pylifecycle.h of 3.11 */
	if (elf_file_find(f, "Py_Version", &sym))
		value = elf_file_bytes(f, sym.address, 8);
	if (value) {
		uint64_t hex;

		memcpy(&hex, value, sizeof(hex));
		if (hex >> 24 == 3) {
			*ret = hex;
			return 0;
		}
	}
	if (soname)
		named = version_from_name(soname);
	if (!named)
		named = version_from_name(path);
	found = version_from_rodata(f, named, false);
	if (!found)
		found = version_from_rodata(f, named, true);
	if (!found)
		found = named;
	if (!found)
		return err_set(e, ENOENT, "%s: no version of CPython found in it", path);
	*ret = found;
	return 0;
}

/* struct PyASCIIObject, Include/cpython/unicodeobject.h. Before 3.12 it ends in wchar_t *wstr
 * and PyCompactUnicodeObject in Py_ssize_t wstr_length. state: interned:2 kind:3 compact:1
 * ascii:1. */
#define STR_TO_311                                                                                 \
	.str_length = 16, .str_state = 32, .str_ascii_data = 48, .str_compact_data = 72,           \
	.state_kind_shift = 2, .state_ascii_shift = 6
#define STR_FROM_312                                                                               \
	.str_length = 16, .str_state = 32, .str_ascii_data = 40, .str_compact_data = 56,           \
	.state_kind_shift = 2, .state_ascii_shift = 6

/* clang-format off */
static const struct py_layout layouts[] = {
	/* PyFrameObject: Include/frameobject.h; PyCodeObject: Include/code.h (3.8, 3.9),
	 * Include/cpython/frameobject.h, Include/cpython/code.h (3.10). No co_qualname. */
	[8]  = {.frame_code = 32, .code_firstlineno = 40, .code_filename = 104, .code_name = 112,
		STR_TO_311},
	[9]  = {.frame_code = 32, .code_firstlineno = 40, .code_filename = 104, .code_name = 112,
		STR_TO_311},
	[10] = {.frame_code = 32, .code_firstlineno = 40, .code_filename = 104, .code_name = 112,
		STR_TO_311},
	/* _PyInterpreterFrame: Include/internal/pycore_frame.h; Include/cpython/code.h. */
	[11] = {.frame_code = 32, .code_firstlineno = 72, .code_filename = 112, .code_name = 120,
		.code_qualname = 128, STR_TO_311},
	[12] = {.frame_code = 0, .code_firstlineno = 68, .code_filename = 112, .code_name = 120,
		.code_qualname = 128, STR_FROM_312},
	[13] = {.frame_code = 0, .code_firstlineno = 68, .code_filename = 112, .code_name = 120,
		.code_qualname = 128, STR_FROM_312},
	/* f_executable is a _PyStackRef: Include/internal/pycore_interpframe_structs.h; its two
	 * low bits are tags: Include/internal/pycore_stackref.h. */
	[14] = {.frame_code = 0, .code_firstlineno = 68, .code_filename = 112, .code_name = 120,
		.code_qualname = 128, STR_FROM_312, .frame_code_tagged = 1},
};
/* clang-format on */

static int check_version(uint32_t version_hex, int oldest, struct err *e)
{
	int minor = MINOR(version_hex);

	if (version_hex >> 24 == 3 && minor >= oldest && minor <= NEWEST_MINOR)
		return 0;
	return err_set(e, EINVAL, "CPython %u.%d is not known here: 3.%d to 3.%d are",
		       version_hex >> 24, minor, oldest, NEWEST_MINOR);
}

int cpython_layout(uint32_t version_hex, struct py_layout *ret, struct err *e)
{
	int rc = check_version(version_hex, OLDEST_MINOR, e);

	if (rc < 0)
		return rc;
	*ret = layouts[MINOR(version_hex)];
	return 0;
}

/* Indices of 8-byte fields in _Py_DebugOffsets: Include/internal/pycore_runtime.h (3.13),
 * Include/internal/pycore_debug_offsets.h (3.14). The first three are the cookie "xdebugpy",
 * PY_VERSION_HEX and whether it is a free-threaded build. */
struct offset_fields {
	uint8_t frame_executable;
	uint8_t code_size;
	uint8_t code_filename;
	uint8_t code_name;
	uint8_t code_qualname;
	uint8_t code_firstlineno;
	uint8_t str_size; /* of PyUnicodeObject */
	uint8_t str_state;
	uint8_t str_length;
	uint8_t str_ascii_size;
};
static const struct offset_fields fields_313 = {30, 34, 35, 36, 37, 39, 67, 68, 69, 70};
static const struct offset_fields fields_314 = {33, 39, 40, 41, 42, 44, 77, 78, 79, 80};

/* PyCompactUnicodeObject adds Py_ssize_t utf8_length and char *utf8 to PyASCIIObject. */
#define COMPACT_EXTRA 16
#define MAX_STRUCT    4096

static uint64_t field(const uint8_t *image, uint8_t index)
{
	uint64_t v;

	memcpy(&v, image + 8 * (size_t)index, sizeof(v));
	return v;
}

/* Whether a field of n bytes can be there: after the object's header, within its size. */
static bool fits(uint64_t offset, uint64_t n, uint64_t size)
{
	return offset >= 16 && size >= n && offset <= size - n && offset % n == 0;
}

/* Whether the offsets could be those of real structs, so that a field list of another
 * release is noticed. */
static bool plausible(const uint8_t *image, const struct offset_fields *at)
{
	uint64_t code_size = field(image, at->code_size);
	uint64_t ascii_size = field(image, at->str_ascii_size);

	return code_size <= MAX_STRUCT && ascii_size <= 256 &&
	       field(image, at->frame_executable) <= 256 &&
	       fits(field(image, at->code_filename), 8, code_size) &&
	       fits(field(image, at->code_name), 8, code_size) &&
	       fits(field(image, at->code_qualname), 8, code_size) &&
	       fits(field(image, at->code_firstlineno), 4, code_size) &&
	       fits(field(image, at->str_length), 8, ascii_size) &&
	       fits(field(image, at->str_state), 4, ascii_size) &&
	       field(image, at->str_size) == ascii_size + COMPACT_EXTRA + 8;
}

int cpython_layout_from_offsets(const void *image, size_t len, struct py_layout *ret, struct err *e)
{
	const struct offset_fields *at;
	const uint8_t *p = image;
	uint32_t version;
	bool free_threaded;
	int rc;

	if (len < 24 || memcmp(p, "xdebugpy", 8) != 0)
		return err_set(e, EINVAL,
			       "no debug offsets: _PyRuntime does not begin with "
			       "\"xdebugpy\"");
	version = field(p, 1);
	free_threaded = field(p, 2) != 0;
	rc = check_version(version, 13, e);
	if (rc < 0)
		return rc;
	at = MINOR(version) == 13 ? &fields_313 : &fields_314;
	if (len < 8 * ((size_t)at->str_ascii_size + 1) || !plausible(p, at))
		return err_set(e, EINVAL,
			       "the debug offsets of CPython 3.%d are not of a known form",
			       MINOR(version));
	*ret = (struct py_layout){
		.frame_code = field(p, at->frame_executable),
		.code_firstlineno = field(p, at->code_firstlineno),
		.code_filename = field(p, at->code_filename),
		.code_name = field(p, at->code_name),
		.code_qualname = field(p, at->code_qualname),
		.str_length = field(p, at->str_length),
		.str_state = field(p, at->str_state),
		.str_ascii_data = field(p, at->str_ascii_size),
		.str_compact_data = field(p, at->str_ascii_size) + COMPACT_EXTRA,
		.frame_code_tagged = MINOR(version) >= 14,
		.state_kind_shift = 2,
		.state_ascii_shift = 6,
	};
	if (free_threaded && MINOR(version) >= 14) {
		/* `interned` is a byte of its own there, for atomic access. */
		ret->state_kind_shift = 8;
		ret->state_ascii_shift = 12;
	}
	return 0;
}

int cpython_frame_register(uint32_t version_hex)
{
	/* 3.9 put PyThreadState *tstate in front: Include/cpython/ceval.h */
	return MINOR(version_hex) <= 8 ? 0 : 1;
}

static size_t encode(uint32_t c, char out[4])
{
	/* A NUL would end the text for its readers. */
	if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		c = 0xfffd;
	if (c < 0x80) {
		out[0] = c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = 0xc0 | c >> 6;
		out[1] = 0x80 | (c & 0x3f);
		return 2;
	}
	if (c < 0x10000) {
		out[0] = 0xe0 | c >> 12;
		out[1] = 0x80 | (c >> 6 & 0x3f);
		out[2] = 0x80 | (c & 0x3f);
		return 3;
	}
	out[0] = 0xf0 | c >> 18;
	out[1] = 0x80 | (c >> 12 & 0x3f);
	out[2] = 0x80 | (c >> 6 & 0x3f);
	out[3] = 0x80 | (c & 0x3f);
	return 4;
}

size_t cpython_string_utf8(const uint8_t *bytes, size_t len, uint8_t width, char *ret, size_t size)
{
	size_t step = width == 0x80 ? 1 : width, used = 0;

	if (size == 0)
		return 0;
	if (step != 1 && step != 2 && step != 4)
		len = 0;
	for (size_t i = 0; len - i >= step && i < len; i += step) {
		char out[4];
		uint32_t c = 0;
		size_t n;

		memcpy(&c, bytes + i, step);
		n = encode(width == 0x80 && c >= 0x80 ? 0xfffd : c, out);
		if (used + n > size - 1)
			break;
		memcpy(ret + used, out, n);
		used += n;
	}
	ret[used] = '\0';
	return used;
}
