/* eh_frame.h - reads call frame information: which function has which rules at which address.
 *
 * Of .eh_frame and .debug_frame: DWARF 5, section 6.4; Linux Standard Base 5, "Exception
 * Frames"; x86-64 only. Rules are handed out as the sections say them, for the registers
 * that a call preserves; what they are worth to an unwinder is unwind_table.c's. Never trusts
 * the bytes, and takes time and memory in proportion to them. Internal to this folder. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/* Where a value of the caller is. */
enum cfi_how {
	CFI_UNSPECIFIED, /* nothing is said; the ABI then has it unchanged */
	CFI_UNDEFINED,
	CFI_SAME,
	CFI_AT_CFA,	   /* in memory at CFA + offset */
	CFI_IS_CFA,	   /* it is CFA + offset */
	CFI_REGISTER,	   /* in a register; for the CFA: that register + offset */
	CFI_AT_EXPRESSION, /* in memory at the address that the expression yields */
	CFI_IS_EXPRESSION,
};

struct cfi_value {
	uint8_t how; /* enum cfi_how */
	uint8_t reg; /* DWARF's number, 255 where it is greater */
	uint32_t len;
	union {
		int64_t offset;
		const uint8_t *expression; /* len bytes in the section */
	};
};

/* The registers that are followed; the first six in the order of struct unwind_rule. */
enum cfi_column {
	CFI_RBX,
	CFI_RBP,
	CFI_R12,
	CFI_R13,
	CFI_R14,
	CFI_R15,
	CFI_RA,
	CFI_RSP,
	CFI_COLUMNS,
};

struct cfi_row {
	struct cfi_value cfa; /* CFI_UNSPECIFIED, CFI_REGISTER or CFI_IS_EXPRESSION */
	struct cfi_value columns[CFI_COLUMNS];
};

struct cfi_cie {
	uint64_t at;   /* place in its section */
	uint64_t base; /* virtual address of a byte of the section, less its address in memory */
	uint64_t code_factor;
	int64_t data_factor;
	uint8_t encoding;    /* of pointers in its FDEs, DW_EH_PE_* */
	uint8_t segment_len; /* bytes */
	bool augmented;	     /* its FDEs have augmentation data */
	bool signal;	     /* they are of signal frames */
	bool broken;	     /* damaged: its FDEs are left out */
	struct cfi_row initial;
};

struct cfi_fde {
	uint64_t start; /* virtual addresses */
	uint64_t end;
	const uint8_t *program;
	uint32_t program_len;
	uint32_t cie; /* index */
};

/* The entries of one or more sections, in their order there. Zero-initialise; cfi_free. */
struct cfi {
	VEC(struct cfi_cie) cies;
	VEC(struct cfi_fde) fdes;
	uint64_t damaged; /* entries that do not parse: left out */
};

struct cfi_section {
	const uint8_t *data; /* kept by the caller as long as the struct cfi */
	size_t len;
	uint64_t address;  /* virtual address of the first byte; unused where !eh */
	bool eh;	   /* .eh_frame, else .debug_frame */
	bool ends_at_zero; /* its end is not known: an entry of length 0 ends it */
};

/* Real files have up to some hundred thousand functions. */
#define CFI_MAX_FDES (8u << 20)

/* Adds the entries of a section. -EFBIG: c would have more than CFI_MAX_FDES functions. */
int cfi_scan(struct cfi *c, const struct cfi_section *s, struct err *e);
void cfi_free(struct cfi *c);

/* Runs an entry's program: visit for each row in rising order of addresses, the first one at
 * fde->start, none at or beyond fde->end. Each row holds to the next. row is NULL from where
 * the program is damaged; the count of damaged entries is the caller's. */
typedef void (*cfi_visit)(void *ctx, uint64_t address, const struct cfi_row *row);
void cfi_run(const struct cfi *c, const struct cfi_fde *fde, cfi_visit visit, void *ctx);

/* An expression of the form *(reg + offset) + add, or reg + offset where !deref. */
struct cfi_place {
	uint8_t reg;
	bool deref;
	int64_t offset;
	int64_t add;
};
bool cfi_place_of(const struct cfi_value *v, struct cfi_place *ret);

/* The linkers' expression for .plt: rsp + offset + ((rip & 15) >= at ? 8 : 0). */
bool cfi_plt_of(const struct cfi_value *v, int64_t *ret_offset, uint8_t *ret_at);
