/* target.h - the functions of libtarget.so: known first instructions, known arguments,
 * known results. They do next to nothing; callers count their calls. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each returns a + 1; they differ in their first instruction only. */
uint64_t target_push(uint64_t a);
uint64_t target_nop(uint64_t a);
uint64_t target_endbr(uint64_t a);
uint64_t target_sub(uint64_t a);
uint64_t target_lea(uint64_t a);
uint64_t target_mov(uint64_t a);
uint64_t target_ret(uint64_t a); /* the whole function is one lea and a ret */

/* Ends in a jump to target_push, which returns for both. */
uint64_t target_tail(uint64_t a);

/* Calls target_push times times. */
uint64_t target_outer(uint64_t times);

/* Calls itself depth - 1 times, one in another. */
uint64_t target_recurse(uint64_t depth);

/* Eight arguments: the last two lie on the stack. Returns their sum. */
int64_t target_args(int8_t a, uint16_t b, int32_t c, uint64_t d, const void *e, size_t f, int64_t g,
		    uint32_t h);

/* The length of s. */
size_t target_string(const char *s);

/* Stores value in *ret, returns 0; returns -1 and stores nothing when value is negative. */
int target_out(int64_t value, int64_t *ret);

/* NULL when size is 0, else a pointer that is not. */
void *target_pointer(size_t size);

/* Calls back, so that a caller can leave the frame in any way. */
void target_call(void (*fn)(void *), void *arg);

/* Sleeps that long inside the call. */
void target_sleep(uint32_t ms);

#ifdef __cplusplus
}
#endif
