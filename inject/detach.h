/* detach.h - CUPTI goes out of the process. */
#pragma once

#include "cupti_abi.h"

/* NULL, or the sentence that says who uses CUPTI already. */
const char *detach_other_user(const struct cupti *c);

/* Ends CUPTI (cuptiFinalize) where a call of the driver returns; where none does within a
 * second, here. NULL when CUPTI knows nothing of us any more, else the sentence that says why it
 * stays. Recording is off and all was handed over. */
const char *detach_cupti(const struct cupti *c);
