/* report_html.c - puts the report's JSON, cut to a bounded size, and what is drawn beside it into
 * the page. What each block of data is: web/src/data.ts. */
#include "report/report_html.h"

#include <errno.h>
#include <string.h>

#include "base/buffer.h"
#include "report/report_account.h"
#include "report/report_json.h"
#include "web/web_page.h"

#define REPORT_BYTES ((size_t)2 << 20) /* of the report's JSON */
#define LIST_MOST    4096	       /* elements of a list at first, */
#define LIST_LEAST   8		       /* and when nothing else helps */
#define KEYS_LEAST   64		       /* keys of an object are names as well */
#define TEXT_MOST    1024	       /* bytes of a string */
#define PATH_BYTES   256
#define DUMP	     (JSON_COMPACT | JSON_REAL_PRECISION(9))

void report_html_left_out(json_t *list, const char *what, uint64_t shown, uint64_t of)
{
	if (shown < of)
		json_array_append_new(
			list, json_pack("{s:o, s:o, s:o}", "what", report_text_json(what), "shown",
					report_number_json(shown), "of", report_number_json(of)));
}

/* ---- the report, cut ---- */

struct cutter {
	size_t most;
	json_t *left_out;
};

static void cut(json_t *of, const char *path, const struct cutter *c);

static void cut_list(json_t *list, const char *path, const struct cutter *c)
{
	size_t n = json_array_size(list);
	report_html_left_out(c->left_out, path, n < c->most ? n : c->most, n);
	while (n > c->most)
		json_array_remove(list, --n);
	for (size_t i = 0; i < n; i++)
		cut(json_array_get(list, i), path, c);
}

static void cut_keys(json_t *object, const char *path, const struct cutter *c)
{
	size_t n = json_object_size(object), most = c->most > KEYS_LEAST ? c->most : KEYS_LEAST;
	void *next = json_object_iter(object);
	report_html_left_out(c->left_out, path, n < most ? n : most, n);
	for (size_t i = 0; next && i < most; i++)
		next = json_object_iter_next(object, next);
	while (next) {
		const char *key = json_object_iter_key(next);
		next = json_object_iter_next(object, next);
		json_object_del(object, key);
	}
}

static void cut_text(json_t *text)
{
	struct buf kept = {0};
	size_t len = TEXT_MOST; /* not within a character */
	while (len && ((uint8_t)json_string_value(text)[len] & 0xc0) == 0x80)
		len--;
	buf_add(&kept, json_string_value(text), len);
	buf_printf(&kept, "...");
	json_string_setn(text, (const char *)kept.data, kept.len);
	buf_free(&kept);
}

static void cut_object(json_t *object, const char *path, const struct cutter *c)
{
	const char *key;
	json_t *value;
	char under[PATH_BYTES];
	cut_keys(object, path, c);
	json_object_foreach (object, key, value) {
		snprintf(under, sizeof(under), "%s%s%s", path, *path ? "." : "", key);
		cut(value, under, c);
	}
}

static void cut(json_t *of, const char *path, const struct cutter *c)
{
	if (json_is_array(of))
		cut_list(of, path, c);
	else if (json_is_object(of))
		cut_object(of, path, c);
	else if (json_string_length(of) > TEXT_MOST)
		cut_text(of);
}

/* While it is put together: a list of a hundred thousand is never there as a whole. */
static void cut_value(void *ctx, const char *path, json_t *v)
{
	cut(v, path, ctx);
}

static void tell_list(void *ctx, const char *path, size_t shown, size_t of)
{
	const struct cutter *c = ctx;
	report_html_left_out(c->left_out, path, shown, of);
}

static json_int_t shown_of(const json_t *row)
{
	return json_integer_value(json_object_get(row, "shown"));
}

/* Lists within lists say it many times, and a list that was cut twice its second length: of each
 * path the first row stays, with the least that is shown. */
static json_t *said_once(const json_t *rows)
{
	json_t *ret = json_array(), *place = json_object();
	size_t i;
	json_t *row;
	json_array_foreach ((json_t *)rows, i, row) {
		const char *what = json_string_value(json_object_get(row, "what"));
		json_t *before = json_object_get(place, what);
		if (!before) {
			json_object_set(place, what, row);
			json_array_append(ret, row);
		} else if (shown_of(row) < shown_of(before)) {
			json_object_set(before, "shown", json_object_get(row, "shown"));
		}
	}
	json_decref(place);
	return ret;
}

/* The report's JSON, within bounds: the longest list that is allowed is halved until all fits. */
static json_t *report_cut(const struct report *r, json_t *left_out)
{
	json_t *all = json_array();
	struct cutter c = {LIST_MOST, all};
	const struct json_stream_limits limits = {LIST_MOST, &c, cut_value, tell_list};
	json_t *ret = report_json_within(r, &limits);
	while (c.most > LIST_LEAST && json_dumpb(ret, NULL, 0, DUMP) > REPORT_BYTES) {
		c.most /= 2;
		cut(ret, "", &c);
	}
	json_t *once = said_once(all);
	json_array_extend(left_out, once);
	json_decref(once);
	json_decref(all);
	return ret;
}

/* ---- the page ---- */

static json_t *about_json(json_t *left_out)
{
	json_t *owners = json_object();
	for (int i = 0; i < ACCOUNT_OWNERS; i++)
		json_object_set_new(owners, account_owner_id((enum account_owner)i),
				    json_string(account_owner_words((enum account_owner)i)));
	return json_pack("{s:s, s:O, s:o}", "version", EACGM_VERSION, "left_out", left_out,
			 "owners", owners);
}

static void put(struct buf *to, const char *id, json_t *data)
{
	web_page_data(to, id, data);
	json_decref(data);
}

static void put_all(struct buf *page, const struct report *r, const json_t *report,
		    json_t *left_out)
{
	web_page_begin(page, "'none'");
	web_page_data(page, "eacgm-report", report);
	put(page, "eacgm-steps", report_html_steps(r, left_out));
	put(page, "eacgm-counters", report_html_counters(r, left_out));
	put(page, "eacgm-flames", report_html_flames(r, left_out));
	put(page, "eacgm-anomalies", report_html_anomalies(r, left_out));
	put(page, "eacgm-timeline", report_html_timeline(r, left_out));
	put(page, "eacgm-about", about_json(left_out));
	web_page_end(page);
}

int report_html(FILE *to, const struct report *r, struct err *e)
{
	if (!web_page_is_there())
		return err_set(e, ENOTSUP, WEB_PAGE_MISSING);
	struct buf page = {0};
	json_t *left_out = json_array(), *report = report_cut(r, left_out);
	int rc = 0;
	put_all(&page, r, report, left_out);
	errno = 0;
	if (fwrite(page.data, 1, page.len, to) != page.len)
		rc = err_set(e, errno ? errno : EIO, "cannot write the page: %s",
			     strerror(errno ? errno : EIO));
	json_decref(left_out);
	json_decref(report);
	buf_free(&page);
	return rc;
}
