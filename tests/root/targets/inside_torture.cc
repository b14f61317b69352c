/* inside_torture.cc - see inside_torture.h. */
#include "inside_torture.h"

#include <cstdarg>
#include <immintrin.h>

/* All registers that a function has to keep are used: it begins with pushes, and goes on with
 * enough that a jump has room. */
#define SAVES                                                                                      \
	asm volatile("mov $0x11, %%ebx\n\tmov $0x12, %%ebp\n\tmov $0x13, %%r12d\n\t"               \
		     "mov $0x14, %%r13d\n\tmov $0x15, %%r14d\n\tmov $0x16, %%r15d"                 \
		     :                                                                             \
		     :                                                                             \
		     : "rbx", "rbp", "r12", "r13", "r14", "r15")

#define SAVES_FEW                                                                                  \
	asm volatile("mov $0x11, %%ebx\n\tmov $0x13, %%r12d\n\tmov $0x14, %%r13d"                  \
		     :                                                                             \
		     :                                                                             \
		     : "rbx", "r12", "r13")

static inline u64 mix(u64 h, u64 v)
{
	return (h ^ v) * 0x9e3779b97f4a7c15ULL + (h >> 29);
}

static inline u64 mixd(u64 h, double v)
{
	return mix(h, (u64)(int64_t)(v * 64));
}

TRACED u64 t_v2_plain(u64 a, u64 b)
{
	SAVES;
	return mix(a, b);
}

TRACED u64 t_v2_leaf(u64 a, u64 b)
{
	return a * 31 + b;
}

TRACED u64 t_v2_around_leaf(u64 a, u64 b)
{
	SAVES;
	return t_v2_leaf(a, b) + t_v2_plain(b, a);
}

TRACED u64 t_p_none()
{
	SAVES;
	return 77;
}

TRACED u64 t_p_one(u64 a)
{
	SAVES;
	return mix(1, a);
}

TRACED u64 t_v2_i6(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	SAVES;
	return mix(mix(mix(mix(mix(a, b), c), d), e), f);
}

TRACED u64 t_v2_i7(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g)
{
	SAVES;
	return mix(mix(mix(mix(mix(mix(a, b), c), d), e), f), g);
}

TRACED u64 t_v2_i12(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k,
		    u64 l)
{
	SAVES;
	return mix(mix(mix(mix(mix(t_v2_i7(a, b, c, d, e, f, g), h), i), j), k), l);
}

TRACED u64 t_v2_i20(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k,
		    u64 l, u64 m, u64 n, u64 o, u64 p, u64 q, u64 r, u64 s, u64 t)
{
	SAVES;
	u64 x = mix(mix(mix(mix(mix(mix(mix(a, b), c), d), e), f), g), h);
	x = mix(mix(mix(mix(mix(mix(x, i), j), k), l), m), n);
	return mix(mix(mix(mix(mix(mix(x, o), p), q), r), s), t);
}

/* Its arguments on the stack are its own. */
TRACED u64 t_v2_modify(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j)
{
	SAVES;
	volatile u64 *pg = &g, *ph = &h, *pi = &i, *pj = &j;
	*pg += a;
	*ph ^= b + *pg;
	*pi -= c * *ph;
	*pj += d ^ e ^ f ^ *pi;
	return mix(mix(mix(g, h), i), j);
}

TRACED double t_p_doubles(double a, double b, double c, double d, double e, double f, double g,
			  double h, double i, double j, double k)
{
	SAVES;
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k;
}

TRACED float t_p_floats(float a, float b, float c, float d, float e, float f, float g, float h,
			float i, float j)
{
	SAVES;
	return a - 2 * b + 3 * c - 4 * d + 5 * e - 6 * f + 7 * g - 8 * h + 9 * i - 10 * j;
}

TRACED u64 t_v2_mixed(u64 a, double b, u64 c, float d, int e, short f, double g, u64 h, u64 i,
		      u64 j, double k, double l, double m, double n, double o, double p, char q)
{
	SAVES;
	u64 x = mix(mix(mix(mix(mix(mix(a, c), (u64)e), (u64)f), h), i), j);
	x = mixd(mixd(mixd(mixd(x, b), (double)d), g), k);
	return mix(mixd(mixd(mixd(mixd(mixd(x, l), m), n), o), p), (u64)q);
}

template <typename T> static u64 all(u64 x, const T &s)
{
	for (u64 v : s.v)
		x = mix(x, v);
	return x;
}

TRACED u64 t_p_structs(s16 a, s24 b, s64 c, u64 d, s16 e, s16 f, s16 g)
{
	SAVES;
	return all(all(all(mix(all(all(all(1, a), b), c), d), e), f), g);
}

TRACED u64 t_p_float_struct(sd16 a, u64 b, sd16 c, sd16 d, sd16 e, sd16 f)
{
	SAVES;
	u64 x = mix(1, b);
	x = mixd(mixd(mixd(mixd(x, a.v[0]), a.v[1]), c.v[0]), c.v[1]);
	x = mixd(mixd(mixd(mixd(x, d.v[0]), d.v[1]), e.v[0]), e.v[1]);
	return mixd(mixd(x, f.v[0]), f.v[1]);
}

