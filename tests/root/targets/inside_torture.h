/* inside_torture.h - functions of libinside_torture.so, which inside_test.py has probed as of layer
 * torch. By the beginnings of their names: t_v2_ has two integers first and returns one, t_p_ is
 * anything else. Those that have SAVES begin with a push. Their names are C++'s, which tell what
 * they are given. */
#pragma once

#include <cstdint>

#define TRACED	 __attribute__((noinline, visibility("default")))
#define TRACED_C extern "C" TRACED

typedef uint64_t u64;

struct s16 {
	u64 v[2];
};
struct s24 {
	u64 v[3];
};
struct s64 {
	u64 v[8];
};
struct s320 {
	u64 v[40];
};
struct sd16 {
	double v[2];
};

typedef u64 (*callback)(void *);

TRACED u64 t_v2_plain(u64 a, u64 b);
TRACED u64 t_v2_leaf(u64 a, u64 b); /* saves nothing: the kernel's */
TRACED u64 t_v2_around_leaf(u64 a, u64 b);
TRACED u64 t_p_none();
TRACED u64 t_p_one(u64 a);
TRACED u64 t_v2_i6(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f);
TRACED u64 t_v2_i7(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g);
TRACED u64 t_v2_i12(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k,
		    u64 l);
TRACED u64 t_v2_i20(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k,
		    u64 l, u64 m, u64 n, u64 o, u64 p, u64 q, u64 r, u64 s, u64 t);
TRACED u64 t_v2_modify(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j);
TRACED double t_p_doubles(double a, double b, double c, double d, double e, double f, double g,
			  double h, double i, double j, double k);
TRACED float t_p_floats(float a, float b, float c, float d, float e, float f, float g, float h,
			float i, float j);
TRACED u64 t_v2_mixed(u64 a, double b, u64 c, float d, int e, short f, double g, u64 h, u64 i,
		      u64 j, double k, double l, double m, double n, double o, double p, char q);
TRACED u64 t_p_structs(s16 a, s24 b, s64 c, u64 d, s16 e, s16 f, s16 g);
TRACED u64 t_p_float_struct(sd16 a, u64 b, sd16 c, sd16 d, sd16 e, sd16 f);
TRACED_C u64 t_p_s320(s320 a, u64 b);
TRACED s16 t_p_make16(u64 a);
TRACED sd16 t_p_make_doubles(double a);
TRACED s24 t_p_make24(u64 a);
TRACED s64 t_p_make64(u64 a, s64 b);
TRACED __int128 t_p_wide(__int128 a, __int128 b, u64 c, __int128 d, __int128 e);
TRACED long double t_p_long_double(long double a, u64 b, long double c);
TRACED _Complex long double t_p_complex(long double a, long double b);
TRACED u64 t_p_varargs(u64 n, ...);
TRACED double t_p_vardoubles(u64 n, ...);
TRACED u64 t_v2_deep(u64 n, u64 a);
TRACED u64 t_v2_even(u64 n, u64 a);
TRACED u64 t_v2_odd(u64 n, u64 a);
TRACED u64 t_v2_tail1(u64 a, u64 b);
TRACED u64 t_v2_tail2(u64 a, u64 b);
TRACED u64 t_v2_tail3(u64 a, u64 b);
TRACED u64 t_v2_local(u64 a, u64 b);	  /* calls t_p_hidden, and knows what that changes */
TRACED u64 t_p_call(void *fn, void *arg); /* fn: a callback */
TRACED u64 t_v2_throw(u64 n, u64 a);
TRACED u64 t_v2_pass(u64 n, u64 frames);
TRACED u64 t_v2_catch(u64 n, u64 frames);
TRACED u64 t_v2_rethrow(u64 n, u64 frames);
TRACED u64 t_v2_clean(u64 n, u64 frames);
TRACED u64 vectors_of(const u64 *values); /* by a function that has them in ymm0 to ymm7 */
u64 t_v2_flag(u64 a, u64 b);		  /* assembler: begins with an operand relative to rip, */
u64 t_v2_count(u64 a, u64 b);		  /* with two, one of which it writes to */
u64 t_p_two_doors(u64 a);		  /* assembler: its second entry is inside of it */
extern "C" u64 second_door(u64 a);

namespace torture
{
__attribute__((noinline, visibility("default"))) u64 words(u64 a, u64 b, int c, double d, u64 e,
							   u64 f, u64 g, u64 h, bool i, char j);
__attribute__((noinline, visibility("default"))) u64 structs(s16 a, s24 b, u64 c, s24 d);
__attribute__((noinline, visibility("default"))) u64 big(s64 a);
__attribute__((noinline, visibility("default"))) u64 two_big(u64 a, s64 b, s64 c);
__attribute__((noinline, visibility("default"))) u64 varargs(u64 n, ...);
__attribute__((noinline, visibility("default"))) u64 doubles(double a, double b, double c, double d,
							     double e, double f, double g, double h,
							     double i, double j);
struct object {
	u64 state;
	__attribute__((noinline, visibility("default"))) u64 add(u64 a, const s64 &b);
};
} // namespace torture
