/* xid_test.c - what becomes of the driver's Xid records: of which GPU they are told, their text,
 * and records that are cut or are of a GPU that nobody knows. How the kernel side reads the
 * tracepoint is not tested here.
 *
 * links: base collect symbolize */
#include <errno.h>

#include "fake_host.h"

#include "collect/gpu_places.h"
#include "collect/nvml.h"

#define COLLECTOR collector_xid

static int watched;

static int watch(void *kernel, uint8_t record, struct err *e)
{
	assert_ptr_equal(kernel, &watched);
	assert_int_equal(record, COLLECTOR.record);
	if (watched < 0)
		return err_set(e, EPERM, "may not be watched");
	watched++;
	return 0;
}

static void *open_with(struct collect_env *env, struct gpu_places *places)
{
	struct gpu_info gpu = {.index = 3, .parent = -1, .bus_id = "00000000:1B:00.0"};
	void *state = NULL;
	struct err e;
	*env = (struct collect_env){.kernel = &watched, .watch = watch, .gpu_places = places};
	gpu_places_put(places, &gpu);
	assert_int_equal(COLLECTOR.open(&state, env, &fake_sink, &e), 0);
	assert_non_null(state);
	return state;
}

static void take(void *c, unsigned code, const char *bus, const char *text)
{
	struct rec_xid r = {.kind = REC_XID, .code = code, .time_ns = 5};
	memcpy(r.bus, bus, strnlen(bus, sizeof(r.bus)));
	memcpy(r.text, text, strnlen(text, sizeof(r.text)));
	COLLECTOR.take_record(c, &r);
}

static void of_which_gpu(void **state)
{
	(void)state;
	struct gpu_places *places = gpu_places_new();
	struct collect_env env;
	watched = 0;
	void *c = open_with(&env, places);
	assert_int_equal(watched, 1);
	assert_true(gpu_places_xid_by_kernel(places)); /* NVML need not tell them too */
	take(c, 79, "0000:1b:00", "GPU has fallen off the bus.");
	expect("gpu 3 xid: 79: GPU has fallen off the bus.\n");
	take(c, 13, "0000:1b:00.0", "Graphics Exception"); /* with the function */
	expect("gpu 3 xid: 13: Graphics Exception\n");
	take(c, 31, "0000:65:00", "MMU Fault"); /* that NVML does not list */
	expect("gpu at 0000:65:00 xid: 31: MMU Fault\n");
	take(c, 31, "0001:1b:00", "MMU Fault"); /* another domain */
	expect("gpu at 0001:1b:00 xid: 31: MMU Fault\n");
	COLLECTOR.close(c);
	gpu_places_free(places);
}

/* Fields that are empty, are no address, or are full: the kernel ends none that it cuts. */
static void records_that_are_cut(void **state)
{
	(void)state;
	struct gpu_places *places = gpu_places_new();
	struct collect_env env;
	char bus[64], text[512], line[640];
	void *c = open_with(&env, places);
	take(c, 0, "", "");
	expect("gpu at  xid: 0: \n");
	take(c, 4294967295u, "0000:1b", "pid=17, na");
	expect("gpu at 0000:1b xid: 4294967295: pid=17, na\n");
	take(c, 48, "%s%n", "%s%s%n");
	expect("gpu at %s%n xid: 48: %s%s%n\n");
	memset(bus, 'f', sizeof(bus) - 1);
	memset(text, 'x', sizeof(text) - 1);
	bus[sizeof(bus) - 1] = text[sizeof(text) - 1] = 0;
	take(c, 8, bus, text);
	snprintf(line, sizeof(line), "gpu at %.32s xid: 8: %.256s\n", bus, text);
	expect(line);
	COLLECTOR.close(c);
	gpu_places_free(places);
}

static void where_nobody_tells(void **state)
{
	(void)state;
	struct gpu_places *places = gpu_places_new();
	struct collect_env env = {.kernel = &watched, .gpu_places = places};
	void *c = NULL;
	struct err e;
	assert_int_equal(COLLECTOR.open(&c, &env, &fake_sink, &e), -EOPNOTSUPP);
	env.watch = watch;
	watched = -1;
	assert_int_equal(COLLECTOR.open(&c, &env, &fake_sink, &e), -EPERM);
	assert_null(c);
	assert_false(gpu_places_xid_by_kernel(places)); /* so that NVML goes on telling them */
	gpu_places_free(places);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(of_which_gpu, fake_host_make, fake_host_remove),
		cmocka_unit_test_setup_teardown(records_that_are_cut, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(where_nobody_tells, fake_host_make,
						fake_host_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