TRACED_C u64 t_p_s320(s320 a, u64 b)
{
	SAVES;
	return mix(all(3, a), b);
}

TRACED s16 t_p_make16(u64 a)
{
	SAVES;
	return {{mix(a, 1), mix(a, 2)}};
}

TRACED sd16 t_p_make_doubles(double a)
{
	SAVES;
	return {{a * 2, a * 3}};
}

TRACED s24 t_p_make24(u64 a)
{
	SAVES;
	return {{mix(a, 1), mix(a, 2), mix(a, 3)}};
}

TRACED s64 t_p_make64(u64 a, s64 b)
{
	SAVES;
	for (u64 &v : b.v)
		v = mix(v, a);
	return b;
}

TRACED __int128 t_p_wide(__int128 a, __int128 b, u64 c, __int128 d, __int128 e)
{
	SAVES;
	return a * 3 + b * 5 + c + d * 7 - e;
}

TRACED long double t_p_long_double(long double a, u64 b, long double c)
{
	SAVES;
	return a * 3 + (long double)b - c / 2;
}

TRACED _Complex long double t_p_complex(long double a, long double b)
{
	SAVES;
	_Complex long double ret;
	__real__ ret = a * 2 + b;
	__imag__ ret = b * 3 - a;
	return ret;
}

TRACED u64 t_p_varargs(u64 n, ...)
{
	SAVES;
	va_list ap;
	u64 x = n;
	va_start(ap, n);
	for (u64 i = 0; i < n; i++)
		x = mix(x, va_arg(ap, u64));
	va_end(ap);
	return x;
}

TRACED double t_p_vardoubles(u64 n, ...)
{
	SAVES;
	va_list ap;
	double x = 0;
	va_start(ap, n);
	for (u64 i = 0; i < n; i++)
		x = x * 2 + va_arg(ap, double) + (double)va_arg(ap, int);
	va_end(ap);
	return x;
}

TRACED u64 t_v2_deep(u64 n, u64 a)
{
	SAVES;
	return n ? mix(t_v2_deep(n - 1, a + n), n) : a;
}

TRACED u64 t_v2_even(u64 n, u64 a)
{
	SAVES;
	return n ? t_v2_odd(n - 1, a) + 1 : a;
}

TRACED u64 t_v2_odd(u64 n, u64 a)
{
	SAVES;
	return n ? t_v2_even(n - 1, a) * 3 : a + 5;
}

TRACED u64 t_v2_tail1(u64 a, u64 b)
{
	SAVES;
	return t_v2_tail2(a + b, b);
}

TRACED u64 t_v2_tail2(u64 a, u64 b)
{
	SAVES;
	return t_v2_tail3(b, a);
}

TRACED u64 t_v2_tail3(u64 a, u64 b)
{
	SAVES;
	return mix(a, b) + t_v2_plain(a, b);
}

/* Not to be replaced from outside: the compiler looks at which registers it changes, and whoever
 * calls it keeps values in the others (-fipa-ra, part of -O2). */
__attribute__((noinline, visibility("hidden"))) u64 t_p_hidden(u64 a)
{
	SAVES_FEW;
	return a + 3;
}

TRACED u64 t_v2_local(u64 a, u64 b)
{
	u64 c = a + 1, d = b + 2, e = a * 3, f = b * 5, g = a ^ b, h = a - b, i = a | 7, j = b | 9;
	asm volatile("" : "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h), "+r"(i), "+r"(j));
	u64 x = t_p_hidden(a);
	asm volatile("" : "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h), "+r"(i), "+r"(j));
	return mix(mix(mix(mix(mix(mix(mix(mix(x, c), d), e), f), g), h), i), j);
}

TRACED u64 t_p_call(void *fn, void *arg)
{
	SAVES;
	return ((callback)fn)(arg) + 1;
}

namespace
{
struct cleaner {
	u64 n;
	~cleaner()
	{
		t_v2_plain(n, 1);
	}
};
} // namespace

TRACED u64 t_v2_throw(u64 n, u64 a)
{
	SAVES;
	if (n % 7 != 6)
		throw n + a;
	return n;
}

TRACED u64 t_v2_pass(u64 n, u64 frames)
{
	SAVES;
	return 1 + (frames > 1 ? t_v2_pass(n, frames - 1) : t_v2_throw(n, 3));
}

TRACED u64 t_v2_catch(u64 n, u64 frames)
{
	SAVES;
	try {
		return t_v2_pass(n, frames);
	} catch (u64 v) {
		return t_v2_plain(v, n);
	}
}

TRACED u64 t_v2_rethrow(u64 n, u64 frames)
{
	SAVES;
	try {
		return t_v2_pass(n, frames);
	} catch (u64 v) {
		if (t_v2_catch(v, 2) != 1)
			throw;
		return 0;
	}
}

TRACED u64 t_v2_clean(u64 n, u64 frames)
{
	SAVES;
	cleaner a{n}, b{n + 1};
	return t_v2_rethrow(n, frames) + t_v2_plain(a.n, b.n);
}

__attribute__((noinline, visibility("default"), target("avx2"))) u64
t_p_vectors(__m256i a, __m256i b, __m256i c, __m256i d, __m256i e, __m256i f, __m256i g, __m256i h)
{
	SAVES_FEW;
	__m256i x =
		_mm256_add_epi64(_mm256_add_epi64(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d)),
				 _mm256_add_epi64(_mm256_xor_si256(e, f), _mm256_sub_epi64(g, h)));
	u64 v[4];
	_mm256_storeu_si256((__m256i *)v, x);
	return mix(mix(mix(v[0], v[1]), v[2]), v[3]);
}

__attribute__((noinline, visibility("default"), target("avx2"))) u64 vectors_of(const u64 *v)
{
	__m256i x[8];
	for (int i = 0; i < 8; i++)
		x[i] = _mm256_loadu_si256((const __m256i *)(v + 4 * i));
	return t_p_vectors(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]);
}

