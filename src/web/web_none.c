/* web_none.c - the pieces of a program that was built without the page. */
#include "web/web_parts.h"

const char web_part_head[] = "";
const char web_part_body[] = "";
const char web_part_tail[] = "";
const char web_part_policy[] = "";
