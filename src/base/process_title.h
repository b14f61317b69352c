/* process_title.h - what ps and /proc/PID/cmdline say of a process that was forked from a program:
 * its own name, not the program's command line. */
#pragma once

/* To be called by main. Without it process_title_set sets the thread's name alone. argv's strings
 * stay as they are, but in processes that are forked and set a title. */
void process_title_begin(int argc, char **argv);

/* Of the process that calls it, which reads no argument of its program's any more. */
void process_title_set(const char *title);
