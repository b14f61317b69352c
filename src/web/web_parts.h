/* web_parts.h - the page in pieces, as web/build.py makes them, or web_none.c. Each ends in a NUL.
 */
#pragma once

extern const char web_part_head[]; /* up to what scripts may ask; "": there is no page */
extern const char web_part_body[]; /* from there up to the data */
extern const char web_part_tail[];
extern const char web_part_policy[]; /* its Content-Security-Policy, up to what scripts may ask */
