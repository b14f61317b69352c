/* anomaly_row_test.c - anomalies are rows of recordings: what was told comes out of a file again.
 *
 * links: incident detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/types.h>

#include "incident/anomaly_list.h"
#include "incident/anomaly_row.h"
#include "recording/recording.h"

static struct anomaly slow = {
	.id = 3,
	.start_ns = 100,
	.end_ns = 300,
	.told_ns = 200,
	.layer = DETECT_TORCH,
	.layer_name = "torch",
	.pid = 42,
	.gpu = -1,
	.name = "aten::mm",
	.p_value = 1e-9,
	.score = 9,
	.lost_ns = NAN,
	.windows = 2,
	.features = {{"slowdown", "ln ratio", 0.5, 0, 0.75}, {"gap", "ln ratio", NAN, 0.1, 0.25}},
	.features_len = 2,
	.calls = {{"aten::mm [4, 4]", 7, 1.5, 1, 3.5}},
	.calls_len = 1,
	.why = "it was slow",
};

/* As a session does it: texts become strings of the recording. */
static void put(struct rec_writer *w, const struct anomaly *a)
{
	const struct row_kind_info *k = row_kind_info(ROW_ANOMALY);
	struct anomaly_texts texts;
	struct m_anomaly row;
	anomaly_to_row(&row, &texts, a);
	for (size_t f = 0; f < k->nfields; f++)
		for (size_t i = 0; k->fields[f].means == MEANS_STRING && i < k->fields[f].count;
		     i++) {
			uint64_t n = row_value(&k->fields[f], &row, i);
			assert_true(n <= texts.len);
			if (n)
				row_set_value(&k->fields[f], &row, i,
					      rec_string_z(w, texts.of[n - 1]));
		}
	rec_put_anomaly(w, &row);
}

static void read_back(struct rec_reader **ret, void (*write)(struct rec_writer *w))
{
	char path[] = "/tmp/anomaly_row_test.XXXXXX";
	struct rec_writer *w = NULL;
	struct err e = {0};
	close(mkstemp(path));
	assert_int_equal(rec_writer_open(&w, path, NULL, &e), 0);
	write(w);
	assert_int_equal(rec_writer_close(w, false, &e), 0);
	assert_int_equal(rec_open(ret, path, &e), 0);
	unlink(path);
}

static void write_told(struct rec_writer *w)
{
	struct err e;
	struct anomaly gpu = {.id = 1,
			      .start_ns = 50,
			      .end_ns = 60,
			      .layer = DETECT_HARDWARE,
			      .layer_name = "hardware",
			      .name = "power_w",
			      .p_value = 0.5};
	put(w, &slow);
	put(w, &gpu);
	assert_int_equal(rec_flush(w, &e), 0);
	slow.end_ns = 500; /* it goes on, and ends */
	slow.ended = true;
	slow.windows = 4;
	put(w, &slow);
}

static void what_was_told_comes_back(void **state)
{
	(void)state;
	struct rec_reader *r;
	struct anomaly_list l = {0};
	read_back(&r, write_told);
	anomaly_list_told(&l, rec_tables(r), rec_source(r));
	assert_int_equal(l.rows.len, 2);
	assert_int_equal(l.rows.data[0].a.gpu, 0);
	assert_int_equal(l.rows.data[0].rarer, 1);
	assert_false(l.rows.data[0].a.ended);
	assert_true(l.rows.data[0].a.incident == 1 && l.rows.data[1].a.incident == 1);
	const struct anomaly *a = &l.rows.data[1].a;
	assert_true(a->id == 3 && a->start_ns == 100 && a->end_ns == 500 && a->told_ns == 200);
	assert_true(a->ended && a->layer == DETECT_TORCH && a->pid == 42 && a->gpu == -1);
	assert_true(a->p_value == 1e-9 && a->score == 9 && isnan(a->lost_ns) && a->windows == 4);
	assert_string_equal(a->name, "aten::mm");
	assert_string_equal(a->why, "it was slow");
	assert_int_equal(a->features_len, 2);
	assert_string_equal(a->features[1].name, "gap");
	assert_string_equal(a->features[1].unit, "ln ratio");
	assert_true(a->features[0].value == 0.5 && a->features[0].share_ratio == 0.75);
	assert_true(isnan(a->features[1].value) && a->features[1].usual == 0.1);
	assert_int_equal(a->calls_len, 1);
	assert_string_equal(a->calls[0].key, "aten::mm [4, 4]");
	assert_true(a->calls[0].calls == 7 && a->calls[0].mean_ns == 1.5 &&
		    a->calls[0].usual_ns == 1 && a->calls[0].more_ns == 3.5);
	anomaly_list_free(&l);
	rec_close(r);
}

/* Of a later version, or made to do harm. */
static void write_odd(struct rec_writer *w)
{
	struct m_anomaly row = {.id = 1, .layer = rec_string_z(w, "quan tum"), .p_value = 0.1};
	rec_put_anomaly(w, &row);
	row = (struct m_anomaly){.id = 2,
				 .start_ns = 9,
				 .end_ns = 5,
				 .layer = rec_string_z(w, "host"),
				 .p_value = NAN};
	rec_put_anomaly(w, &row);
}

static void odd_rows_are_put_right_or_left_out(void **state)
{
	(void)state;
	struct rec_reader *r;
	struct anomaly_list l = {0};
	read_back(&r, write_odd);
	anomaly_list_told(&l, rec_tables(r), rec_source(r));
	assert_int_equal(l.rows.len, 1);
	assert_true(l.rows.data[0].a.end_ns == 9 && l.rows.data[0].a.p_value == 1);
	anomaly_list_free(&l);
	rec_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_told_comes_back),
		cmocka_unit_test(odd_rows_are_put_right_or_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
