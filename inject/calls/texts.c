/* texts.c - a text is known by a key, a hash of it, and told once: the kernel reads it where a
 * uprobe of eacgm is. Where there is no room any more it is told each time.
 *
 * Keys of characters are hashes of these; that of a code is one of its address and those of
 * its name and file, as the kernel tells codes apart (bpf/args_value.h). All begin with a number of
 * the program, which another of the same process, by execve(2), does not have.
 *
 * Compiled as calls.c is. What is followed, the probed function follows too, or has to find sound:
 * the type of an object, a type's name, a frame's code. */
#include "texts.h"

#include <stddef.h>

#include "../ticks.h"

#define OB_TYPE	     8		 /* PyObject, Include/object.h: not in free-threaded builds */
#define TP_FLAGS     168	 /* PyTypeObject, Include/cpython/object.h */
#define IS_STR	     (1UL << 28) /* Py_TPFLAGS_UNICODE_SUBCLASS */
#define TEXTS_NEAR   16
#define BEGIN_OF_FNV 0xcbf29ce484222325ULL

uint64_t *calls_texts;

void calls_text_place(uint64_t key, uint64_t value, uint64_t how);

static uint64_t word_at(uint64_t address)
{
	return *(const volatile uint64_t *)(uintptr_t)address;
}

/* Fowler, Noll and Vo: FNV-1a (draft-eastlake-fnv). */
static uint64_t add_byte(uint64_t hash, uint8_t byte)
{
	return (hash ^ byte) * 0x100000001b3ULL;
}

static uint64_t add_word(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

static bool hash_characters(uint64_t address, uint64_t *hash)
{
	if (address < LOWEST)
		return false;
	const volatile uint8_t *p = (const volatile uint8_t *)(uintptr_t)address;
	for (uint32_t i = 0; i < STRING_BYTES && p[i]; i++)
		*hash = add_byte(*hash, p[i]);
	return true;
}

/* A str that is compact, as all are whose characters are known. */
static bool hash_str(const struct call_objects *l, uint64_t str, uint64_t *hash)
{
	if (str < LOWEST || !(word_at(word_at(str + OB_TYPE) + TP_FLAGS) & IS_STR))
		return false;
	uint32_t state = (uint32_t)word_at(str + l->str_state);
	uint32_t width = (state >> (l->state_kind_shift & 31)) & 7;
	bool ascii = (state >> (l->state_ascii_shift & 31)) & 1;
	if (width != 1 && width != 2 && width != 4)
		return false;
	uint64_t n = word_at(str + l->str_length) * width;
	const volatile uint8_t *p =
		(const volatile uint8_t *)(uintptr_t)(str + (ascii ? l->str_ascii_data
								   : l->str_compact_data));
	*hash = add_word(*hash, n << 8 | width);
	for (uint64_t i = 0; i < n && i < STRING_BYTES; i++)
		*hash = add_byte(*hash, p[i]);
	return true;
}

static bool hash_code(const struct call_objects *l, uint64_t frame, uint64_t *hash)
{
	if (frame < LOWEST)
		return false;
	uint64_t code = word_at(frame + l->frame_code);
	if (l->frame_code_tagged)
		code &= ~7ULL;
	if (code < LOWEST)
		return false;
	*hash = add_word(add_word(*hash, code), word_at(code + l->code_name));
	*hash = add_word(*hash, word_at(code + l->code_filename));
	return true;
}

static bool hash_text(const struct call_site *site, uint8_t fetch, uint64_t value, uint64_t *hash)
{
	*hash = add_word(BEGIN_OF_FNV, fetch);
	if (fetch == FETCH_PYCODE)
		return hash_code(&site->objects, value, hash);
	if (fetch == FETCH_PYSTRING)
		return hash_str(&site->objects, value, hash);
	return hash_characters(value, hash);
}

/* The first of them is the program's number. Several threads may tell the same at once. */
static uint64_t key_of(uint64_t hash)
{
	uint64_t number = __atomic_load_n(calls_texts, __ATOMIC_RELAXED);
	if (!number) {
		uint64_t mine = add_word(BEGIN_OF_FNV, ticks_now()) | 1;
		if (__atomic_compare_exchange_n(calls_texts, &number, mine, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			number = mine;
	}
	return (add_word(number, hash) | 1) & ~CALL_CODE_BIT;
}

static void tell(uint64_t key, uint64_t value, uint64_t how)
{
	for (uint64_t i = key >> 32, end = i + TEXTS_NEAR; i < end; i++) {
		uint64_t *at = &calls_texts[1 + i % (CALLS_TEXTS_MOST - 1)];
		uint64_t was = __atomic_load_n(at, __ATOMIC_RELAXED);
		if (was == key)
			return;
		if (was)
			continue;
		calls_text_place(key, value, how);
		__atomic_store_n(at, key, __ATOMIC_RELEASE);
		return;
	}
	calls_text_place(key, value, how);
}

bool calls_text(const struct call_site *site, const struct arg_desc *a, uint64_t value,
		uint64_t *ret)
{
	uint64_t hash;
	if (!hash_text(site, a->fetch, value, &hash))
		return false;
	*ret = key_of(hash);
	tell(*ret, value, CALL_TEXT_HOW(a->fetch, a->layout));
	return true;
}
