/* cfi_program.h - what reads a CIE needs of what runs its program. Internal to eh_frame.h's files.
 */
#pragma once

#include "symbolize/cfi_bytes.h"
#include "symbolize/eh_frame.h"

/* Makes cie->initial of its program; false: that is damaged. */
bool cfi_run_initial(struct cfi_cie *cie, const struct bytes *program);
