/* sqlite.h - a recording as a database of SQLite: what export and query share. */
#pragma once

#include <sqlite3.h>

#include "export/sink.h"

/* A sink of sink_sqlite's functions over an open, empty database, which stays the caller's. */
struct sink *sqlite_sink(sqlite3 *db, const struct rec_tables *t);

/* Opens the empty file behind a descriptor, whatever it is called by now, for one writer and
 * without a journal. NULL: errno says why. */
struct sqlite_file;
struct sqlite_file *sqlite_file_open(int fd);
sqlite3 *sqlite_file_db(const struct sqlite_file *f);
/* The errno of a read or write that failed; 0: none did. */
int sqlite_file_errno(const struct sqlite_file *f);
void sqlite_file_close(struct sqlite_file *f);

/* What went wrong, as errno. rc: SQLite's code of what failed last. */
int sqlite_errno(sqlite3 *db, int rc);