/* As hand-written code has it: one that checks nothing comes in behind the other's first
 * instruction. */
asm(".text\n\t.globl _Z13t_p_two_doorsm\n\t.type _Z13t_p_two_doorsm, @function\n"
    "_Z13t_p_two_doorsm:\n\t.cfi_startproc\n\tpush %rbx\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset "
    "%rbx, "
    "-16\n\t"
    "lea 1(%rdi), %rbx\n\tmov %rbx, %rdi\n\tpop %rbx\n\t.cfi_def_cfa_offset 8\n\t"
    ".globl second_door\n\t.type second_door, @function\n"
    "second_door:\n\tlea 5(%rdi,%rdi,2), %rax\n\tlea 7(%rax,%rax,4), %rax\n\t"
    "lea 9(%rax,%rax,2), %rax\n\tret\n\t.cfi_endproc\n\t"
    ".size _Z13t_p_two_doorsm, . - _Z13t_p_two_doorsm\n\t.size second_door, . - second_door\n");

/* As the CUDA driver's functions begin: a value of the library is looked at by its place from here,
 * in the instructions that are moved. */
asm(".data\n\t.balign 8\ntorture_state:\n\t.quad 0x12345, 7\n\t.text\n\t"
    ".globl _Z9t_v2_flagmm\n\t.type _Z9t_v2_flagmm, @function\n"
    "_Z9t_v2_flagmm:\n\t.cfi_startproc\n\tpush %rbp\n\t.cfi_def_cfa_offset 16\n\t"
    ".cfi_offset %rbp, -16\n\tmov %rsp, %rbp\n\t.cfi_def_cfa_register %rbp\n\t"
    "mov %rdi, %rax\n\tcmpl $0x12345, torture_state(%rip)\n\tjne 1f\n\tlea 3(%rdi,%rdi,4), %rdi\n"
    "1:\tlea (%rdi,%rsi,2), %rax\n\tpop %rbp\n\t.cfi_def_cfa %rsp, 8\n\tret\n\t.cfi_endproc\n\t"
    ".size _Z9t_v2_flagmm, . - _Z9t_v2_flagmm\n\t"
    ".globl _Z10t_v2_countmm\n\t.type _Z10t_v2_countmm, @function\n"
    "_Z10t_v2_countmm:\n\t.cfi_startproc\n\tendbr64\n\tlock incq torture_state+8(%rip)\n\t"
    "lea torture_state(%rip), %r10\n\timul 8(%r10), %rdi\n\tlea (%rdi,%rsi,8), %rax\n\t"
    "ret\n\t.cfi_endproc\n\t.size _Z10t_v2_countmm, . - _Z10t_v2_countmm\n");

namespace torture
{
u64 words(u64 a, u64 b, int c, double d, u64 e, u64 f, u64 g, u64 h, bool i, char j)
{
	SAVES;
	u64 x = mixd(mix(mix(a, b), (u64)c), d);
	return mix(mix(mix(mix(mix(mix(x, e), f), g), h), i), (u64)j);
}

u64 structs(s16 a, s24 b, u64 c, s24 d)
{
	SAVES;
	return all(mix(all(all(2, a), b), c), d);
}

u64 big(s64 a)
{
	SAVES;
	return all(4, a);
}

u64 two_big(u64 a, s64 b, s64 c)
{
	SAVES;
	return all(all(a, b), c);
}

u64 varargs(u64 n, ...)
{
	SAVES;
	va_list ap;
	u64 x = n;
	va_start(ap, n);
	for (u64 i = 0; i < n; i++)
		x = mix(x, va_arg(ap, u64));
	va_end(ap);
	return x;
}

u64 doubles(double a, double b, double c, double d, double e, double f, double g, double h,
	    double i, double j)
{
	SAVES;
	u64 x = mixd(mixd(mixd(mixd(mixd(1, a), b), c), d), e);
	return mixd(mixd(mixd(mixd(mixd(x, f), g), h), i), j);
}

u64 object::add(u64 a, const s64 &b)
{
	SAVES;
	return state = all(mix(state, a), b);
}
} // namespace torture
