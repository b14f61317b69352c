/* python_api.h - the functions of CPython that are called, as its own headers have them. They are
 * looked up while the process runs: most have no interpreter. All are public, but for those with an
 * underscore, which have had these names since 3.6 (_PyCode_*) or in 3.8 alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct PyObject PyObject;
typedef struct PyThreadState PyThreadState;
typedef struct PyInterpreterState PyInterpreterState;
typedef PyObject *python_function(PyObject *self, PyObject *const *args, ssize_t n);
typedef int python_profiler(PyObject *self, PyObject *frame, int what, PyObject *arg);
typedef int python_auditor(const char *event, PyObject *args, void *ctx);

struct python_method { /* PyMethodDef */
	const char *name;
	python_function *function;
	int flags;
	const char *doc;
};
#define PYTHON_FASTCALL 0x0080 /* METH_FASTCALL */

struct python_allocator { /* PyMemAllocatorEx */
	void *ctx;
	void *(*malloc)(void *ctx, size_t bytes);
	void *(*calloc)(void *ctx, size_t n, size_t bytes);
	void *(*realloc)(void *ctx, void *memory, size_t bytes);
	void (*free)(void *ctx, void *memory);
};
#define PYTHON_DOMAIN_RAW 0 /* PYMEM_DOMAIN_RAW */

/* Result, name here, arguments, and what it is called. */
#define PYTHON_FUNCTIONS(X)                                                                        \
	X(int, add_hook, (python_auditor *, void *), "PySys_AddAuditHook")                         \
	X(void, get_allocator, (int, struct python_allocator *), "PyMem_GetAllocator")             \
	X(void, set_allocator, (int, struct python_allocator *), "PyMem_SetAllocator")             \
	X(int, is_initialized, (void), "Py_IsInitialized")                                         \
	X(const char *, version, (void), "Py_GetVersion")                                          \
	X(PyInterpreterState *, main_interpreter, (void), "PyInterpreterState_Main")               \
	X(PyThreadState *, thread, (void), "PyThreadState_Get")                                    \
	X(PyThreadState *, first_thread, (PyInterpreterState *), "PyInterpreterState_ThreadHead")  \
	X(PyThreadState *, next_thread, (PyThreadState *), "PyThreadState_Next")                   \
	X(PyThreadState *, swap_thread, (PyThreadState *), "PyThreadState_Swap")                   \
	X(void, set_profile, (python_profiler *, PyObject *), "PyEval_SetProfile")                 \
	X(PyObject *, sys_object, (const char *), "PySys_GetObject")                               \
	X(PyObject *, call, (PyObject *, PyObject *), "PyObject_CallObject")                       \
	X(PyObject *, call_method, (PyObject *, const char *, const char *, ...),                  \
	  "PyObject_CallMethod")                                                                   \
	X(PyObject *, attribute, (PyObject *, const char *), "PyObject_GetAttrString")             \
	X(PyObject *, new_function, (struct python_method *, PyObject *, PyObject *),              \
	  "PyCFunction_NewEx")                                                                     \
	X(void *, function_of, (PyObject *), "PyCFunction_GetFunction")                            \
	X(long, to_long, (PyObject *), "PyLong_AsLong")                                            \
	X(const char *, to_utf8, (PyObject *, ssize_t *), "PyUnicode_AsUTF8AndSize")               \
	X(PyObject *, encode, (PyObject *, const char *, const char *),                            \
	  "PyUnicode_AsEncodedString")                                                             \
	X(char *, bytes_of, (PyObject *), "PyBytes_AsString")                                      \
	X(PyObject *, import, (const char *), "PyImport_ImportModule")                             \
	X(void, hold, (PyObject *), "Py_IncRef")                                                   \
	X(void, drop, (PyObject *), "Py_DecRef")                                                   \
	X(void, error_fetch, (PyObject **, PyObject **, PyObject **), "PyErr_Fetch")               \
	X(void, error_restore, (PyObject *, PyObject *, PyObject *), "PyErr_Restore")              \
	X(void, error_clear, (void), "PyErr_Clear")                                                \
	X(int, later, (int (*)(void *), void *), "Py_AddPendingCall")

/* Each may have one of two names, or, where it is not needed in every version, none. */
#define PYTHON_VARYING(X)                                                                          \
	X(PyInterpreterState *, interpreter, (void), "PyInterpreterState_Get",                     \
	  "_PyInterpreterState_Get")                                                               \
	X(PyObject *, code_of_frame, (PyObject *), "PyFrame_GetCode", NULL)                        \
	X(uint64_t, thread_number, (PyThreadState *), "PyThreadState_GetID", NULL)                 \
	X(PyThreadState *, new_thread, (PyInterpreterState *), "PyThreadState_New", NULL)          \
	X(void, clear_thread, (PyThreadState *), "PyThreadState_Clear", NULL)                      \
	X(void, delete_thread, (PyThreadState *), "PyThreadState_Delete", NULL)                    \
	X(ssize_t, code_index, (void (*)(void *)), "PyUnstable_Eval_RequestCodeExtraIndex",        \
	  "_PyEval_RequestCodeExtraIndex")                                                         \
	X(int, code_extra, (PyObject *, ssize_t, void **), "PyUnstable_Code_GetExtra",             \
	  "_PyCode_GetExtra")                                                                      \
	X(int, code_set_extra, (PyObject *, ssize_t, void *), "PyUnstable_Code_SetExtra",          \
	  "_PyCode_SetExtra")

struct python_api {
#define PYTHON_MEMBER(result, name, args, ...) result(*name) args;
	PYTHON_FUNCTIONS(PYTHON_MEMBER)
	PYTHON_VARYING(PYTHON_MEMBER)
#undef PYTHON_MEMBER
	PyObject *none;
	int minor; /* of version 3; 0 until python_api_version */
};

extern struct python_api python;

/* False where the process has no interpreter that can be asked. */
bool python_api_find(void);

/* Once it is initialized: whether it is a version whose functions are known to be these. */
bool python_api_version(void);
