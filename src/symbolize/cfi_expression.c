/* cfi_expression.c - the forms of expressions that compilers and linkers write; no other is
 * understood. Operations: DWARF 5, table 7.9. */
#include "symbolize/cfi_bytes.h"
#include "symbolize/eh_frame.h"
#include "wire/unwind.h"

enum { /* operations of expressions, DWARF 5, table 7.9 */
       EX_DEREF = 0x06,
       EX_AND = 0x1a,
       EX_PLUS = 0x22,
       EX_PLUS_UCONST = 0x23,
       EX_SHL = 0x24,
       EX_GE = 0x2a,
       EX_LIT0 = 0x30,
       EX_BREG0 = 0x70,
       EX_BREGX = 0x92,
};

static struct bytes expression_bytes(const struct cfi_value *v)
{
	if (v->how != CFI_IS_EXPRESSION && v->how != CFI_AT_EXPRESSION)
		return (struct bytes){0};
	return (struct bytes){v->expression, v->expression + v->len, true};
}

static bool read_register_offset(struct bytes *b, uint8_t *ret_reg, int64_t *ret_offset)
{
	uint8_t op = bytes_u8(b);
	uint64_t reg = op == EX_BREGX ? bytes_uleb(b) : (uint64_t)op - EX_BREG0;

	if (reg >= UNWIND_REGISTERS) /* other operations, too */
		return false;
	*ret_reg = reg;
	*ret_offset = bytes_sleb(b);
	return b->ok;
}

bool cfi_place_of(const struct cfi_value *v, struct cfi_place *ret)
{
	struct bytes b = expression_bytes(v);
	struct cfi_place place = {0};
	int64_t *to = &place.offset;

	if (!b.ok || !read_register_offset(&b, &place.reg, &place.offset))
		return false;
	while (b.at < b.end) {
		uint8_t op = bytes_u8(&b);

		if (op == EX_DEREF && !place.deref) {
			place.deref = true;
			to = &place.add;
		} else if (op == EX_PLUS_UCONST) {
			*to = (int64_t)((uint64_t)*to + bytes_uleb(&b));
		} else {
			return false;
		}
	}
	*ret = place;
	return b.ok;
}

bool cfi_plt_of(const struct cfi_value *v, int64_t *ret_offset, uint8_t *ret_at)
{
	static const uint8_t tail[] = {EX_GE, EX_LIT0 + 3, EX_SHL, EX_PLUS};
	struct bytes b = expression_bytes(v);
	uint8_t rsp, rip, at;
	int64_t offset, zero;
	const uint8_t *rest;

	if (!b.ok || !read_register_offset(&b, &rsp, &offset) ||
	    !read_register_offset(&b, &rip, &zero))
		return false;
	if (rsp != UNWIND_RSP || rip != UNWIND_RIP || zero != 0 || bytes_u8(&b) != EX_LIT0 + 15 ||
	    bytes_u8(&b) != EX_AND)
		return false;
	at = bytes_u8(&b) - EX_LIT0;
	rest = bytes_skip(&b, sizeof(tail));
	if (at > 15 || !rest || memcmp(rest, tail, sizeof(tail)) != 0 || b.at != b.end)
		return false;
	*ret_offset = offset;
	*ret_at = at;
	return true;
}
