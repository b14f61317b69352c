/* store_schema.h - the tables and views of a store, and which version of them a file has.
 *
 * PRAGMA application_id says that a file is a store, PRAGMA user_version how many of the steps
 * below it has seen. Steps are append only. */
#pragma once

#include <sqlite3.h>
#include <stddef.h>

#include "base/error.h"

#define STORE_APPLICATION 0x65615354 /* "eaST" */

/* Step i brings a file from version i to version i + 1. */
extern const char *const store_schema_steps[];
extern const size_t store_schema_version; /* how many there are */

/* Brings an open database to a version, in one transaction. SQLITE_OK; SQLITE_MISMATCH with a
 * sentence for what is no store or newer; another code of SQLite. */
int store_schema_bring(sqlite3 *db, const char *const *steps, size_t version, const char *path,
		       struct err *e);
