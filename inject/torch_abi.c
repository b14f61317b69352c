/* torch_abi.c - looks whether a process's PyTorch has the interface that we know.
 *
 * First by symbols: the constructor from StepCallbacks is there since callbacks may come and go
 * while others run operators (their list is copied under a lock, 1.13). Then by trying: for this
 * thread alone a callback is registered, an operator with a made-up name and number is begun and
 * ended, and it must be seen as such, once, in a record at the address that we gave. The number
 * then tells where in a record it is kept. */
#include "torch_abi.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define RECORD_BYTES 8192 /* at::RecordFunction takes some 500 */
#define TRY_NAME     "eacgm"
#define TRY_NUMBER   0x5eac63d1f20b7a49LL

struct record_space {
	uint64_t bytes[RECORD_BYTES / 8];
} __attribute__((aligned(64)));

/* std::string_view, c10::string_view and the index of the variant that they are in. */
struct descriptor_std {
	size_t len;
	const char *text;
	uint64_t index;
};
struct descriptor_c10 {
	const char *text;
	size_t len;
	uint64_t index;
};

struct symbols {
	uint64_t (*add_local)(struct torch_callback);
	void (*construct)(void *record, uint8_t scope);
	void (*destroy)(void *record);
	void (*before_text)(void *record, const char *text, int64_t number);
	void (*before_std)(void *record, struct descriptor_std d, int64_t number);
	void (*before_c10)(void *record, struct descriptor_c10 d, int64_t number);
};

/* What the tried callbacks saw. */
static struct {
	const struct torch_abi *abi;
	const void *record;
	int starts, ends;
	bool named;
	size_t offset; /* 0 = the number was not found */
} seen;

static void **try_start(void **ret, const struct torch_record *record)
{
	*ret = NULL;
	seen.starts++;
	if (record != seen.record)
		return ret;
	const char *name = seen.abi->name(record);
	seen.named = name && !strcmp(name, TRY_NAME);
	for (size_t i = 0; i < RECORD_BYTES / 8; i++)
		if (((const struct record_space *)seen.record)->bytes[i] == (uint64_t)TRY_NUMBER)
			seen.offset = 8 * i;
	return ret;
}

static void try_end(const struct torch_record *record, void *context)
{
	seen.ends += record == seen.record && !context;
}

static void begin(const struct symbols *s, void *record)
{
	size_t len = strlen(TRY_NAME);
	if (s->before_text)
		s->before_text(record, TRY_NAME, TRY_NUMBER);
	else if (s->before_std)
		s->before_std(record, (struct descriptor_std){len, TRY_NAME, 0}, TRY_NUMBER);
	else
		s->before_c10(record, (struct descriptor_c10){TRY_NAME, len, 0}, TRY_NUMBER);
}

static bool try_out(struct torch_abi *abi, const struct symbols *s)
{
	static struct record_space space;
	struct torch_callback callback = {.start = try_start, .end = try_end, .probability = 1};
	callback.scopes[TORCH_SCOPE_FUNCTION] = 1;
	memset(&space, 0, sizeof(space));
	memset(&seen, 0, sizeof(seen));
	seen.abi = abi;
	seen.record = &space;
	uint64_t handle = s->add_local(callback);
	s->construct(&space, TORCH_SCOPE_FUNCTION);
	begin(s, &space);
	s->destroy(&space);
	abi->remove(handle);
	abi->sequence_offset = seen.offset;
	return handle && seen.starts == 1 && seen.ends == 1 && seen.named && seen.offset;
}

/* Nothing is opened in here: the loader's lock is held. */
static int is_torch(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const char name[] = "libtorch_cpu";
	const char *slash = strrchr(info->dlpi_name, '/');
	(void)size;
	if (!slash || strncmp(slash + 1, name, sizeof(name) - 1) != 0)
		return 0;
	snprintf(arg, 4096, "%s", info->dlpi_name);
	return 1;
}

static void *look_up(void *library, const char *symbol)
{
	return dlsym(library, symbol);
}

#define RECORD "_ZN2at14RecordFunction"

static bool find_symbols(void *library, struct torch_abi *abi, struct symbols *s)
{
#define FIND(place, symbol) *(void **)&(place) = look_up(library, symbol)
	FIND(abi->add_global, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
	FIND(abi->remove, "_ZN2at14removeCallbackEm");
	FIND(abi->name, "_ZNK2at14RecordFunction4nameEv");
	FIND(s->add_local, "_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE");
	FIND(s->construct, RECORD "C1ENS_11RecordScopeE");
	FIND(s->destroy, RECORD "D1Ev");
	FIND(s->before_text, RECORD "6beforeEPKcl");
	FIND(s->before_std, RECORD "6beforeESt7variantIJSt17basic_string_viewIcSt11char_traitsIcEE"
				   "St17reference_wrapperIKN3c1014FunctionSchemaEEEEl");
	FIND(s->before_c10, RECORD "6beforeESt7variantIJN3c1017basic_string_viewIcEE"
				   "St17reference_wrapperIKNS2_14FunctionSchemaEEEEl");
#undef FIND
	return look_up(library, RECORD "C1EONS_13StepCallbacksE") && abi->add_global &&
	       abi->remove && abi->name && s->add_local && s->construct && s->destroy &&
	       (s->before_text || s->before_std || s->before_c10);
}

int torch_abi_find(struct torch_abi *ret, const char **why)
{
	char path[4096] = "";
	struct symbols s = {0};
	if (!dl_iterate_phdr(is_torch, path))
		return 0;
	void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	if (!library)
		return 0;
	*ret = (struct torch_abi){.library = library};
	*why = NULL;
	if (!find_symbols(library, ret, &s))
		*why = "this PyTorch has other functions for it";
	else if (!try_out(ret, &s))
		*why = "this PyTorch's records have another layout";
	if (*why)
		dlclose(library);
	return *why ? -1 : 1;
}

bool torch_is_loaded(void)
{
	char path[4096];
	return dl_iterate_phdr(is_torch, path) != 0;
}
