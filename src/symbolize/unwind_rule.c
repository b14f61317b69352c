/* unwind_rule.c - what a row of call frame information is as a rule that BPF goes by.
 *
 * A rule that cannot be written becomes CFA_NONE: a stack that ends is better than one that
 * goes astray. A preserved register whose place cannot be written is only lost: most frames
 * are found without it. */
#include "symbolize/unwind_impl.h"

/* struct ucontext of the kernel (arch/x86/include/uapi/asm/sigcontext.h, and
 * include/uapi/asm-generic/ucontext.h): where rsp and rip are. */
#define UCONTEXT_RSP 160
#define UCONTEXT_RIP 168

/* No offset of a word on the stack is odd, so that the two marks cannot be mistaken. */
static bool fits_saved(int64_t offset)
{
	return offset >= INT16_MIN && offset <= INT16_MAX && !(offset & 1);
}

/* An address given as register + offset, as CFA + *ret where the CFA is by that register. */
static bool place_by_cfa(const struct unwind_rule *r, const struct cfi_place *place, int64_t *ret)
{
	return !place->deref && r->cfa == CFA_REG && r->reg == place->reg &&
	       !__builtin_sub_overflow(place->offset, r->offset, ret);
}

static bool set_cfa(struct unwind_rule *r, const struct cfi_value *cfa)
{
	struct cfi_place place = {.reg = cfa->reg, .offset = cfa->offset};
	int64_t offset;
	uint8_t at;

	if (cfi_plt_of(cfa, &offset, &at)) {
		r->cfa = CFA_PLT;
		r->reg = UNWIND_RSP;
		r->add = at;
		r->offset = (int32_t)offset;
		return offset == r->offset;
	}
	if (cfa->how != CFI_REGISTER && !cfi_place_of(cfa, &place))
		return false;
	r->cfa = place.deref ? CFA_DEREF : CFA_REG;
	r->reg = place.reg;
	r->offset = (int32_t)place.offset;
	r->add = (int32_t)place.add;
	return place.reg < UNWIND_REGISTERS && place.offset == r->offset && place.add == r->add;
}

/* The return address has to be in memory, at a place relative to the CFA. */
static bool set_return_address(struct unwind_rule *r, const struct cfi_value *v)
{
	struct cfi_place place;
	int64_t offset;

	if (v->how == CFI_AT_CFA)
		offset = v->offset;
	else if (v->how != CFI_AT_EXPRESSION || !cfi_place_of(v, &place) ||
		 !place_by_cfa(r, &place, &offset))
		return false;
	r->ra = (int16_t)offset;
	return offset == r->ra;
}

/* Where the caller's value of a preserved register is. */
static void set_saved(struct unwind_rule *r, enum cfi_column column, const struct cfi_value *v)
{
	int16_t *saved = &r->saved[column];
	struct cfi_place place;
	int64_t offset;

	*saved = UNWIND_LOST;
	if (v->how == CFI_UNSPECIFIED || v->how == CFI_SAME) {
		*saved = UNWIND_SAME;
	} else if (v->how == CFI_AT_CFA) {
		if (fits_saved(v->offset))
			*saved = (int16_t)v->offset;
	} else if (v->how == CFI_AT_EXPRESSION && cfi_place_of(v, &place) && !place.deref) {
		if (place_by_cfa(r, &place, &offset) && fits_saved(offset)) {
			*saved = (int16_t)offset;
		} else if (fits_saved(place.offset) && (!r->by_base || r->base == place.reg)) {
			*saved = (int16_t)place.offset;
			r->base = place.reg;
			r->by_base |= 1u << column;
		}
	}
}

/* The stack pointer of the caller is the CFA, unless something else is said. */
static bool is_ordinary_stack(const struct cfi_value *v)
{
	return v->how == CFI_UNSPECIFIED || v->how == CFI_SAME ||
	       (v->how == CFI_IS_CFA && v->offset == 0);
}

/* A frame that the kernel made for a signal: everything is in a struct ucontext. */
static bool signal_rule(struct unwind_rule *r, const struct cfi_row *row)
{
	struct cfi_place sp, ip;

	if (!cfi_place_of(&row->cfa, &sp) || !sp.deref || sp.reg != UNWIND_RSP || sp.add ||
	    !cfi_place_of(&row->columns[CFI_RA], &ip) || ip.deref || ip.reg != UNWIND_RSP)
		return false;
	r->cfa = CFA_SIGNAL;
	r->reg = UNWIND_RSP;
	r->offset = (int32_t)(sp.offset - UCONTEXT_RSP);
	return sp.offset >= UCONTEXT_RSP && sp.offset <= INT16_MAX &&
	       ip.offset == sp.offset - UCONTEXT_RSP + UCONTEXT_RIP;
}

bool unwind_rule_make(struct unwind_rule *r, const struct cfi_row *row, bool signal)
{
	const struct cfi_value *ra = &row->columns[CFI_RA];

	if (ra->how == CFI_UNDEFINED) {
		r->cfa = CFA_END;
		return true;
	}
	if (signal && row->cfa.how == CFI_IS_EXPRESSION)
		return signal_rule(r, row);
	if (!set_cfa(r, &row->cfa) || !set_return_address(r, ra) ||
	    !is_ordinary_stack(&row->columns[CFI_RSP]))
		return false;
	for (size_t i = 0; i < UNWIND_SAVED; i++)
		set_saved(r, i, &row->columns[i]);
	return true;
}
